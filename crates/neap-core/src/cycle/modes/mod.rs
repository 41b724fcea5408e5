//! The ways to run a cycle beside the program: which steps they have is the same, what the steps do is not.
//!
//! Invariant: the steps come in the order arm, roots or first stop, mark, last stop; `steps` sees to that and says who may call which.

use super::by_fork::ByFork;
use super::by_snapshot::BySnapshot;
use super::collector::Collector;
use super::concurrent::{Arming, Concurrent};
use super::generation::Generation;
use super::watched::Unwatched;
use crate::heap::HEAP;
use crate::watch::AnyWatch;
use crate::watch::choose::Watching;
use crate::watch::snapshot::Snapshot;
use crate::world::mutator::Mutator;

/// A way, with what it keeps from step to step.
pub enum Way {
    /// Marking under a write watch.
    Watched(Concurrent),
    /// Marking in a child process.
    Forked(ByFork),
    /// Marking the heap as it was, pages being copied before they are written.
    Kept(BySnapshot),
}

impl Way {
    /// What goes with a way of watching; None where the system refuses, or where cycles stop the world.
    pub fn open(watching: Watching) -> Option<Self> {
        match watching {
            Watching::None => None,
            Watching::Pagemap | Watching::Mprotect => {
                Some(Self::Watched(Concurrent::new(AnyWatch::open(watching)?)))
            }
            Watching::Fork => Some(Self::Forked(ByFork::new())),
            Watching::Snapshot => {
                Some(Self::Kept(BySnapshot::new(Snapshot::open(&HEAP.kept).ok()?)))
            }
        }
    }

    /// The way of watching that this one belongs to.
    pub fn watching(&self) -> Watching {
        match self {
            Self::Watched(concurrent) => concurrent.watching(),
            Self::Forked(_) => Watching::Fork,
            Self::Kept(_) => Watching::Snapshot,
        }
    }

    /// Whether the program has closed what it needs behind our back.
    pub fn was_closed(&self) -> bool {
        match self {
            Self::Watched(concurrent) => concurrent.watch_was_closed(),
            Self::Forked(_) => false,
            Self::Kept(by_snapshot) => by_snapshot.watch_was_closed(),
        }
    }

    /// In the child of a `fork`, where this is not used any more: closes what it has open, and leaves its memory where it is. The parent's thread may have been giving some of that back at that very moment, and what
    /// lies there now is another's.
    pub fn leave_to_parent(self) {
        match self {
            Self::Watched(concurrent) => concurrent.close_watch(),
            Self::Forked(by_fork) => core::mem::forget(by_fork),
            Self::Kept(by_snapshot) => by_snapshot.leave_to_parent(),
        }
    }

    /// Before the roots, world running, on the collector's thread. An error where the system refuses: then there is no cycle.
    pub fn arm(&mut self, generation: Generation) -> Result<(), Unwatched> {
        match self {
            Self::Watched(concurrent) => concurrent.arm(generation),
            Self::Forked(by_fork) => {
                by_fork.arm();
                Ok(())
            }
            Self::Kept(by_snapshot) => by_snapshot.arm(),
        }
    }

    /// Whether marks of one cycle can serve the next: what was written since is known.
    pub fn has_minor_cycles(&self) -> bool {
        matches!(self, Self::Watched(_))
    }

    /// Reads the roots with the world running, on the collector's thread; false for a way that needs a stop for them.
    pub fn first_roots(&mut self, collector: &mut Collector) -> bool {
        if let Self::Watched(concurrent) = self {
            concurrent.first_roots(collector);
        }
        matches!(self, Self::Watched(_))
    }

    /// A first stop comes next, world running, on the collector's thread.
    pub fn before_first_stop(&mut self, collector: &mut Collector) {
        if let Self::Watched(concurrent) = self {
            concurrent.before_first_stop(collector);
        }
    }

    /// The first stop. `own` is the calling mutator, if it is one.
    pub fn first_stop(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        match self {
            Self::Watched(concurrent) => concurrent.first_stop(collector, own),
            Self::Forked(by_fork) => by_fork.first_stop(collector, own),
            Self::Kept(by_snapshot) => by_snapshot.first_stop(collector, own),
        }
    }

    /// Whether a stop in the middle of marking makes the last one shorter. On the collector's thread, after [`Self::mark`].
    pub fn wants_middle_stop(&self) -> bool {
        matches!(self, Self::Watched(concurrent) if concurrent.wants_middle_stop())
    }

    /// That stop. `own` as in [`Self::first_stop`].
    pub fn middle_stop(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        if let Self::Watched(concurrent) = self {
            concurrent.middle_stop(collector, own);
        }
    }

    /// Everything between the roots and the last stop, on the collector's thread.
    pub fn mark(&mut self) {
        match self {
            Self::Watched(concurrent) => concurrent.mark(),
            Self::Forked(by_fork) => by_fork.mark(),
            Self::Kept(by_snapshot) => by_snapshot.mark(),
        }
    }

    /// Everything between that stop and the last one, on the collector's thread.
    pub fn mark_again(&mut self) {
        if let Self::Watched(concurrent) = self {
            concurrent.mark_again();
        }
    }

    /// The last stop is late: what was written meanwhile is looked at now. On the collector's thread.
    pub fn keep_up(&mut self) {
        if let Self::Watched(concurrent) = self {
            concurrent.preclean(Arming::Running);
        }
    }

    /// All blocks are swept. On the collector's thread, between cycles.
    pub fn swept(&mut self) {
        if let Self::Watched(concurrent) = self {
            concurrent.swept();
        }
    }

    /// The last stop. `own` as in [`Self::first_stop`].
    pub fn remark(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        match self {
            Self::Watched(concurrent) => concurrent.remark(collector, own),
            Self::Forked(by_fork) => by_fork.remark(collector, own),
            Self::Kept(by_snapshot) => by_snapshot.remark(collector, own),
        }
    }

    /// Bytes allocated while the last cycle ran.
    pub fn allocated_during_last(&self) -> usize {
        match self {
            Self::Watched(concurrent) => concurrent.allocated_during_last,
            Self::Forked(by_fork) => by_fork.allocated_during_last(),
            Self::Kept(by_snapshot) => by_snapshot.allocated_during_last(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{Address, PAGE_BYTES};
    use crate::sys::map;

    /// A child of `fork` that gave such memory back would unmap what lies there now: the parent's thread may have been moving it.
    #[test]
    fn what_is_left_to_the_parent_stays_mapped() {
        let Some(watch) = AnyWatch::open(Watching::Pagemap) else { return };
        let mut concurrent = Concurrent::new(watch);
        let room = concurrent.room().map(|address| address & !(PAGE_BYTES - 1));
        Way::Watched(concurrent).leave_to_parent();
        for page in room {
            assert!(map::resident_bytes(Address(page), PAGE_BYTES, &mut [0; 1]).is_some());
        }
    }
}
