//! Which granules are *inward*: what their permanent objects held when they were last scanned led
//! to other permanent objects only, or out of the heap. Nothing that a cycle has to mark is found
//! there until they are written again.
//!
//! Invariant `[heap.inv.inward]`: an inward granule is a frozen block's and armed, and has not been
//! reported as written since it was armed before that scan. Who is told of written pages says so
//! before the next full cycle goes by it; a block that is frozen or unfrozen, and memory that comes
//! to mean something else, makes all forgotten. Under the heap's lock.

use core::ops::Range;

use super::{Granules, Mask, mask};
use crate::addr::{CHUNK_GRANULES, Granule};

impl Granules {
    /// The inward granules of a chunk.
    pub fn inward_in_chunk(&self, chunk: usize) -> Mask {
        let chunk = &self.chunks[chunk];
        chunk.inward & chunk.armed
    }

    /// Whether every granule of a chunk that scanned objects lie in is inward.
    pub fn is_inward(&self, chunk: usize) -> bool {
        self.chunks[chunk].scanned() & !self.inward_in_chunk(chunk) == 0
    }

    /// Whether all these granules are inward.
    pub fn are_inward(&self, granules: Range<Granule>) -> bool {
        let mut all = true;
        each_part(granules, |chunk, part| all &= part & !self.inward_in_chunk(chunk) == 0);
        all
    }

    /// These granules of frozen blocks hold nothing that leads out of permanent objects. Those that
    /// are not armed stay as they are, since who writes to them is not known.
    pub fn note_inward(&mut self, granules: Range<Granule>) {
        each_part(granules, |chunk, part| {
            let chunk = &mut self.chunks[chunk];
            chunk.inward |= part & chunk.armed;
        });
    }

    /// These granules were written.
    pub fn forget_inward(&mut self, granules: Range<Granule>) {
        each_part(granules, |chunk, part| self.chunks[chunk].inward &= !part);
    }

    /// Nothing is known of any granule.
    pub fn forget_all_inward(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.inward = 0);
    }
}

/// Calls `f` with chunk and mask of each part of a range that lies in one chunk.
fn each_part(granules: Range<Granule>, mut f: impl FnMut(usize, Mask)) {
    let mut from = granules.start;
    while from < granules.end {
        let here = (CHUNK_GRANULES - from.in_chunk()).min((granules.end.0 - from.0) as usize);
        f(from.chunk(), mask(from.in_chunk(), here));
        from = from.add(here);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ALL;
    use super::super::Content::*;
    use super::*;

    #[test]
    fn only_armed_granules_are_inward_and_only_until_they_are_written_or_forgotten() {
        let mut granules = Granules::new();
        (0..3).for_each(|_| granules.add_chunk().unwrap());
        granules.take(200, Scanned).unwrap();
        granules.take(1, Leaf).unwrap();
        let range = |from: u32, to: u32| Granule(from)..Granule(to);
        granules.note_inward(range(0, 200));
        assert_eq!(granules.inward_in_chunk(0), 0, "nothing is armed");
        (0..2).for_each(|chunk| granules.note_registered(chunk, 1));
        granules.arm(2, |_, _| ALL, |_| {});
        assert_eq!(granules.inward_in_chunk(0), 0, "what was noted before does not count");
        granules.note_inward(range(0, 200));
        assert!((0..3).all(|chunk| granules.is_inward(chunk)));
        granules.forget_inward(range(127, 130));
        assert_eq!(granules.inward_in_chunk(0), ALL >> 1);
        assert_eq!(granules.inward_in_chunk(1), mask(2, 70));
        assert!(!granules.is_inward(0) && !granules.is_inward(1), "[heap.inv.inward]");
        granules.disarm(Granule(0), 2);
        granules.arm(2, |_, _| ALL, |_| {});
        assert_eq!(
            granules.inward_in_chunk(0),
            ALL >> 1 & !0b11,
            "and armed again it was not looked at"
        );
        granules.forget_all_inward();
        assert_eq!(granules.inward_in_chunk(1), 0);
        granules.note_inward(range(0, 200));
        granules.forget_registrations();
        granules.note_registered(0, 2);
        granules.arm(2, |_, _| ALL, |_| {});
        assert_eq!(granules.inward_in_chunk(0), 0, "nor is it under another watch");
    }
}
