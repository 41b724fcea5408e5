//! `munmap` and `madvise`, which this library stands before: a mark procedure may give back memory
//! that its object has named since before the program unmapped it, and that is another's by now.
//! Guile's does, for the stack of a thread that has ended, and for all that lies between the old
//! place of a stack and its new one while it moves: the pages of whatever the system put there were
//! zeros afterwards, under libgc too.
//!
//! Invariant: what the program unmaps is noted before it is unmapped, and stays noted until some
//! cycles that began later are over: each procedure has given back its old memory by then. `munmap`
//! is called from any thread; `madvise` too, and by mark procedures while the world is stopped, so
//! the notes are read without a lock.
//!
//! # Safety
//!
//! The functions of libc hand on what the caller gave.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// How many ranges are noted at once; with more, nothing is given back for a while.
const MOST_NOTES: usize = 256;
/// A note counts for the cycle that may run when it is made and for so many after it. One would do,
/// but for a thread that gets no processor for the rest of a move.
const KEPT_CYCLES: u64 = 15;
/// In [`Note::until`]: somebody writes it.
const BUSY: u64 = u64::MAX;

/// A range of addresses that was unmapped.
struct Note {
    start: AtomicUsize,
    end: AtomicUsize,
    /// It counts until so many cycles are over. Written last.
    until: AtomicU64,
}

impl Note {
    const fn none() -> Self {
        Self { start: AtomicUsize::new(0), end: AtomicUsize::new(0), until: AtomicU64::new(0) }
    }

    /// It is made now, when so many cycles are over.
    fn renew(&self, cycles: u64) {
        self.until.fetch_max(cycles + 1 + KEPT_CYCLES, Release);
    }
}

/// The ranges that were unmapped lately. Cycles are numbers of those that are over.
struct Notes {
    notes: [Note; MOST_NOTES],
    next: AtomicUsize,
    /// Until so many cycles are over every address counts as noted: a note was overwritten.
    all_until: AtomicU64,
}

impl Notes {
    const fn new() -> Self {
        Self {
            notes: [const { Note::none() }; MOST_NOTES],
            next: AtomicUsize::new(0),
            all_until: AtomicU64::new(0),
        }
    }

    fn add(&self, range: &Range<usize>, cycles: u64) -> &Note {
        loop {
            let note = &self.notes[self.next.fetch_add(1, Relaxed) % MOST_NOTES];
            let until = note.until.swap(BUSY, AcqRel);
            if until == BUSY {
                continue;
            }
            if until > cycles {
                self.all_until.fetch_max(until, Release);
            }
            note.start.store(range.start, Relaxed);
            note.end.store(range.end, Relaxed);
            note.until.store(cycles + 1 + KEPT_CYCLES, Release);
            return note;
        }
    }

    /// Whether the range has a part in what was unmapped, or touches it: one that was worked out
    /// from an old place of a stack and its new one may end where the old one began.
    fn touch(&self, range: &Range<usize>, cycles: u64) -> bool {
        self.all_until.load(Acquire) > cycles
            || self.notes.iter().any(|note| {
                note.until.load(Acquire) > cycles
                    && note.start.load(Relaxed) <= range.end
                    && range.start <= note.end.load(Relaxed)
            })
    }
}

#[cfg(not(test))]
mod exported {
    use core::ffi::{c_int, c_void};
    use core::ops::Range;

    use super::Notes;
    use crate::core_api as api;
    use crate::kinds::mark_procs;

    static UNMAPPED: Notes = Notes::new();

    fn range(address: *mut c_void, bytes: usize) -> Range<usize> {
        address.addr()..address.addr().saturating_add(bytes)
    }

    /// As munmap(2).
    ///
    /// # Safety
    /// As munmap(2).
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
        let noted =
            mark_procs::exist().then(|| UNMAPPED.add(&range(address, bytes), api::cycles()));
        // SAFETY: the caller's promise.
        let result = unsafe { libc::syscall(libc::SYS_munmap, address, bytes) };
        if let Some(note) = noted {
            // A cycle may have begun before the call had its effect.
            note.renew(api::cycles());
        }
        result as c_int
    }

    /// As madvise(2); does nothing where a mark procedure would give back what the program has
    /// unmapped lately.
    ///
    /// # Safety
    /// As madvise(2).
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int {
        let gives_back = matches!(
            advice,
            libc::MADV_DONTNEED | libc::MADV_DONTNEED_LOCKED | libc::MADV_FREE | libc::MADV_REMOVE
        );
        if gives_back
            && mark_procs::one_runs_here()
            && UNMAPPED.touch(&range(address, bytes), api::cycles())
        {
            return 0;
        }
        // SAFETY: the caller's promise.
        unsafe { libc::syscall(libc::SYS_madvise, address, bytes, advice) as c_int }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_for_some_cycles() {
        let notes = Notes::new();
        notes.add(&(4096..8192), 7);
        for cycles in [7, 7 + KEPT_CYCLES] {
            assert!(notes.touch(&(0..4096), cycles));
            assert!(notes.touch(&(8192..9000), cycles));
            assert!(!notes.touch(&(8193..9000), cycles));
        }
        assert!(!notes.touch(&(4096..8192), 8 + KEPT_CYCLES));
    }

    #[test]
    fn a_call_that_took_longer_than_a_cycle_counts_from_its_end() {
        let notes = Notes::new();
        notes.add(&(4096..8192), 1).renew(3);
        assert!(notes.touch(&(4096..8192), 3 + KEPT_CYCLES));
        assert!(!notes.touch(&(4096..8192), 4 + KEPT_CYCLES));
    }

    #[test]
    fn where_a_note_that_counts_is_overwritten_everything_does() {
        let notes = Notes::new();
        for page in 0..=MOST_NOTES {
            assert!(!notes.touch(&(1..2), 5));
            notes.add(&(page * 4096 + 8192..page * 4096 + 12288), 5);
        }
        assert!(notes.touch(&(1..2), 5 + KEPT_CYCLES));
        assert!(!notes.touch(&(1..2), 6 + KEPT_CYCLES));
        // None of these counts any more when it is overwritten.
        for page in 0..=MOST_NOTES {
            notes.add(&(page * 4096 + 8192..page * 4096 + 12288), page as u64 + 100);
        }
        assert!(!notes.touch(&(1..2), MOST_NOTES as u64 + 100));
    }
}
