//! Minor or full: which kind the next cycle is, from what the last ones yielded.
//!
//! Pure. A minor cycle keeps the mark bits: what is marked counts as live without being looked at,
//! and what was written since the last cycle is the remembered set (A. Demers, M. Weiser, B. Hayes,
//! H. Boehm, D. Bobrow, S. Shenker, "Combining generational and conservative garbage collection:
//! framework and implementations", POPL 1990). It is worth its while as long as it gives back
//! memory at less work than a full one would, and as long as what it wrongly keeps does not eat up
//! the room between cycles.

/// How a cycle goes about what is marked already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Generation {
    /// Everything is marked anew.
    #[default]
    Full,
    /// What is marked stays marked.
    Minor,
}

/// What a cycle came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yield {
    /// Bytes allocated since the cycle before.
    pub allocated_bytes: usize,
    /// Bytes that the cycle gave back.
    pub freed_bytes: usize,
    /// Time that the collector spent on it, on all threads, nanoseconds.
    pub work_ns: u64,
}

impl Yield {
    /// Bytes per nanosecond.
    fn rate(&self) -> f64 {
        self.freed_bytes as f64 / self.work_ns.max(1) as f64
    }

    /// Of `whole` bytes that were allocated, so many are still there.
    pub fn surviving(&self, whole: usize) -> usize {
        let part = 1.0 - self.freed_bytes as f64 / self.allocated_bytes.max(1) as f64;
        (part.clamp(0.0, 1.0) * whole as f64) as usize
    }

    /// Whether most of what was allocated is still there: the heap grows.
    pub fn stays(&self) -> bool {
        self.freed_bytes < self.allocated_bytes / 2
    }
}

/// What the choice rests on. Owned by who ends a cycle.
#[derive(Clone, Copy, Debug)]
pub struct Generations {
    /// Bytes that the heap may hold until a full cycle is due; set by the last full cycle.
    limit: usize,
    /// Bytes that could be allocated after the last full cycle.
    room: usize,
    /// Bytes per nanosecond of the last full cycle, 0 before the first.
    full_rate: f64,
    /// What the last full cycle took for each byte that was alive after it, nanoseconds.
    full_ns: f64,
    /// Smoothed bytes per nanosecond of minor cycles, 0 before the first.
    minor_rate: f64,
    /// Whether most of what was allocated before the last cycle is still there, and also was before
    /// the last full one: a minor one keeps what died old.
    stays: bool,
    /// Full cycles to go before minor ones are tried again.
    barred: u32,
    /// How many full cycles they are barred for the next time they do not pay.
    bar: u32,
}

/// A page that is written between cycles costs the program a fault, which only a minor cycle after
/// them needs. Larger: fewer minor cycles in small heaps, whose marking costs less than the faults;
/// smaller: more of them.
pub const WRITTEN_PAGE_NS: u64 = 2_500;

/// A minor cycle needs this part of the room that a full one left. Larger: more full cycles;
/// smaller: more cycles in all.
const LEAST_ROOM: f64 = 0.5;
/// A minor cycle of a heap that grows is at most this part of the work of a full one. Larger: minor
/// ones also where the program writes to most of the heap; smaller: larger steps there.
const MOST_WORK: f64 = 0.75;
/// Minor cycles that do not pay are left out for this many full cycles at first, and for twice as
/// many each time after.
const FIRST_BAR: u32 = 4;
const LONGEST_BAR: u32 = 64;

impl Generations {
    /// Before the first cycle.
    pub const fn new() -> Self {
        Self {
            limit: 0,
            room: 0,
            full_rate: 0.0,
            full_ns: 0.0,
            minor_rate: 0.0,
            stays: false,
            barred: 0,
            bar: FIRST_BAR,
        }
    }

    /// A full cycle ended, after which `live` bytes stay; [`Generations::give_room`] follows.
    pub fn after_full(&mut self, yielded: Yield, live: usize) {
        self.full_rate = yielded.rate();
        self.full_ns = yielded.work_ns as f64 / live.max(1) as f64;
        self.stays = yielded.stays();
        self.barred = self.barred.saturating_sub(1);
    }

    /// After the full cycle that `live` bytes stayed after, `room` may be allocated before the next
    /// full one.
    pub fn give_room(&mut self, live: usize, room: usize) {
        self.limit = live.saturating_add(room);
        self.room = room;
    }

    /// Now that `live` bytes stay, no more than `room` may be allocated before the next full one.
    pub fn bound_room(&mut self, live: usize, room: usize) {
        self.limit = self.limit.min(live.saturating_add(room));
        self.room = self.room.min(room);
    }

    /// A minor cycle ended, after which `live` bytes stay. What one of a heap that grows frees says
    /// nothing of whether they pay: the full cycles before it had less to mark, and the next one
    /// would find as little. It pays there if it is less work than a full one would have been.
    pub fn after_minor(&mut self, yielded: Yield, live: usize) {
        let rate = yielded.rate();
        let grew = self.stays;
        self.stays &= yielded.stays();
        if grew {
            if yielded.work_ns as f64 > self.full_ns * live as f64 * MOST_WORK {
                self.leave_out();
            }
            return;
        }
        self.minor_rate =
            if self.minor_rate == 0.0 { rate } else { (self.minor_rate + rate) / 2.0 };
        if self.minor_rate < self.full_rate {
            self.leave_out();
        } else if self.minor_rate > self.full_rate * 2.0 {
            self.bar = FIRST_BAR;
        }
    }

    fn leave_out(&mut self) {
        self.barred = self.bar;
        self.bar = (self.bar * 2).min(LONGEST_BAR);
        self.minor_rate = 0.0;
    }

    /// Whether the heap grows: most of what was allocated stays.
    pub fn grows(&self) -> bool {
        self.stays
    }

    /// Whether it grows, and minor cycles make it cheap to look often.
    pub fn grows_in_steps(&self) -> bool {
        self.stays && self.barred == 0
    }

    /// What may be allocated when `live` bytes stay after a minor cycle: what is left below the
    /// limit that the last full cycle set.
    pub fn room_after_minor(&self, live: usize) -> usize {
        self.limit.saturating_sub(live)
    }

    /// The next cycle's kind, when `live` bytes stayed after the last one and `step` may be
    /// allocated before it. Most of what a heap that grows holds was marked in the last cycle, and
    /// would be marked again by a full one in vain.
    pub fn next(&self, live: usize, step: usize) -> Generation {
        let room = self.room_after_minor(live) as f64;
        let least = self.room as f64 * LEAST_ROOM;
        let enough = match self.stays {
            true => room >= least.min(step as f64),
            false => room >= least,
        };
        if self.limit > 0 && self.barred == 0 && enough {
            Generation::Minor
        } else {
            Generation::Full
        }
    }
}

impl Default for Generations {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Generation::*;
    use super::*;

    const MB: usize = 1_000_000;

    fn full(generations: &mut Generations, yielded: Yield, live: usize, room: usize) {
        generations.after_full(yielded, live);
        generations.give_room(live, room);
    }

    #[test]
    fn what_was_not_freed_survives() {
        for (allocated_bytes, freed_bytes, surviving) in
            [(0, 0, 256), (100, 0, 256), (100, 75, 64), (100, 100, 0), (100, 900, 0)]
        {
            let yielded = Yield { allocated_bytes, freed_bytes, work_ns: 1 };
            assert_eq!(yielded.surviving(256), surviving, "{yielded:?}");
        }
    }

    /// A program of `live` bytes of which each cycle finds `survive` of 100 new ones alive, and
    /// full cycles free what minor ones wrongly kept. Marking takes a nanosecond for two bytes that
    /// are looked at. Gives the kinds of the cycles.
    fn simulate(live: usize, survive: usize, cycles: usize) -> Vec<Generation> {
        let mut generations = Generations::new();
        let mut kinds = Vec::new();
        let (mut held, mut room) = (live, live);
        for _ in 0..cycles {
            let kind = generations.next(held, held / 4);
            kinds.push(kind);
            let new = room * survive / 100;
            match kind {
                Full => {
                    let freed_bytes = held + room - live;
                    let work_ns = (live / 2) as u64;
                    let yielded = Yield { allocated_bytes: room, freed_bytes, work_ns };
                    full(&mut generations, yielded, live, live);
                    (held, room) = (live, live);
                }
                Minor => {
                    held += new;
                    let yielded = Yield {
                        allocated_bytes: room,
                        freed_bytes: room - new,
                        work_ns: (new / 2 + 1000) as u64,
                    };
                    generations.after_minor(yielded, held);
                    room = generations.room_after_minor(held);
                }
            }
        }
        kinds
    }

    #[test]
    fn what_dies_young_is_collected_by_minor_cycles() {
        let kinds = simulate(100 * MB, 2, 100);
        let full = kinds.iter().filter(|kind| **kind == Full).count();
        assert_eq!(kinds[0], Full);
        assert!((2..10).contains(&full), "{full}");
    }

    #[test]
    fn where_most_survives_minor_cycles_are_left_out() {
        let kinds = simulate(100 * MB, 70, 200);
        let minor = kinds.iter().filter(|kind| **kind == Minor).count();
        assert!(minor < 20, "{minor}");
    }

    #[test]
    fn minor_cycles_never_take_more_room_than_a_full_one_gave() {
        let mut generations = Generations::new();
        let yielded = Yield { allocated_bytes: MB, freed_bytes: MB, work_ns: 1000 };
        full(&mut generations, yielded, 10 * MB, 8 * MB);
        for (live, kind, room) in [(10, Minor, 8), (13, Minor, 5), (15, Full, 3), (30, Full, 0)] {
            assert_eq!(
                (generations.next(live * MB, 8 * MB), generations.room_after_minor(live * MB)),
                (kind, room * MB)
            );
        }
        generations.bound_room(10 * MB, 4 * MB);
        assert_eq!(generations.room_after_minor(13 * MB), MB);
        generations.bound_room(10 * MB, 6 * MB);
        assert_eq!(generations.room_after_minor(13 * MB), MB, "never more");
    }

    /// A heap that grows from `live` bytes to ten times as much: of what is allocated in steps of a
    /// quarter of it `survive` of 100 stay for ever, and a full cycle leaves room for half of it.
    /// Gives how often a byte of the whole was marked, and how often if all cycles were full.
    fn grown(live: usize, survive: usize) -> (f64, f64) {
        let (mut generations, mut held) = (Generations::new(), live);
        let (mut marked, mut marked_by_full) = (0, 0);
        while held < 10 * live {
            let step = held / 4;
            let new = step * survive / 100;
            let kind = generations.next(held, step);
            let yielded = |looked_at: usize| Yield {
                allocated_bytes: step,
                freed_bytes: step - new,
                work_ns: (looked_at / 2) as u64,
            };
            held += new;
            marked_by_full += held;
            match kind {
                Full => {
                    full(&mut generations, yielded(held), held, held / 2);
                    marked += held;
                }
                Minor => {
                    generations.after_minor(yielded(new), held);
                    marked += new;
                }
            }
        }
        (marked as f64 / held as f64, marked_by_full as f64 / held as f64)
    }

    #[test]
    fn what_a_heap_that_grows_holds_is_not_marked_again_at_each_step() {
        for survive in [55, 80, 100] {
            let (marked, by_full) = grown(10 * MB, survive);
            assert!(marked < by_full * 0.7, "{survive}: {marked} {by_full}");
        }
    }

    /// What dies is old: a cache that replaces its oldest entries. The minor cycle frees nothing,
    /// and the heap does not grow for that.
    #[test]
    fn a_minor_cycle_that_frees_nothing_is_followed_by_full_ones() {
        let mut generations = Generations::new();
        let all_freed = Yield { allocated_bytes: 10 * MB, freed_bytes: 10 * MB, work_ns: 1000 };
        full(&mut generations, all_freed, 100 * MB, 30 * MB);
        assert_eq!(generations.next(100 * MB, 30 * MB), Minor);
        let none = Yield { freed_bytes: 0, ..all_freed };
        generations.after_minor(none, 110 * MB);
        assert_eq!((generations.grows(), generations.next(110 * MB, MB)), (false, Full));
    }

    /// A table that grows, and whose entries are all written to again.
    #[test]
    fn a_heap_that_grows_and_is_written_all_over_has_full_cycles() {
        let mut generations = Generations::new();
        let grown = |work_ns| Yield { allocated_bytes: 10 * MB, freed_bytes: 0, work_ns };
        full(&mut generations, grown(4000), 40 * MB, 20 * MB);
        assert!(generations.grows_in_steps());
        generations.after_minor(grown(2000), 50 * MB);
        assert!(generations.grows_in_steps());
        generations.after_minor(grown(5000), 60 * MB);
        assert!(generations.grows() && !generations.grows_in_steps());
        assert_eq!(generations.next(60 * MB, 0), Full);
    }

    #[test]
    fn the_bar_grows_while_they_do_not_pay() {
        let mut generations = Generations::new();
        let bad = Yield { allocated_bytes: 2, freed_bytes: 1, work_ns: 1000 };
        let good = Yield { allocated_bytes: 9000, freed_bytes: 9000, work_ns: 1000 };
        let mut waited = Vec::new();
        for _ in 0..4 {
            full(&mut generations, good, MB, MB);
            generations.after_minor(bad, MB);
            let mut count = 0;
            while generations.next(MB, MB) == Full {
                full(&mut generations, good, MB, MB);
                count += 1;
            }
            waited.push(count);
        }
        assert_eq!(waited, [4, 8, 16, 32]);
    }
}
