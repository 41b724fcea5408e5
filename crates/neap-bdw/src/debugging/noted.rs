//! What a collection finds and the program is told of afterwards: a table of fixed size.
//!
//! Invariant: what was noted stays until somebody takes it, and one alone does, however many
//! collections come between. What there is no room for is counted. A place is written before it
//! counts as noted and after it was taken. `note` runs world stopped, on the thread that collects;
//! `take` on any.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// Of things that are found, so many at a time.
pub struct Noted<T, const ROOM: usize> {
    places: UnsafeCell<[MaybeUninit<T>; ROOM]>,
    /// Since the process began.
    noted: AtomicUsize,
    taken: AtomicUsize,
    /// Found since `take_more`, and not noted.
    more: AtomicUsize,
}

// SAFETY: see the file's opening lines; what is in it is plain data about objects.
unsafe impl<T: Copy, const ROOM: usize> Sync for Noted<T, ROOM> {}

impl<T: Copy, const ROOM: usize> Noted<T, ROOM> {
    /// An empty table.
    pub const fn nothing() -> Self {
        Self {
            places: UnsafeCell::new([const { MaybeUninit::uninit() }; ROOM]),
            noted: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            more: AtomicUsize::new(0),
        }
    }

    fn place(&self, number: usize) -> *mut MaybeUninit<T> {
        self.places.get().cast::<MaybeUninit<T>>().wrapping_add(number % ROOM)
    }

    /// Notes it, if there is room. World stopped.
    pub fn note(&self, found: T) {
        let noted = self.noted.load(Relaxed);
        if noted - self.taken.load(Acquire) == ROOM {
            self.more.fetch_add(1, Relaxed);
            return;
        }
        // SAFETY: a place of the table, of which nobody takes anything before the next line.
        unsafe { self.place(noted).write(MaybeUninit::new(found)) };
        self.noted.store(noted + 1, Release);
    }

    /// The oldest that nobody has taken.
    pub fn take(&self) -> Option<T> {
        loop {
            let number = self.taken.load(Acquire);
            if number == self.noted.load(Acquire) {
                return None;
            }
            // SAFETY: a place of the table. It was written, and is written again only after
            // somebody else took it, in which case what was read is not used.
            let found = unsafe { self.place(number).read_volatile() };
            if self.taken.compare_exchange(number, number + 1, AcqRel, Relaxed).is_ok() {
                // SAFETY: it is what was written there.
                return Some(unsafe { found.assume_init() });
            }
        }
    }

    /// How many there was no room for.
    pub fn take_more(&self) -> usize {
        self.more.swap(0, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_taken_once_and_what_has_no_room_is_counted() {
        let table = Noted::<usize, 4>::nothing();
        (0..3).for_each(|number| table.note(number));
        assert_eq!(table.take(), Some(0));
        // Another collection, before all was taken.
        (3..8).for_each(|number| table.note(number));
        assert_eq!([(); 5].map(|()| table.take()), [Some(1), Some(2), Some(3), Some(4), None]);
        assert_eq!((table.take_more(), table.take_more()), (3, 0));
    }
}
