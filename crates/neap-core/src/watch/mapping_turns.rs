//! Long calls to the watch, in pieces, between which others get at the process's mappings.
//!
//! Invariant: beside the program only, so that the collector's lock may be held for as long again
//! as calls take. The kernel has the list of mappings locked while it walks the pages that a call
//! names, and who comes right back with the next call has the lock again before whoever it was
//! given to is awake, for 4 ms on end: `mmap`, `munmap` and `mprotect` of the program, and the
//! growth of the heap, would wait for so long. Called by the collector's thread.

use core::cell::Cell;
use core::ops::Range;
use core::time::Duration;

use crate::sys::clock::Instant;
use crate::sys::futex;

/// A call names so much at most, up to a multiple of it: a huge page is not to be split for it.
/// Larger: longer waits; smaller: each call interrupts the program's processors once.
const PIECE_BYTES: usize = 8 << 20;
/// Others have their turn when calls have taken so long. Larger: longer waits; smaller: a longer
/// cycle.
const CALLS: Duration = Duration::from_micros(100);

/// So long is a turn, whatever else is done in it: a thread is awake by then.
const TURN: Duration = Duration::from_micros(50);

/// What calls have taken since others had their last turn, with what was done between them.
#[derive(Default)]
pub struct MappingTurns {
    calls: Cell<Duration>,
    /// What lasts within the call under way while the mappings are free.
    beside: Cell<Duration>,
}

impl MappingTurns {
    /// Makes a call for each piece of the range, as long as calls succeed; says whether all did.
    pub fn in_pieces(
        &self,
        range: &Range<usize>,
        mut call: impl FnMut(&Range<usize>) -> bool,
    ) -> bool {
        let mut start = range.start;
        while start < range.end {
            if self.calls.get() >= CALLS {
                futex::let_woken_run();
                self.calls.set(Duration::ZERO);
            }
            let end = range.end.min((start | (PIECE_BYTES - 1)).saturating_add(1));
            self.beside.set(Duration::ZERO);
            let began = Instant::now();
            if !call(&(start..end)) {
                return false;
            }
            let took = self.calls.get() + began.elapsed();
            self.calls.set(if self.beside.get() >= TURN { Duration::ZERO } else { took });
            start = end;
        }
        true
    }

    /// What is done with a call's answers, while the kernel has nothing locked.
    pub fn beside(&self, work: impl FnOnce()) {
        let began = Instant::now();
        work();
        self.beside.set(self.beside.get() + began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_range_until_a_call_fails() {
        let turns = MappingTurns::default();
        for bytes in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 4096] {
            let start = (1 << 30) + 16384;
            let range = start..start + bytes;
            let mut next = range.start;
            assert!(turns.in_pieces(&range, |piece| {
                assert!(piece.start == next && piece.len() <= PIECE_BYTES && !piece.is_empty());
                assert!(piece.end == range.end || piece.end.is_multiple_of(PIECE_BYTES));
                next = piece.end;
                true
            }));
            assert_eq!(next, range.end);
        }
        let mut calls = 0;
        assert!(!turns.in_pieces(&(0..4 * PIECE_BYTES), |_| {
            calls += 1;
            calls < 2
        }));
        assert_eq!(calls, 2);
    }

    #[test]
    fn others_have_a_turn_when_calls_have_taken_long() {
        let turns = MappingTurns::default();
        let long = || futex::sleep(2 * CALLS.as_nanos() as u64);
        let calls_after = |call: &dyn Fn()| {
            turns.in_pieces(&(0..1), |_| {
                call();
                true
            });
            turns.calls.get()
        };
        // Unless it lost its processor.
        let once_below = |call: &dyn Fn()| (0..20).any(|_| calls_after(call) < CALLS);
        assert!(once_below(&|| turns.beside(long)));
        assert!(calls_after(&long) >= CALLS);
        assert!(once_below(&|| {}), "they had it");
    }
}
