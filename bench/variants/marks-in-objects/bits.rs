//! In place of `heap/bits.rs` in the variant that `bench/prefork` compares with: as that, with mark
//! bits and the links of free cells in the cells themselves, where collectors without side tables
//! have them.
//!
//! Invariant: the last word of every allocated cell is the collector's (the variant reserves it as
//! it reserves the byte of `past_end`): 1 if the object is marked. That of a cell which the sweep
//! freed links to the one it freed before. Allocation bits stay outside: conservative lookup needs
//! them. Used as `bits.rs` is; one thread at a time may mark a block unless `SHARED` says
//! otherwise.
//!
//! # Safety
//!
//! Reaches the last word of a cell, which is the collector's in this variant. The block is
//! committed, the word lies within it, and every access is atomic.

#![allow(unsafe_code)]

pub mod mark_transfer;

use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::addr::CellIndex;

/// Cells that a frame's bits have room for: 8-byte cells throughout.
pub const MOST_CELLS: usize = crate::addr::FRAME_BYTES / 8;
/// Bytes of bits per frame.
pub const BITS_BYTES: usize = MOST_CELLS / 64 * 16;

/// The bits of one block: allocation bits outside, a mark in each cell.
#[derive(Clone, Copy)]
pub struct Bits<'a> {
    words: *const AtomicU64,
    lifetime: PhantomData<&'a AtomicU64>,
    /// The block's first byte, and bytes of a cell.
    start: usize,
    cell_bytes: usize,
}

#[inline(always)]
const fn place(cell: CellIndex) -> (usize, u64) {
    (cell.0 as usize / 64 * 2, 1 << (cell.0 % 64))
}

impl<'a> Bits<'a> {
    /// # Safety
    /// At `words` lie the words of a block's cells, of `cell_bytes` bytes each and from `start` on,
    /// committed for as long as `'a`.
    #[inline(always)]
    pub unsafe fn of(words: *const AtomicU64, start: usize, cell_bytes: usize) -> Self {
        Self { words, lifetime: PhantomData, start, cell_bytes }
    }

    /// Word `index`, which holds bits of a cell that the block has.
    #[inline(always)]
    fn word(self, index: usize) -> &'a AtomicU64 {
        // SAFETY: the promise of `of`; all access is atomic.
        unsafe { &*self.words.add(index) }
    }

    /// The word of a cell that is the collector's.
    #[inline(always)]
    fn own(self, cell: CellIndex) -> &'a AtomicU64 {
        // SAFETY: the last word of a cell of the block, which is committed.
        unsafe {
            &*((self.start + (cell.0 as usize + 1) * self.cell_bytes - 8) as *const AtomicU64)
        }
    }

    /// The address of the words for `cell`, to prefetch.
    #[inline(always)]
    pub fn address_of(self, cell: CellIndex) -> *const AtomicU64 {
        core::ptr::from_ref(self.word(place(cell).0))
    }

    /// Whether the cell is marked.
    #[inline(always)]
    pub fn is_marked(self, cell: CellIndex) -> bool {
        self.is_allocated(cell) && self.own(cell).load(Relaxed) & 1 != 0
    }

    /// Whether the cell is allocated (or in a run that a thread holds).
    #[inline(always)]
    pub fn is_allocated(self, cell: CellIndex) -> bool {
        let (word, bit) = place(cell);
        self.word(word + 1).load(Relaxed) & bit != 0
    }

    /// Marks the cell if it is allocated and not marked yet; says whether it did. With `SHARED`,
    /// other markers may do the same.
    #[inline(always)]
    pub fn mark<const SHARED: bool>(self, cell: CellIndex) -> bool {
        if !self.is_allocated(cell) {
            return false;
        }
        let own = self.own(cell);
        if own.load(Relaxed) & 1 != 0 {
            return false;
        }
        if SHARED {
            own.swap(1, Relaxed) & 1 == 0
        } else {
            own.store(1, Relaxed);
            true
        }
    }

    /// Sets (`on`) or clears the marks, the allocation bits or both of a range of cells. A cell
    /// that becomes allocated is unmarked unless it is marked with it.
    pub fn set_range(self, cells: Range<u32>, mark: bool, allocated: bool, on: bool) {
        for cell in cells {
            let cell = CellIndex(cell);
            if mark || allocated {
                self.own(cell).store((mark && on) as u64, Relaxed);
            }
            if allocated {
                let (word, bit) = place(cell);
                if on {
                    self.word(word + 1).fetch_or(bit, Relaxed);
                } else {
                    self.word(word + 1).fetch_and(!bit, Relaxed);
                }
            }
        }
    }

    /// Marks a range of cells; says how many were not marked before.
    pub fn mark_range(self, cells: Range<u32>) -> u32 {
        let new = |cell: &u32| self.own(CellIndex(*cell)).swap(1, Relaxed) == 0;
        cells.filter(new).count() as u32
    }

    /// Makes the only cell of a block allocated.
    pub fn publish_only(self, marked: bool) {
        self.own(CellIndex(0)).store(marked as u64, Relaxed);
        self.word(1).store(1, Relaxed);
    }

    /// Clears the allocation bit and the mark of a cell; false if it was not allocated.
    pub fn free(self, cell: CellIndex) -> bool {
        let (word, bit) = place(cell);
        let was = self.word(word + 1).fetch_and(!bit, Relaxed) & bit != 0;
        self.own(cell).store(0, Relaxed);
        was
    }

    /// The allocated cells.
    fn each_allocated(self, cells: u32) -> impl Iterator<Item = CellIndex> + use<'a> {
        (0..cells.div_ceil(64) as usize).flat_map(move |word| {
            let mut left = self.allocated_word(word);
            core::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(CellIndex(word as u32 * 64 + bit))
            })
        })
    }

    /// Clears all marks of a block of `cells` cells.
    pub fn clear_marks(self, cells: u32) {
        self.each_allocated(cells).for_each(|cell| self.own(cell).store(0, Relaxed));
    }

    /// Clears everything. The cells are nobody's, and what their words hold does not count.
    pub fn clear(self, cells: u32) {
        for word in 0..cells.div_ceil(64) as usize * 2 {
            self.word(word).store(0, Relaxed);
        }
    }

    /// Sweeps: what is not marked is free from now on, and linked. Gives the number of cells that
    /// stay.
    pub fn sweep(self, cells: u32) -> u32 {
        let (mut live, mut last_free) = (0, 0);
        for cell in self.each_allocated(cells) {
            if self.own(cell).load(Relaxed) & 1 != 0 {
                live += 1;
                continue;
            }
            self.own(cell).store(last_free, Relaxed);
            last_free = (u64::from(cell.0) + 1) << 1;
            let (word, bit) = place(cell);
            self.word(word + 1).fetch_and(!bit, Relaxed);
        }
        live
    }

    /// Marks what is allocated; gives the number of such cells.
    pub fn mark_allocated(self, cells: u32) -> u32 {
        self.each_allocated(cells).map(|cell| self.own(cell).store(1, Relaxed)).count() as u32
    }

    /// Number of allocated cells.
    pub fn allocated(self, cells: u32) -> u32 {
        self.each_allocated(cells).count() as u32
    }

    /// Number of marked cells.
    pub fn marked(self, cells: u32) -> u32 {
        self.each_allocated(cells).filter(|cell| self.is_marked(*cell)).count() as u32
    }

    /// The next run of free cells at or after `from`.
    pub fn next_free_run(self, from: u32, cells: u32) -> Option<Range<u32>> {
        let start = self.next(from, cells, true)?;
        Some(start..self.next(start, cells, false).unwrap_or(cells))
    }

    /// The next run of marked cells at or after `from`, of those before `cells`.
    pub fn next_marked_run(self, from: u32, cells: u32) -> Option<Range<u32>> {
        let start = (from..cells).find(|cell| self.is_marked(CellIndex(*cell)))?;
        let end = (start..cells).find(|cell| !self.is_marked(CellIndex(*cell)));
        Some(start..end.unwrap_or(cells))
    }

    /// The next cell at or after `from` that is free (or not).
    fn next(self, from: u32, cells: u32, free: bool) -> Option<u32> {
        let flip = if free { u64::MAX } else { 0 };
        let mut cell = from;
        while cell < cells {
            let word = (self.word(cell as usize / 64 * 2 + 1).load(Relaxed) ^ flip) >> (cell % 64);
            if word != 0 {
                let found = cell + word.trailing_zeros();
                return (found < cells).then_some(found);
            }
            cell = (cell | 63) + 1;
        }
        None
    }

    /// The marked cells of word `word` of a block, as a mask.
    pub fn mark_word(self, word: usize) -> u64 {
        let (mut marked, mut left) = (0, self.allocated_word(word));
        while left != 0 {
            let bit = left.trailing_zeros();
            left &= left - 1;
            marked |= u64::from(self.is_marked(CellIndex(word as u32 * 64 + bit))) << bit;
        }
        marked
    }

    /// Marks the cells of a mask in word `word` of a block.
    pub fn add_marks(self, word: usize, mask: u64) {
        let mut left = mask;
        while left != 0 {
            self.mark::<true>(CellIndex(word as u32 * 64 + left.trailing_zeros()));
            left &= left - 1;
        }
    }

    /// The allocated cells of word `word` of a block, as a mask.
    pub fn allocated_word(self, word: usize) -> u64 {
        self.word(word * 2 + 1).load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_links_lie_in_the_cells() {
        let words = [const { AtomicU64::new(0) }; BITS_BYTES / 8];
        let cells = [const { AtomicU64::new(0) }; 40];
        // SAFETY: words and ten cells of 32 bytes, which live through the test.
        let bits = unsafe { Bits::of(words.as_ptr(), cells.as_ptr() as usize, 32) };
        bits.set_range(0..8, false, true, true);
        assert!(bits.mark::<false>(CellIndex(2)) && !bits.mark::<true>(CellIndex(2)));
        assert!(!bits.mark::<true>(CellIndex(9)), "nothing is allocated there");
        assert_eq!((bits.marked(10), bits.mark_word(0), cells[11].load(Relaxed)), (1, 4, 1));
        assert_eq!((bits.next_marked_run(0, 10), bits.next_marked_run(3, 10)), (Some(2..3), None));
        assert_eq!(bits.sweep(10), 1);
        assert_eq!(bits.next_free_run(0, 10), Some(0..2));
        assert_eq!(bits.next_free_run(2, 10), Some(3..10));
        assert_eq!(cells[31].load(Relaxed), (6 + 1) << 1, "linked to the one freed before");
        bits.clear_marks(10);
        assert_eq!((bits.marked(10), bits.allocated(10), bits.mark_allocated(10)), (0, 1, 1));
        assert!(bits.free(CellIndex(2)) && !bits.free(CellIndex(2)));
    }
}
