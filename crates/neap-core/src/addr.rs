//! Addresses and the units the heap counts in, each a type of its own, and all arithmetic between
//! them.
//!
//! Invariant: nothing here touches memory; a value says where, never what. Imports nothing of the
//! crate.

use core::ops::Range;

/// log2 of [`FRAME_BYTES`].
pub const FRAME_SHIFT: u32 = 14;
/// The unit in which a chunk is divided into blocks. Larger: fewer headers, more waste in small
/// programs; smaller: the reverse.
pub const FRAME_BYTES: usize = 1 << FRAME_SHIFT;
/// log2 of [`CHUNK_BYTES`].
pub const CHUNK_SHIFT: u32 = 21;
/// The unit in which the reserved range is committed: one huge page.
pub const CHUNK_BYTES: usize = 1 << CHUNK_SHIFT;
/// Frames in a chunk.
pub const CHUNK_FRAMES: usize = CHUNK_BYTES / FRAME_BYTES;
/// The system's page; large objects are counted in pages.
pub const PAGE_BYTES: usize = 4096;
/// A machine word: what a conservative scan reads.
pub const WORD_BYTES: usize = size_of::<usize>();
/// What the size of a large object is a multiple of.
pub const GRANULE_BYTES: usize = 16;

/// An address in the program, not necessarily of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Address(pub usize);

/// A frame, counted from the start of the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Frame(pub u32);

/// A cell, counted from the start of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct CellIndex(pub u32);

impl Address {
    /// The address `bytes` further on.
    #[inline(always)]
    pub const fn add(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
    /// How far `self` lies above `start`; wraps when it lies below, which makes it huge.
    #[inline(always)]
    pub const fn offset_from(self, start: Self) -> usize {
        self.0.wrapping_sub(start.0)
    }
    /// As a pointer for the caller to dereference.
    #[inline(always)]
    pub const fn pointer<T>(self) -> *mut T {
        self.0 as *mut T
    }
}

impl Frame {
    /// The frame that holds the byte `offset` above the start of the reservation.
    #[inline(always)]
    pub const fn containing(offset: usize) -> Self {
        Self((offset >> FRAME_SHIFT) as u32)
    }
    /// Bytes from the start of the reservation.
    #[inline(always)]
    pub const fn offset(self) -> usize {
        (self.0 as usize) << FRAME_SHIFT
    }
    /// The chunk it lies in, counted from the start of the reservation.
    #[inline(always)]
    pub const fn chunk(self) -> usize {
        self.0 as usize / CHUNK_FRAMES
    }
    /// Its place within its chunk.
    #[inline(always)]
    pub const fn in_chunk(self) -> usize {
        self.0 as usize % CHUNK_FRAMES
    }
    /// The frame `count` further on.
    #[inline(always)]
    pub const fn add(self, count: usize) -> Self {
        Self(self.0 + count as u32)
    }
}

/// `value` rounded up to a multiple of `unit`, a power of two. None where it does not fit.
#[inline(always)]
pub const fn round_up(value: usize, unit: usize) -> Option<usize> {
    match value.checked_add(unit - 1) {
        Some(sum) => Some(sum & !(unit - 1)),
        None => None,
    }
}

/// The word-aligned part of a range of addresses.
pub const fn whole_words(range: &Range<usize>) -> Range<usize> {
    let start = (range.start.wrapping_add(WORD_BYTES - 1)) & !(WORD_BYTES - 1);
    let end = range.end & !(WORD_BYTES - 1);
    if end < start { start..start } else { start..end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_chunks_divide_the_range() {
        let frame = Frame::containing(3 * CHUNK_BYTES + 5 * FRAME_BYTES + 17);
        assert_eq!((frame.chunk(), frame.in_chunk()), (3, 5));
        assert_eq!(frame.offset(), 3 * CHUNK_BYTES + 5 * FRAME_BYTES);
    }

    #[test]
    fn rounding_refuses_overflow() {
        assert_eq!(round_up(1, 4096), Some(4096));
        assert_eq!(round_up(4096, 4096), Some(4096));
        assert_eq!(round_up(usize::MAX - 1, 4096), None);
    }

    #[test]
    fn whole_words_shrinks_inwards() {
        assert_eq!(whole_words(&(1..31)), 8..24);
        assert_eq!(whole_words(&(9..10)), 16..16);
    }
}
