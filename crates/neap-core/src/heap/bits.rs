//! Mark bits and allocation bits of a block, side by side outside the heap: word 2i holds 64 mark
//! bits, word 2i+1 the allocation bits of the same 64 cells, so that a marker that checks one and
//! sets the other touches one cache line.
//!
//! Invariant `[heap.inv.bits]`: a cell that is marked is allocated, except while its block waits to
//! be swept. Bits past the last cell are clear. Mark bits are written by markers, allocation bits
//! by the thread that owns the block's free cells or frees one of them.
//!
//! # Safety
//!
//! Makes references to the words of a block's bits from their address. Bits of committed frames
//! are mapped and never unmapped, and every access is atomic, so aliases do no harm.

#![allow(unsafe_code)]

pub mod mark_transfer;

use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};

use crate::addr::CellIndex;

/// Cells that a frame's bits have room for: 8-byte cells throughout.
pub const MOST_CELLS: usize = crate::addr::FRAME_BYTES / 8;
/// Bytes of bits per frame.
pub const BITS_BYTES: usize = MOST_CELLS / 64 * 16;

/// The bits of one block.
#[derive(Clone, Copy)]
pub struct Bits<'a>(*const AtomicU64, PhantomData<&'a AtomicU64>);

#[inline(always)]
const fn place(cell: CellIndex) -> (usize, u64) {
    (cell.0 as usize / 64 * 2, 1 << (cell.0 % 64))
}

/// The words that have the mark bits of a range of cells, and which of their bits.
#[inline(always)]
fn words_of(cells: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let mut cell = cells.start;
    core::iter::from_fn(move || {
        (cell < cells.end).then(|| {
            let last = (cell | 63).min(cells.end - 1);
            let mask = (u64::MAX >> (63 - (last - cell))) << (cell % 64);
            let word = cell as usize / 64 * 2;
            cell = last + 1;
            (word, mask)
        })
    })
}

impl<'a> Bits<'a> {
    /// # Safety
    /// At `start` lie the words of a block's cells, committed for as long as `'a`.
    #[inline(always)]
    pub unsafe fn at(start: *const AtomicU64) -> Self {
        Self(start, PhantomData)
    }

    /// Word `index`, which holds bits of a cell that the block has.
    #[inline(always)]
    fn word(self, index: usize) -> &'a AtomicU64 {
        // SAFETY: the promise of `at`; all access is atomic.
        unsafe { &*self.0.add(index) }
    }

    /// The address of the words for `cell`, to prefetch.
    #[inline(always)]
    pub fn address_of(self, cell: CellIndex) -> *const AtomicU64 {
        core::ptr::from_ref(self.word(place(cell).0))
    }

    /// Whether the cell is marked.
    #[inline(always)]
    pub fn is_marked(self, cell: CellIndex) -> bool {
        let (word, bit) = place(cell);
        self.word(word).load(Relaxed) & bit != 0
    }

    /// Whether the cell is allocated (or in a buffer that a thread holds).
    #[inline(always)]
    pub fn is_allocated(self, cell: CellIndex) -> bool {
        let (word, bit) = place(cell);
        self.word(word + 1).load(Relaxed) & bit != 0
    }

    /// Marks the cell if it is allocated and not marked yet; says whether it did. With `SHARED`,
    /// other markers may do the same.
    #[inline(always)]
    pub fn mark<const SHARED: bool>(self, cell: CellIndex) -> bool {
        let (word, bit) = place(cell);
        let mut old = self.word(word).load(Relaxed);
        if old & bit != 0 || self.word(word + 1).load(Relaxed) & bit == 0 {
            return false;
        }
        if SHARED {
            // Not `fetch_or`, whose result would be asked for the bit: that becomes `lock bts`, and
            // marking takes a few percent longer.
            while let Err(now) =
                self.word(word).compare_exchange_weak(old, old | bit, Relaxed, Relaxed)
            {
                if now & bit != 0 {
                    return false;
                }
                old = now;
            }
        } else {
            self.word(word).store(old | bit, Relaxed);
        }
        true
    }

    /// Sets (`on`) or clears the mark bits, the allocation bits or both of a range of cells,
    /// atomically word by word.
    pub fn set_range(self, cells: Range<u32>, mark: bool, allocated: bool, on: bool) {
        for (word, mask) in words_of(cells) {
            for word in (mark.then_some(word)).into_iter().chain(allocated.then_some(word + 1)) {
                match (mask, on) {
                    // What the other bits are does not matter where there are none.
                    (u64::MAX, true) => self.word(word).store(u64::MAX, Release),
                    (u64::MAX, false) => self.word(word).store(0, Relaxed),
                    (_, true) => _ = self.word(word).fetch_or(mask, Relaxed),
                    (_, false) => _ = self.word(word).fetch_and(!mask, Relaxed),
                }
            }
        }
    }

    /// Marks a range of cells, beside others who mark; says how many were not marked before.
    pub fn mark_range(self, cells: Range<u32>) -> u32 {
        words_of(cells)
            .map(|(word, mask)| (mask & !self.word(word).fetch_or(mask, Relaxed)).count_ones())
            .sum()
    }

    /// Makes free cells allocated, for the thread that holds the block. In a word without any
    /// allocated cell nobody else changes an allocation bit, since there is none to free, and a
    /// plain store need not wait for the zeros that were written before it
    /// `[alloc.why.no-wait]`.
    pub fn allocate(self, cells: Range<u32>) {
        for (word, mask) in words_of(cells) {
            let word = self.word(word + 1);
            match word.load(Relaxed) {
                0 => word.store(mask, Release),
                _ => _ = word.fetch_or(mask, Release),
            }
        }
    }

    /// Makes the only cell of a block allocated, while nobody else writes its bits: unlike
    /// [`Self::set_range`] it need not wait for what was stored before.
    pub fn publish_only(self, marked: bool) {
        self.word(0).store(marked as u64, Relaxed);
        self.word(1).store(1, Release);
    }

    /// Clears the mark bit and the allocation bit of a cell; false if it was not allocated. The
    /// allocation bit last: from then on the cell may be another object's.
    pub fn free(self, cell: CellIndex) -> bool {
        let (word, bit) = place(cell);
        // Nothing is marked meanwhile: frees are put off until marking has ended.
        if self.word(word).load(Relaxed) & bit != 0 {
            self.word(word).fetch_and(!bit, Relaxed);
        }
        // Who is handed the cell next sees what was written to it.
        self.word(word + 1).fetch_and(!bit, Release) & bit != 0
    }

    /// Clears all mark bits of a block of `cells` cells.
    pub fn clear_marks(self, cells: u32) {
        for word in 0..cells.div_ceil(64) as usize {
            self.word(word * 2).store(0, Relaxed);
        }
    }

    /// Clears everything.
    pub fn clear(self, cells: u32) {
        for word in 0..cells.div_ceil(64) as usize * 2 {
            self.word(word).store(0, Relaxed);
        }
    }

    /// Sweeps: what is not marked is free from now on. Gives the number of cells that stay.
    pub fn sweep(self, cells: u32) -> u32 {
        let mut live = 0;
        for word in 0..cells.div_ceil(64) as usize {
            let marks = self.word(word * 2).load(Relaxed);
            self.word(word * 2 + 1).store(marks, Relaxed);
            live += marks.count_ones();
        }
        live
    }

    /// Marks what is allocated; gives the number of such cells. Writes only what changes: the
    /// memory may be shared with other processes.
    pub fn mark_allocated(self, cells: u32) -> u32 {
        let mut live = 0;
        for word in 0..cells.div_ceil(64) as usize {
            let allocated = self.word(word * 2 + 1).load(Relaxed);
            if self.word(word * 2).load(Relaxed) != allocated {
                self.word(word * 2).store(allocated, Relaxed);
            }
            live += allocated.count_ones();
        }
        live
    }

    /// Number of allocated cells.
    pub fn allocated(self, cells: u32) -> u32 {
        (0..cells.div_ceil(64) as usize)
            .map(|word| self.word(word * 2 + 1).load(Relaxed).count_ones())
            .sum()
    }

    /// Number of marked cells.
    pub fn marked(self, cells: u32) -> u32 {
        (0..cells.div_ceil(64) as usize)
            .map(|word| self.word(word * 2).load(Relaxed).count_ones())
            .sum()
    }

    /// The next run of free cells at or after `from`.
    pub fn next_free_run(self, from: u32, cells: u32) -> Option<Range<u32>> {
        let start = self.next::<1>(from, cells, false)?;
        Some(start..self.next::<1>(start, cells, true).unwrap_or(cells))
    }

    /// The next run of marked cells at or after `from`, of those before `cells`.
    pub fn next_marked_run(self, from: u32, cells: u32) -> Option<Range<u32>> {
        let start = self.next::<0>(from, cells, true)?;
        Some(start..self.next::<0>(start, cells, false).unwrap_or(cells))
    }

    /// The next cell at or after `from` whose bit is `on`: its mark bit (`WHICH` 0) or allocation
    /// bit (1).
    fn next<const WHICH: usize>(self, from: u32, cells: u32, on: bool) -> Option<u32> {
        let flip = if on { 0 } else { u64::MAX };
        let mut cell = from;
        while cell < cells {
            let word =
                (self.word(cell as usize / 64 * 2 + WHICH).load(Relaxed) ^ flip) >> (cell % 64);
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
        self.word(word * 2).load(Relaxed)
    }

    /// Marks the cells of a mask in word `word` of a block, beside others who mark.
    pub fn add_marks(self, word: usize, mask: u64) {
        if mask != 0 {
            self.word(word * 2).fetch_or(mask, Relaxed);
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

    fn with_bits(f: impl FnOnce(Bits<'_>)) {
        let words = [const { AtomicU64::new(0) }; BITS_BYTES / 8];
        // SAFETY: the words live through the call.
        f(unsafe { Bits::at(words.as_ptr()) });
    }

    #[test]
    fn free_runs_are_found_between_allocated_cells() {
        with_bits(|bits| {
            bits.set_range(0..3, false, true, true);
            bits.set_range(70..200, false, true, true);
            assert_eq!(bits.next_free_run(0, 300), Some(3..70));
            assert_eq!(bits.next_free_run(70, 300), Some(200..300));
            assert_eq!(bits.next_free_run(70, 200), None);
            assert_eq!(bits.next_free_run(300, 300), None);
            assert_eq!(bits.allocated(300), 133);
        });
    }

    #[test]
    fn cells_are_allocated_beside_others_of_their_words() {
        with_bits(|bits| {
            bits.allocate(3..10);
            bits.allocate(10..16);
            bits.free(CellIndex(4));
            bits.allocate(60..200);
            let runs = [bits.next_free_run(0, 200), bits.next_free_run(3, 200)];
            assert_eq!(runs, [Some(0..3), Some(4..5)]);
            assert_eq!(bits.next_free_run(5, 200), Some(16..60));
            assert_eq!((bits.next_free_run(60, 200), bits.marked(200)), (None, 0));
        });
    }

    #[test]
    fn a_range_is_marked_and_what_is_new_is_counted() {
        with_bits(|bits| {
            bits.set_range(0..200, false, true, true);
            assert!(bits.mark::<false>(CellIndex(70)));
            assert_eq!(bits.mark_range(60..150), 89);
            assert_eq!(bits.mark_range(60..151), 1);
            assert_eq!(bits.marked(200), 91);
        });
    }

    #[test]
    fn only_allocated_cells_are_marked_and_only_once() {
        with_bits(|bits| {
            assert!(!bits.mark::<false>(CellIndex(5)));
            bits.set_range(5..6, false, true, true);
            assert!(bits.mark::<true>(CellIndex(5)));
            assert!(!bits.mark::<true>(CellIndex(5)) && !bits.mark::<false>(CellIndex(5)));
            assert!(bits.is_marked(CellIndex(5)) && !bits.is_marked(CellIndex(6)));
        });
    }

    #[test]
    fn sweeping_frees_what_is_not_marked() {
        with_bits(|bits| {
            bits.set_range(0..128, false, true, true);
            bits.set_range(10..74, true, false, true);
            assert_eq!(bits.sweep(128), 64);
            assert_eq!(bits.next_free_run(0, 128), Some(0..10));
            assert_eq!(bits.next_free_run(10, 128), Some(74..128));
            bits.clear_marks(128);
            assert_eq!((bits.marked(128), bits.allocated(128)), (0, 64));
        });
    }

    #[test]
    fn marking_all_that_is_allocated_unmarks_the_rest() {
        with_bits(|bits| {
            bits.set_range(3..70, false, true, true);
            bits.set_range(100..101, true, true, true);
            assert_eq!(bits.mark_allocated(128), 68);
            assert_eq!((bits.marked(128), bits.allocated(128)), (68, 68));
            assert!(bits.is_marked(CellIndex(69)) && !bits.is_marked(CellIndex(70)));
        });
    }

    #[test]
    fn freeing_twice_is_noticed() {
        with_bits(|bits| {
            bits.set_range(64..65, true, true, true);
            assert!(bits.free(CellIndex(64)));
            assert!(!bits.free(CellIndex(64)) && !bits.is_marked(CellIndex(64)));
        });
    }
}
