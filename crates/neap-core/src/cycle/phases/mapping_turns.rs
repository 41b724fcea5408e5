//! Long calls to the watch, in pieces, between which others get at the process's mappings.
//!
//! Invariant: beside the program only. The kernel has the list of mappings locked while it walks
//! the pages that a call names, and who comes right back with the next call has the lock again
//! before whoever it was given to is awake, for 4 ms on end: `mmap`, `munmap` and `mprotect` of the
//! program, and the growth of the heap, would wait for so long. Called by the collector's thread.

use core::ops::Range;
use core::time::Duration;

use crate::sys::clock::Instant;
use crate::sys::futex;

/// A call names so much at most. Larger: longer waits; smaller: each call interrupts the program's
/// processors once.
const PIECE_BYTES: usize = 8 << 20;
/// Others have their turn when calls have taken so long. Larger: longer waits; smaller: a longer
/// cycle.
const CALLS: Duration = Duration::from_micros(100);

/// When others had their last turn.
pub struct MappingTurns(Instant);

impl MappingTurns {
    /// They have it now.
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// Makes a call for each piece of the range, as long as calls succeed; says whether all did.
    pub fn in_pieces(
        &mut self,
        range: &Range<usize>,
        mut call: impl FnMut(&Range<usize>) -> bool,
    ) -> bool {
        range.clone().step_by(PIECE_BYTES).all(|start| {
            if self.0.elapsed() >= CALLS {
                futex::let_woken_run();
                self.0 = Instant::now();
            }
            call(&(start..range.end.min(start.saturating_add(PIECE_BYTES))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_range_until_a_call_fails() {
        let mut turns = MappingTurns::new();
        for bytes in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 4096] {
            let range = 1 << 30..(1 << 30) + bytes;
            let mut next = range.start;
            assert!(turns.in_pieces(&range, |piece| {
                assert!(piece.start == next && piece.len() <= PIECE_BYTES && !piece.is_empty());
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
        let mut turns = MappingTurns::new();
        let began = turns.0;
        turns.in_pieces(&(0..1), |_| true);
        assert_eq!(turns.0, began);
        futex::sleep(2 * CALLS.as_nanos() as u64);
        turns.in_pieces(&(0..1), |_| true);
        assert_ne!(turns.0, began);
    }
}
