//! Which frames are *closed*: what their permanent objects held when they were last scanned led
//! to other permanent objects only, or out of the heap. Nothing that a cycle has to mark is found
//! there until they are written again.
//!
//! Invariant `[heap.inv.closed]`: an closed frame is a frozen block's and protected, and has not
//! been reported as written since it was protected before that scan. Who is told of written pages
//! says so before the next full cycle goes by it; a block that is frozen or unfrozen, and memory
//! that comes to mean something else, makes all forgotten. Under the heap's lock.

use core::ops::Range;

use super::{Frames, Mask, mask};
use crate::addr::{CHUNK_FRAMES, Frame};

impl Frames {
    /// The closed frames of a chunk.
    pub fn closed_in_chunk(&self, chunk: usize) -> Mask {
        let chunk = &self.chunks[chunk];
        chunk.closed & chunk.protected
    }

    /// Whether every frame of a chunk that scanned objects lie in is closed.
    pub fn is_closed(&self, chunk: usize) -> bool {
        self.chunks[chunk].scanned() & !self.closed_in_chunk(chunk) == 0
    }

    /// Whether all these frames are closed.
    pub fn are_closed(&self, frames: Range<Frame>) -> bool {
        let mut all = true;
        each_part(frames, |chunk, part| all &= part & !self.closed_in_chunk(chunk) == 0);
        all
    }

    /// These frames of frozen blocks hold nothing that leads out of permanent objects. Those that
    /// are not protected stay as they are, since who writes to them is not known.
    pub fn note_closed(&mut self, frames: Range<Frame>) {
        each_part(frames, |chunk, part| {
            let closed = part & self.chunks[chunk].protected;
            self.chunks[chunk].closed |= closed;
            self.any_closed |= closed != 0;
        });
    }

    /// These frames were written.
    pub fn forget_closed(&mut self, frames: Range<Frame>) {
        each_part(frames, |chunk, part| self.chunks[chunk].closed &= !part);
    }

    /// Nothing is known of any frame. Where nothing was noted since, this takes no time: a program
    /// may free its frozen objects one by one.
    pub fn forget_all_closed(&mut self) {
        if core::mem::take(&mut self.any_closed) {
            self.chunks.iter_mut().for_each(|chunk| chunk.closed = 0);
        }
    }
}

/// Calls `f` with chunk and mask of each part of a range that lies in one chunk.
fn each_part(frames: Range<Frame>, mut f: impl FnMut(usize, Mask)) {
    let mut from = frames.start;
    while from < frames.end {
        let here = (CHUNK_FRAMES - from.in_chunk()).min((frames.end.0 - from.0) as usize);
        f(from.chunk(), mask(from.in_chunk(), here));
        from = from.add(here);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ALL;
    use super::super::Content::*;
    use super::super::Guards;
    use super::super::watched::Chosen;
    use super::*;

    #[test]
    fn only_protected_frames_are_closed_and_only_until_they_are_written_or_forgotten() {
        let mut frames = Frames::new();
        (0..3).for_each(|_| frames.add_chunk(Guards::default()).unwrap());
        frames.take(200, Scanned).unwrap();
        frames.take(1, Leaf).unwrap();
        let range = |from: u32, to: u32| Frame(from)..Frame(to);
        frames.note_closed(range(0, 200));
        assert_eq!(frames.closed_in_chunk(0), 0, "nothing is protected");
        (0..2).for_each(|chunk| frames.note_registered(chunk, 1));
        frames.protect(2, |_, _, _| Chosen::all_of(ALL), |_| {});
        assert_eq!(frames.closed_in_chunk(0), 0, "what was noted before does not count");
        frames.note_closed(range(0, 200));
        assert!((0..3).all(|chunk| frames.is_closed(chunk)));
        frames.forget_closed(range(127, 130));
        assert_eq!(frames.closed_in_chunk(0), ALL >> 1);
        assert_eq!(frames.closed_in_chunk(1), mask(2, 70));
        assert!(!frames.is_closed(0) && !frames.is_closed(1), "[heap.inv.closed]");
        frames.unprotect(Frame(0), 2);
        frames.protect(2, |_, _, _| Chosen::all_of(ALL), |_| {});
        assert_eq!(
            frames.closed_in_chunk(0),
            ALL >> 1 & !0b11,
            "and protected again it was not looked at"
        );
        frames.forget_all_closed();
        assert_eq!(frames.closed_in_chunk(1), 0);
        frames.note_closed(range(0, 200));
        frames.forget_registrations();
        frames.note_registered(0, 2);
        frames.protect(2, |_, _, _| Chosen::all_of(ALL), |_| {});
        assert_eq!(frames.closed_in_chunk(0), 0, "nor is it under another watch");
    }
}
