//! What threads have one at a time: a lock, and a word of the cache that several write.
//!
//! Invariant: asked in the order of time, so who comes first is served first. A lock's waiters spin
//! for a while and then sleep, as those of the core do.

use crate::costs::Costs;

/// Who waits longer than this for a lock sleeps, and has to be woken.
const SPIN_NS: f64 = 40_000.0;

/// One thing that threads share, and how much it was used.
#[derive(Clone, Debug)]
pub struct Serial {
    owner: usize,
    free_at: f64,
    /// Time that threads had it.
    pub held_ns: f64,
    /// Time that they waited for it.
    pub waited_ns: f64,
    /// How often one had it.
    pub uses: u64,
}

/// When a thread has it, and when it is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    pub begins: f64,
    pub ends: f64,
}

impl Serial {
    /// Nobody's.
    pub fn new() -> Self {
        Self { owner: usize::MAX, free_at: 0.0, held_ns: 0.0, waited_ns: 0.0, uses: 0 }
    }

    fn serve(&mut self, who: usize, now: f64, begins: f64, holds: f64) -> Use {
        let ends = begins + holds;
        self.owner = who;
        self.free_at = ends;
        self.held_ns += holds;
        self.waited_ns += begins - now;
        self.uses += 1;
        Use { begins, ends }
    }

    /// `who` takes it as a lock for `holds` nanoseconds, and for `moved` more if another had it
    /// before.
    pub fn lock(&mut self, costs: &Costs, who: usize, now: f64, holds: f64, moved: f64) -> Use {
        let mut begins = self.free_at.max(now);
        if begins - now > SPIN_NS {
            begins += costs.woken_ns;
        }
        let moved = if self.owner == who { 0.0 } else { moved };
        self.serve(who, now, begins, holds + moved)
    }

    /// `who` adds to it as a word.
    pub fn add(&mut self, costs: &Costs, who: usize, now: f64) -> Use {
        let takes = if self.owner == who { costs.add_ns } else { costs.line_ns + costs.add_ns };
        self.serve(who, now, self.free_at.max(now), takes)
    }
}

impl Default for Serial {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_while_another_has_it_waits_and_pays_for_the_way() {
        let costs = Costs { line_ns: 100.0, add_ns: 5.0, woken_ns: 4000.0, ..Costs::HERE };
        let mut lock = Serial::new();
        assert_eq!(lock.lock(&costs, 0, 0.0, 1000.0, 0.0), Use { begins: 0.0, ends: 1000.0 });
        assert_eq!(lock.lock(&costs, 1, 400.0, 1000.0, 50.0).ends, 2050.0);
        assert_eq!(lock.lock(&costs, 1, 5000.0, 1000.0, 50.0).ends, 6000.0);
        assert_eq!((lock.waited_ns, lock.held_ns, lock.uses), (600.0, 3050.0, 3));
        lock.lock(&costs, 0, 6000.0, 100_000.0, 0.0);
        assert_eq!(lock.lock(&costs, 1, 6001.0, 1.0, 0.0).begins, 110_000.0, "it slept");
        let mut word = Serial::new();
        word.add(&costs, 0, 0.0);
        assert_eq!(word.add(&costs, 0, 1000.0).ends, 1005.0);
        assert_eq!(word.add(&costs, 1, 1000.0).ends, 1110.0);
    }
}
