//! Objects that their finalizers' order keeps for ever: each lies on a cycle, so it waits for
//! itself.
//!
//! Invariant: what is listed was found by the cycle that processed references last, one object for
//! each cycle of pointers that no other finalizable object leads to. The list is filled under the
//! lock on what was found by the thread that processes references, and only where somebody wants
//! it: [`want`]. Taken by mutators, world running.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Objects that are listed at most. Larger: more is said to who has many; smaller: less memory.
const MOST: usize = 256;

static WANTED: AtomicBool = AtomicBool::new(false);

/// From now on they are looked for.
pub fn want() {
    WANTED.store(true, Relaxed);
}

/// Whether there may be one to take, so that nobody locks for nothing.
pub fn are_any() -> bool {
    WANTED.load(Relaxed) && ANY.load(Relaxed)
}

/// Takes one that the last cycle found; 0: there is none left, or another cycle is deciding.
pub fn take() -> usize {
    if !are_any() {
        return 0;
    }
    crate::refs::with_found(|found| {
        found.try_lock().map_or(0, |mut found| found.processing.held_for_ever.take())
    })
}

static ANY: AtomicBool = AtomicBool::new(false);

/// The list.
pub(crate) struct HeldForEver {
    /// Their addresses, all bits turned over: the list lies in data that is a root of programs
    /// which the library is linked into.
    hidden: [usize; MOST],
    count: usize,
}

impl HeldForEver {
    pub(crate) const fn new() -> Self {
        Self { hidden: [0; MOST], count: 0 }
    }

    /// Forgets what another cycle found, and says whether this one is to look.
    pub(crate) fn begin(&mut self) -> bool {
        self.count = 0;
        ANY.store(false, Relaxed);
        WANTED.load(Relaxed)
    }

    /// Lists one; further ones are not listed where there is no room.
    pub(crate) fn note(&mut self, object: usize) {
        if let Some(place) = self.hidden.get_mut(self.count) {
            *place = !object;
            self.count += 1;
            ANY.store(true, Relaxed);
        }
    }

    pub(crate) fn take(&mut self) -> usize {
        let Some(last) = self.count.checked_sub(1) else {
            ANY.store(false, Relaxed);
            return 0;
        };
        self.count = last;
        !self.hidden[last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_not_listed() {
        let mut list = HeldForEver::new();
        (1..=MOST + 5).for_each(|object| list.note(object));
        assert!((1..=MOST).rev().all(|object| list.take() == object));
        assert_eq!(list.take(), 0);
        list.note(7);
        list.begin();
        assert_eq!(list.take(), 0);
    }
}
