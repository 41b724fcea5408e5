//! Where the program freed objects, for the marking check: a pointer to one may be left in an
//! object that is dead but still marked, or frozen, and what lies there later is no child of that.
//!
//! Invariant: with `NEAP_CHECK=3`, every place of an object that the program ever freed is noted
//! before the cell can be another's. Places 32 MiB apart share a bit: the check may miss something,
//! it never reports what is right. Noted by the threads that free, read with the world stopped.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::addr::GRANULE_BYTES;
use crate::check;

/// A bit for each granule of 32 MiB, 256 KiB that only checked programs touch.
static FREED: [AtomicU64; 1 << 15] = [const { AtomicU64::new(0) }; 1 << 15];

fn word_and_bit(granule: usize) -> (&'static AtomicU64, u64) {
    (&FREED[granule / 64 % FREED.len()], 1 << (granule % 64))
}

/// The program is about to free an object, or the end of one, that lies here.
#[inline]
pub fn note(places: Range<usize>) {
    if check::level() >= check::MARKS {
        note_granules(places);
    }
}

#[cold]
fn note_granules(places: Range<usize>) {
    let granules = places.start / GRANULE_BYTES..places.end.div_ceil(GRANULE_BYTES);
    for granule in granules.take(FREED.len() * 64) {
        let (word, bit) = word_and_bit(granule);
        word.fetch_or(bit, Relaxed);
    }
}

/// Whether an object that was freed lay at this address, or may have.
pub fn holds(address: usize) -> bool {
    let (word, bit) = word_and_bit(address / GRANULE_BYTES);
    word.load(Relaxed) & bit != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_places_of_what_is_freed_are_noted_and_no_others_when_marks_are_checked() {
        let start: usize = 1 << 40;
        let noted = || [-1, 0, 1039, 1040].map(|at| holds(start.wrapping_add_signed(at)));
        note(start..start + 1032);
        assert_eq!(noted(), [false; 4]);
        check::set_level(check::MARKS);
        note(start..start + 1032);
        assert_eq!(noted(), [false, true, true, false]);
    }
}
