//! Size classes: every 8 bytes to 128, then eight steps to each doubling up to 32 KiB, so that
//! rounding wastes at most 12.5 %.
//!
//! Invariant: the class of a size is the smallest whose cells hold it, and a size that is a
//! multiple of a power of two A gets cells whose size is a multiple of A. Pure; `neap_inline.h`
//! computes the same classes and a test compares them. Called from any thread.

use crate::addr::{CellIndex, FRAME_BYTES};

/// Number of size classes.
pub const CLASSES: usize = 80;
/// The largest size that has a class; larger objects get pages of their own.
pub const LARGEST_SMALL: usize = 32 << 10;
/// Up to here classes are 8 bytes apart.
const FINE_LIMIT: usize = 128;
const FINE_CLASSES: usize = FINE_LIMIT / 8;
/// A block's cells must fill all but this fraction of it.
const LARGEST_TAIL_FRACTION: usize = 16;
/// A block holds at least so many cells, so that its header is shared.
const FEWEST_CELLS: usize = 4;

/// One size class and the shape of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Bytes of a cell.
    pub cell_bytes: u32,
    /// ⌈2³² / cell_bytes⌉: offset × reciprocal >> 32 is the cell's index.
    pub reciprocal: u32,
    /// Cells in a block.
    pub cells: u32,
    /// Frames of a block.
    pub frames: u32,
}

/// The class of a size from 1 to [`LARGEST_SMALL`]; 0 bytes count as 1.
#[inline(always)]
pub const fn class_of(bytes: usize) -> usize {
    if bytes <= FINE_LIMIT {
        return bytes.saturating_sub(1) / 8;
    }
    let below = bytes - 1;
    let doubling = usize::BITS - 1 - below.leading_zeros();
    let step = (below >> (doubling - 3)) & 7;
    FINE_CLASSES + (doubling as usize - 7) * 8 + step
}

/// The same; with `align_all` of 1, a class whose cells are a multiple of 16 bytes.
#[inline(always)]
pub const fn class_with(bytes: usize, align_all: usize) -> usize {
    let class = class_of(bytes);
    // Fine classes alternate: odd ones are the multiples of 16. Coarse ones all are.
    if bytes <= FINE_LIMIT { class | align_all } else { class }
}

/// Bytes of a cell of `class`.
pub const fn cell_bytes(class: usize) -> usize {
    if class < FINE_CLASSES {
        return (class + 1) * 8;
    }
    let (doubling, step) = ((class - FINE_CLASSES) / 8 + 7, (class - FINE_CLASSES) % 8);
    (8 + step + 1) << (doubling - 3)
}

const fn shape(class: usize) -> Class {
    let bytes = cell_bytes(class);
    let mut frames = 1;
    loop {
        let block = frames * FRAME_BYTES;
        if block / bytes >= FEWEST_CELLS && (block % bytes) * LARGEST_TAIL_FRACTION <= block {
            let reciprocal = (1_u64 << 32).div_ceil(bytes as u64) as u32;
            return Class {
                cell_bytes: bytes as u32,
                reciprocal,
                cells: (block / bytes) as u32,
                frames: frames as u32,
            };
        }
        frames += 1;
    }
}

const fn table() -> [Class; CLASSES] {
    let mut table = [shape(0); CLASSES];
    let mut class = 1;
    while class < CLASSES {
        table[class] = shape(class);
        class += 1;
    }
    table
}

/// All classes.
pub static TABLE: [Class; CLASSES] = table();

/// The cell that the byte at `offset` in a block lies in.
#[inline(always)]
pub const fn cell_at(offset: usize, reciprocal: u32) -> CellIndex {
    CellIndex(((offset as u64 * reciprocal as u64) >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for bytes in 1..=LARGEST_SMALL {
            let class = class_of(bytes);
            assert!(
                cell_bytes(class) >= bytes && (class == 0 || cell_bytes(class - 1) < bytes),
                "{bytes}"
            );
            assert!(bytes <= 8 || (cell_bytes(class) - bytes) * 8 <= bytes.max(56), "{bytes}");
        }
        assert_eq!((class_of(0), class_of(LARGEST_SMALL)), (0, CLASSES - 1));
    }

    #[test]
    fn all_cells_can_be_aligned() {
        for bytes in 0..=LARGEST_SMALL {
            let cell = cell_bytes(class_with(bytes, 1));
            assert!(cell >= bytes && cell.is_multiple_of(16), "{bytes}");
            assert_eq!(class_with(bytes, 0), class_of(bytes));
        }
        assert_eq!(cell_bytes(class_with(17, 1)), 32);
    }

    #[test]
    fn a_multiple_of_a_power_of_two_gets_cells_that_are_one() {
        for shift in 4..=12 {
            let unit = 1 << shift;
            for bytes in (unit..=LARGEST_SMALL).step_by(unit) {
                assert_eq!(cell_bytes(class_of(bytes)) % unit, 0, "{bytes} of {unit}");
            }
        }
    }

    #[test]
    fn the_reciprocal_divides_exactly() {
        for class in &TABLE {
            let all = 0..class.frames as usize * FRAME_BYTES;
            for offset in all.step_by(if cfg!(miri) { 61 } else { 1 }) {
                assert_eq!(
                    cell_at(offset, class.reciprocal).0 as usize,
                    offset / class.cell_bytes as usize
                );
            }
        }
    }

    #[test]
    fn blocks_are_small_and_nearly_full() {
        for class in &TABLE {
            assert!(
                class.frames <= 16 && class.cells as usize <= super::super::bits::MOST_CELLS,
                "{class:?}"
            );
        }
    }
}
