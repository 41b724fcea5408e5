//! From any word to the object it points into: one subtraction, one compare, the block's header,
//! one multiplication.
//!
//! Invariant: a word is an object's only if a cell that is allocated contains it; for a large
//! object, only up to the bytes asked for. Safe on any word at any time, also while other threads
//! make and end blocks: it reads metadata only.
//!
//! # Safety
//!
//! Makes references to headers and bits of frames below the committed length, which every lookup
//! compares with first. That memory is mapped, valid when zeroed, and never unmapped. Prefetching
//! reads nothing.

#![allow(unsafe_code)]

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::bits::{BITS_BYTES, Bits};
use super::blocks::block_offsets::BlockOffsets;
use super::blocks::header::{Header, State};
use super::blocks::marked_blocks::MarkedBlocks;
use super::{Heap, classes};
use crate::addr::{Address, CellIndex, Frame};

/// A cell that a word points into.
#[derive(Clone, Copy)]
pub struct Cell<'h> {
    /// Its block's first frame.
    pub block: Frame,
    /// Its block's header.
    pub header: &'h Header,
    /// The block's bits.
    pub bits: Bits<'h>,
    /// Its place in the block.
    pub index: CellIndex,
    /// Its first byte.
    pub start: Address,
}

impl<'h> Cell<'h> {
    /// Bytes of the cell.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.header.cell_bytes()
    }

    /// Bytes that the program may use: scanned, and what a pointer may point into.
    #[inline(always)]
    pub fn usable_bytes(&self) -> usize {
        match self.header.requested() {
            0 => self.bytes(),
            requested => requested,
        }
    }
}

/// Where the heap and its metadata were when it was taken: plain words that a loop keeps in
/// registers. A heap that has grown since has more to see, never less.
#[derive(Clone, Copy)]
pub struct View<'h> {
    /// Lowest address.
    pub base: Address,
    /// Bytes that objects can lie in.
    pub length: usize,
    headers: *const Header,
    bits: usize,
    marked_blocks: MarkedBlocks,
    block_offsets: BlockOffsets,
    heap: PhantomData<&'h Heap>,
}

impl<'h> View<'h> {
    /// The header of a frame that lies in the view.
    #[inline(always)]
    pub fn header(&self, frame: Frame) -> &'h Header {
        debug_assert!(frame.offset() < self.length);
        // SAFETY: as `Heap::header`.
        unsafe { &*self.headers.add(frame.0 as usize) }
    }

    /// See [`Heap::block_of`].
    #[inline(always)]
    pub(super) fn first_frame(&self, frame: Frame) -> Frame {
        self.block_offsets.first(frame)
    }

    /// See [`Heap::note_marked`].
    #[inline(always)]
    pub fn note_marked(&self, block: Frame, header: &Header) {
        self.marked_blocks.note(block, header);
    }

    /// The bits of the block that begins at `frame`.
    #[inline(always)]
    pub fn bits(&self, frame: Frame) -> Bits<'h> {
        let header = self.header(frame);
        match header.state() {
            State::Large => self.bits_at(header.own_bits()),
            _ => self.bits_at(self.words(frame)),
        }
    }

    /// The words of a frame: those of its block's bits, if that has cells and begins there.
    #[inline(always)]
    pub fn words(&self, frame: Frame) -> *const AtomicU64 {
        (self.bits + frame.0 as usize * BITS_BYTES) as *const _
    }

    /// The bits of a block that are known to lie in `words`.
    #[inline(always)]
    fn bits_at(&self, words: *const AtomicU64) -> Bits<'h> {
        // SAFETY: headers and bits of the committed range are mapped and never unmapped.
        unsafe { Bits::at(words) }
    }

    /// Has fetched what a look at `word`, which lies in the view, most likely needs: the header of
    /// its frame and the first bits there, which are those of most cells.
    #[inline(always)]
    pub fn prefetch_metadata(&self, word: usize) {
        let frame = Frame::containing(Address(word).offset_from(self.base));
        // SAFETY: prefetching any address is harmless.
        unsafe {
            _mm_prefetch(core::ptr::from_ref(self.header(frame)).cast(), _MM_HINT_T0);
            _mm_prefetch(self.words(frame).cast(), _MM_HINT_T0);
        }
    }

    /// Whether the cell holds an object that is not marked.
    #[inline(always)]
    pub fn is_to_mark(&self, cell: &Cell<'h>) -> bool {
        !cell.bits.is_marked(cell.index) && cell.bits.is_allocated(cell.index)
    }

    /// The cell that a word points into, allocated or not. `[heap.rule.lookup]`
    #[inline(always)]
    pub fn cell_at(&self, word: usize) -> Option<Cell<'h>> {
        let offset = Address(word).offset_from(self.base);
        if offset >= self.length {
            return None;
        }
        let mut block = Frame::containing(offset);
        let mut header = self.header(block);
        let state = match header.state() {
            State::Free => {
                block = self.first_frame(block);
                header = self.header(block);
                header.state()
            }
            state => state,
        };
        let within = offset - block.offset();
        let first = self.base.add(block.offset());
        match state {
            State::Small => {
                let index = classes::cell_at(within, header.reciprocal());
                let start = first.add(index.0 as usize * header.cell_bytes());
                let bits = self.bits_at(self.words(block));
                (index.0 < header.cells()).then_some(Cell { block, header, bits, index, start })
            }
            State::Large if within < header.requested() => {
                let bits = self.bits_at(header.own_bits());
                Some(Cell { block, header, bits, index: CellIndex(0), start: first })
            }
            _ => None,
        }
    }
}

impl Heap {
    /// Whether a word lies in the part of the range that is in use.
    #[inline(always)]
    pub fn contains(&self, word: usize) -> bool {
        Address(word).offset_from(self.base()) < self.committed()
    }

    /// The heap as it is now, for many lookups in a row.
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        View {
            base: self.base(),
            length: self.committed(),
            headers: self.headers.load(Relaxed) as *const Header,
            bits: self.bits.load(Relaxed),
            marked_blocks: MarkedBlocks(self.marked_blocks.load(Relaxed)),
            block_offsets: BlockOffsets(self.block_offsets.load(Relaxed)),
            heap: PhantomData,
        }
    }

    /// The cell that a word points into, allocated or not.
    #[inline(always)]
    pub fn cell_at(&self, word: usize) -> Option<Cell<'_>> {
        self.view().cell_at(word)
    }

    /// The object that a word points into.
    #[inline]
    pub fn object_at(&self, word: usize) -> Option<Cell<'_>> {
        self.cell_at(word).filter(|cell| cell.bits.is_allocated(cell.index))
    }

    /// Whether the object that a word points into is marked; false where there is none.
    pub fn is_marked(&self, word: usize) -> bool {
        self.cell_at(word).is_some_and(|cell| cell.bits.is_marked(cell.index))
    }

    /// Has the header of the frame that a word lies in fetched.
    #[inline(always)]
    pub fn prefetch_header(&self, word: usize) {
        let offset = Address(word).offset_from(self.base());
        if offset < self.committed() {
            let header = core::ptr::from_ref(self.header(Frame::containing(offset)));
            // SAFETY: prefetching any address is harmless.
            unsafe { _mm_prefetch(header.cast(), _MM_HINT_T0) };
        }
    }

    /// Has the mark bit of the cell that a word points into fetched.
    #[inline(always)]
    pub fn prefetch_marks(&self, word: usize) {
        if let Some(cell) = self.cell_at(word) {
            let bits = cell.bits.address_of(cell.index);
            // SAFETY: prefetching any address is harmless.
            unsafe { _mm_prefetch(bits.cast(), _MM_HINT_T0) };
        }
    }

    /// Has what a large object that may be made there would write fetched.
    #[inline(always)]
    pub fn prefetch_large(&self, block: Frame) {
        let view = self.view();
        // SAFETY: prefetching any address is harmless.
        unsafe {
            let header = (view.headers).wrapping_add(block.0 as usize);
            _mm_prefetch(header.cast(), _MM_HINT_T0);
            _mm_prefetch(view.block_offsets.address_of(block).cast(), _MM_HINT_T0);
        }
    }

    /// Calls `f` with the first byte of every allocated cell of a block.
    pub fn for_each_object(
        &self,
        block: Frame,
        header: &Header,
        mut f: impl FnMut(CellIndex, Address),
    ) {
        let bits = self.bits(block);
        for word in 0..header.cells().div_ceil(64) as usize {
            let mut left = bits.allocated_word(word);
            while left != 0 {
                let index = CellIndex(word as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
                f(index, self.address(block).add(index.0 as usize * header.cell_bytes()));
            }
        }
    }
}

/// The plain way to the same answer, for the test that compares them: walks all blocks and divides.
#[cfg(test)]
fn object_at_reference(heap: &Heap, word: usize) -> Option<usize> {
    let mut found = None;
    heap.for_each_block(|frame, header| {
        let start = heap.address(frame).0;
        let bytes = header.cell_bytes();
        for cell in 0..header.cells() as usize {
            let cell_start = start + cell * bytes;
            let end = if header.state() == State::Large {
                start + header.requested()
            } else {
                cell_start + bytes
            };
            if (cell_start..end).contains(&word)
                && heap.bits(frame).is_allocated(CellIndex(cell as u32))
            {
                found = Some(cell_start);
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::spaces::SpaceId;
    use super::*;
    use crate::heap::kind::Kind;

    #[test]
    fn every_word_finds_the_cell_that_the_reference_finds() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        for class in [0, 1, 5, 15, 20, 40, 60, 79] {
            let block = inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, class), 0, true).unwrap();
            heap.bits(block).set_range(0..heap.header(block).cells().min(3), false, true, true);
        }
        let (large, _) = inner
            .large_block(&heap, Kind::Leaf, crate::heap::blocks::header::NO_LAYOUT, 100_000, true)
            .unwrap();
        inner.publish_large(&heap, large);
        drop(inner);
        let (base, end) = (heap.base().0, heap.base().0 + heap.committed());
        let mut seed = 1_u64;
        let mut hits = 0;
        for probe in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let word = match probe {
                0 => base.wrapping_sub(1),
                1 => end,
                2 => usize::MAX,
                _ => base + (seed >> 33) as usize % (2 << 20).min(end - base),
            };
            let found = heap.object_at(word).map(|cell| cell.start.0);
            assert_eq!(found, object_at_reference(&heap, word), "{word:#x}");
            hits += found.is_some() as u32;
        }
        assert!(hits > 500);
    }
}
