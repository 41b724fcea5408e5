//! Work that a marker leaves to the others because its time is up.
//!
//! Invariant `[mark.inv.leftover]`: while there is any, the markers are not done. Who leaves the
//! first of it stays counted as active on its behalf, and who takes the last of it ends that; both
//! under the lock. Used by markers that are active.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::mark::done::Done;
use crate::rank::Rank;
use crate::sync::Lock;
use crate::sys::meta_vec::MetaVec;

/// Entries taken at once. Larger: the lock is taken less often; smaller: more markers get some.
const TAKEN_AT_ONCE: usize = 128;

/// The entries, and a hint of how many there are.
pub struct Leftover {
    entries: Lock<MetaVec<usize>>,
    count: AtomicUsize,
}

impl Leftover {
    /// None.
    pub fn new() -> Self {
        Self { entries: Lock::new(Rank::Aside, MetaVec::new()), count: AtomicUsize::new(0) }
    }

    /// Whether there is none, as a hint.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Leaves entries, after which the caller is idle. False if the system gives no memory: then
    /// nothing happened.
    pub fn leave(&self, entries: &[usize], done: &Done) -> bool {
        let mut all = self.entries.lock();
        let was_empty = all.is_empty();
        if all.try_reserve(entries.len()).is_err() {
            return false;
        }
        // There is room.
        entries.iter().for_each(|entry| _ = all.try_push(*entry));
        self.count.store(all.len(), Relaxed);
        if !was_empty || all.is_empty() {
            done.become_idle();
        }
        true
    }

    /// Gives some of them to `take`; says whether there were any. The caller is active already.
    pub fn take(&self, done: &Done, mut take: impl FnMut(usize)) -> bool {
        let mut all = self.entries.lock();
        let had_some = !all.is_empty();
        for _ in 0..TAKEN_AT_ONCE {
            let Some(entry) = all.pop() else { break };
            take(entry);
        }
        self.count.store(all.len(), Relaxed);
        if had_some && all.is_empty() {
            done.become_idle();
        }
        had_some
    }

    /// Forgets all of it, when a cycle is given up. Nobody is working.
    pub fn forget(&self, done: &Done) {
        let mut all = self.entries.lock();
        if !all.is_empty() {
            done.become_idle();
        }
        all.clear();
        self.count.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_markers_are_not_done_while_there_is_some() {
        let (leftover, done) = (Leftover::new(), Done::new());
        let entries: Vec<_> = (0..TAKEN_AT_ONCE + 1).collect();
        done.become_active();
        done.become_active();
        assert!(leftover.leave(&entries[..2], &done));
        assert!(leftover.leave(&entries[2..], &done));
        assert_eq!(done.active(), 1, "[mark.inv.leftover]");
        let mut taken = Vec::new();
        done.become_active();
        assert!(leftover.take(&done, |entry| taken.push(entry)));
        assert_eq!((taken.len(), done.active()), (TAKEN_AT_ONCE, 2));
        assert!(leftover.take(&done, |entry| taken.push(entry)));
        assert_eq!(done.active(), 1, "the taker's own");
        assert!(leftover.is_empty() && !leftover.take(&done, |_| ()));
        done.become_idle();
        assert!(done.is_done());
        taken.sort_unstable();
        assert_eq!(taken, entries);
    }

    #[test]
    fn what_is_forgotten_keeps_nobody_active() {
        let (leftover, done) = (Leftover::new(), Done::new());
        leftover.forget(&done);
        assert!(done.is_done());
        done.become_active();
        assert!(leftover.leave(&[8], &done) && !done.is_done());
        leftover.forget(&done);
        assert!(done.is_done() && leftover.is_empty());
    }

    #[test]
    fn nothing_is_left_by_who_has_nothing() {
        let (leftover, done) = (Leftover::new(), Done::new());
        done.become_active();
        assert!(leftover.leave(&[], &done));
        assert!(done.is_done() && leftover.is_empty());
    }
}
