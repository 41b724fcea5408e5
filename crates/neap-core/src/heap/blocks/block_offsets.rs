//! Which frames are further ones of a block, and where it begins: a word for each frame. Side
//! by side, so that making and ending a large object touches one cache line of them and not a
//! header for every frame.
//!
//! Invariant `[heap.inv.block-offsets]`: a frame's word is how many frames before it its block
//! begins; 0 for first frames and free ones. Written under the heap's lock; a block's words
//! before its header says that there is a block, and cleared after the header says that there is
//! none. Read at any time.
//!
//! # Safety
//!
//! Makes a reference to a frame's word. Words of committed frames are mapped, valid when zeroed
//! and never unmapped, and they are atomics.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::*};

use super::header::Header;
use crate::addr::{CHUNK_FRAMES, Frame};
use crate::heap::Heap;

/// Bytes of a frame's word.
pub(in crate::heap) const BYTES: usize = size_of::<AtomicU32>();
/// Bytes of words for a chunk.
pub(in crate::heap) const BYTES_PER_CHUNK: usize = CHUNK_FRAMES * BYTES;

/// The words of all frames, outside the heap.
#[derive(Clone, Copy)]
pub(in crate::heap) struct BlockOffsets(pub(in crate::heap) usize);

impl BlockOffsets {
    #[inline(always)]
    fn word(self, frame: Frame) -> &'static AtomicU32 {
        // SAFETY: the words of committed frames are mapped, valid when zeroed, and never
        // unmapped.
        unsafe { &*(self.0 as *const AtomicU32).add(frame.0 as usize) }
    }

    /// Where its word lies, to prefetch it.
    pub(in crate::heap) fn address_of(self, frame: Frame) -> *const AtomicU32 {
        (self.0 as *const AtomicU32).wrapping_add(frame.0 as usize)
    }

    /// The frame itself, or the first one of the block that it is a further one of.
    #[inline(always)]
    pub(in crate::heap) fn first(self, frame: Frame) -> Frame {
        Frame(frame.0 - self.word(frame).load(Acquire))
    }
}

impl Heap {
    fn offsets(&self) -> BlockOffsets {
        BlockOffsets(self.block_offsets.load(Relaxed))
    }

    /// The first frame of the block that a frame belongs to, or the frame itself, and that
    /// one's header.
    pub fn block_of(&self, frame: Frame) -> (Frame, &Header) {
        let first = self.offsets().first(frame);
        (first, self.header(first))
    }

    /// The frames `places`, counted from `first`, belong to its block from now on.
    pub fn join(&self, first: Frame, places: Range<usize>) {
        for place in places {
            self.offsets().word(first.add(place)).store(place as u32, Release);
        }
    }

    /// They belong to no block any more.
    pub fn part(&self, first: Frame, places: Range<usize>) {
        for place in places {
            self.offsets().word(first.add(place)).store(0, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::Kind;

    #[test]
    fn every_frame_leads_to_the_first_of_its_block() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        let (large, _) = inner.large_block(&heap, Kind::Leaf, NO_LAYOUT, 5_000_000, true).unwrap();
        let count = heap.header(large).span() as usize;
        assert!(count > CHUNK_FRAMES);
        assert!((0..count).all(|place| heap.block_of(large.add(place)).0 == large));
        assert_eq!(heap.block_of(large.add(count)).0, large.add(count));
        heap.dissolve_block(&mut inner, large);
        assert!((0..count).all(|place| heap.block_of(large.add(place)).0 == large.add(place)));
    }
}
