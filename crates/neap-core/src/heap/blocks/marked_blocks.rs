//! Which blocks hold marked objects: a bit for each frame that begins one, so that what a cycle
//! has to scan again is found without looking at every block.
//!
//! Invariant `[heap.inv.marked-blocks]`: when a cell of a block is marked, the block's flag and bit
//! are set, or being set by the thread that marked it; both are read as certain with the world
//! stopped and the markers done. The flag in the header, which a marker has at hand, keeps the
//! shared bits from being written for each object. Set by markers and by threads that are handed
//! marked buffers, cleared under the heap's lock or while nothing is marked.
//!
//! # Safety
//!
//! Makes a reference to a word of the bitmap. The bits of committed frames are mapped, valid when
//! zeroed and never unmapped, and all access is atomic.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::header::{Header, State};
use crate::addr::{CHUNK_BYTES, CHUNK_FRAMES, Frame};
use crate::heap::Heap;

/// Bytes of bits for a chunk.
pub(in crate::heap) const BYTES_PER_CHUNK: usize = CHUNK_FRAMES / 8;
const WORDS_PER_CHUNK: usize = BYTES_PER_CHUNK / 8;

/// The bits of all chunks, outside the heap.
#[derive(Clone, Copy)]
pub(in crate::heap) struct MarkedBlocks(pub(in crate::heap) usize);

impl MarkedBlocks {
    #[inline(always)]
    fn word(self, frame: Frame) -> &'static AtomicU64 {
        // SAFETY: the bits of committed frames are mapped, valid when zeroed, and never unmapped.
        unsafe { &*(self.0 as *const AtomicU64).add(frame.0 as usize / 64) }
    }

    #[cold]
    fn set(self, block: Frame) {
        self.word(block).fetch_or(1 << (block.0 % 64), Relaxed);
    }

    fn clear(self, block: Frame) {
        self.word(block).fetch_and(!(1 << (block.0 % 64)), Relaxed);
    }

    fn of_chunk(self, chunk: usize) -> u128 {
        let first = Frame((chunk * CHUNK_FRAMES) as u32);
        let low = self.word(first).load(Relaxed) as u128;
        let high = self.word(first.add(CHUNK_FRAMES / WORDS_PER_CHUNK)).load(Relaxed) as u128;
        low | high << 64
    }

    /// See [`Heap::note_marked`].
    #[inline(always)]
    pub(in crate::heap) fn note(self, block: Frame, header: &Header) {
        if header.has_marks.load(Relaxed) == 0 {
            header.has_marks.store(1, Relaxed);
            self.set(block);
        }
    }
}

impl Heap {
    /// A cell of the block was marked, or is about to be.
    #[inline(always)]
    pub fn note_marked(&self, block: Frame, header: &Header) {
        MarkedBlocks(self.marked_blocks.load(Relaxed)).note(block, header);
    }

    /// The frames of a chunk that begin blocks with marked objects.
    pub fn marked_in_chunk(&self, chunk: usize) -> u128 {
        MarkedBlocks(self.marked_blocks.load(Relaxed)).of_chunk(chunk)
    }

    /// All frames of the blocks of a chunk that `firsts` are the first ones of; those of the last
    /// block in the following chunks are `carried` to their calls.
    pub fn frames_of_blocks(&self, chunk: usize, firsts: u128, carried: &mut usize) -> u128 {
        let here = |count: usize| if count >= CHUNK_FRAMES { u128::MAX } else { (1 << count) - 1 };
        let mut frames = here(*carried);
        *carried = carried.saturating_sub(CHUNK_FRAMES);
        let mut left = firsts;
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            let span = self.header(Frame((chunk * CHUNK_FRAMES + place) as u32)).span() as usize;
            frames |= here(span) << place;
            *carried += (place + span).saturating_sub(CHUNK_FRAMES);
        }
        frames
    }

    /// The first frame of the block that begins in the first of these chunks and ends behind the
    /// last; none if there is no such block.
    pub fn reaches_beyond(&self, chunks: Range<usize>) -> u128 {
        let last = Frame((chunks.start * CHUNK_FRAMES + CHUNK_FRAMES - 1) as u32);
        let (block, header) = self.block_of(last);
        let end = block.0 as usize + header.span() as usize;
        let begins_here = header.state() != State::Free && block.chunk() == chunks.start;
        if begins_here && end > chunks.end * CHUNK_FRAMES { 1 << block.in_chunk() } else { 0 }
    }

    /// Of some frames of a chunk those that begin a block whose thread has it unprotected.
    pub fn lent_in_chunk(&self, chunk: usize, among: u128) -> u128 {
        let mut lent = 0;
        let mut left = among;
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            let header = self.header(Frame((chunk * CHUNK_FRAMES + place) as u32));
            if header.state() == State::Small && header.is_lent() {
                lent |= 1 << place;
            }
        }
        lent
    }

    /// No cell of the block is marked.
    pub(in crate::heap) fn forget_marked(&self, block: Frame) {
        let flag = &self.header(block).has_marks;
        if flag.load(Relaxed) != 0 {
            flag.store(0, Relaxed);
            MarkedBlocks(self.marked_blocks.load(Relaxed)).clear(block);
        }
    }

    /// Unmarks every object that is not frozen: before anything is marked in a full cycle.
    pub fn clear_marks(&self) {
        self.state.marks.fetch_or(1, AcqRel);
        self.state.marked_anew.store(true, Relaxed);
        // Under the lock, since the bits of a large object lie in its header: whoever frees it has
        // another header formed there.
        let clear = |block: Frame| {
            let header = self.header(block);
            if header.state() != State::Free && !header.is_frozen() {
                self.bits(block).clear_marks(header.cells());
                self.forget_marked(block);
            }
        };
        let all = self.state.unnoted_marks.swap(false, Relaxed);
        let in_chunk = |chunk| if all { u128::MAX } else { self.marked_in_chunk(chunk) };
        let mut chunks = 0..self.committed() / CHUNK_BYTES;
        let enter = || ();
        self.in_steps(enter, |_| {
            let Some(chunk) = chunks.find(|chunk| in_chunk(*chunk) != 0) else { return true };
            let mut left = in_chunk(chunk);
            while left != 0 {
                clear(Frame((chunk * CHUNK_FRAMES) as u32 + left.trailing_zeros()));
                left &= left - 1;
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::addr::{CellIndex, FRAME_BYTES};
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::classes::TABLE;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;

    #[test]
    fn a_block_is_noted_with_its_first_mark_and_forgotten_with_its_last() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        let id = SpaceId::of(Kind::Conservative, 3);
        let blocks = [0; 100].map(|_| inner.fresh_block(&heap, id, 0, true).unwrap());
        drop(inner);
        for block in [blocks[3], blocks[70], blocks[99]] {
            heap.bits(block).set_range(0..4, false, true, true);
            heap.bits(block).mark::<true>(CellIndex(2));
            heap.note_marked(block, heap.header(block));
            heap.view().note_marked(block, heap.header(block));
        }
        let bit = |block: Frame| 1_u128 << block.in_chunk();
        assert_eq!(heap.marked_in_chunk(0), bit(blocks[3]) | bit(blocks[70]) | bit(blocks[99]));
        let mut inner = heap.inner();
        heap.dissolve_block(&mut inner, blocks[70]);
        drop(inner);
        assert_eq!(heap.marked_in_chunk(0), bit(blocks[3]) | bit(blocks[99]));
        assert_eq!(heap.frames_of_blocks(0, bit(blocks[3]), &mut 2), bit(blocks[3]) | 0b11);
        heap.clear_marks();
        assert_eq!(
            (heap.marked_in_chunk(0), heap.bits(blocks[3]).is_marked(CellIndex(2))),
            (0, false)
        );
    }

    /// A block that was looked at as a large one may be another by the time its bits are cleared.
    #[test]
    fn marks_are_cleared_while_marked_objects_are_freed() {
        let heap = &Heap::new();
        heap.reserve(64 << 20).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    heap.clear_marks();
                }
            });
            let id = SpaceId::of(Kind::Leaf, 3);
            let frames = TABLE[3].frames as usize;
            let is_whole = (0..300_000).all(|_| {
                let mut inner = heap.inner();
                let bytes = frames * FRAME_BYTES;
                let Ok((block, _)) = inner.large_block(heap, Kind::Leaf, NO_LAYOUT, bytes, true)
                else {
                    return false;
                };
                inner.publish_large(heap, block);
                heap.bits(block).mark::<true>(CellIndex(0));
                heap.note_marked(block, heap.header(block));
                drop(inner);
                heap.inner().free_large(heap, block);
                let Ok(small) = heap.inner().fresh_block(heap, id, 0, true) else { return false };
                let header = heap.header(small);
                let is_whole =
                    (0..100).all(|_| header.space() == id.0 && header.cells() == TABLE[3].cells);
                header.let_go();
                heap.inner().begin_sweep(heap, false);
                while !heap.inner().sweep_step(heap) {}
                is_whole
            });
            done.store(true, Relaxed);
            assert!(is_whole, "a header that was overwritten");
        });
    }
}
