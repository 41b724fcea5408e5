//! Requests and the calling thread's buffers: how large a cell a request gets, and the next one of
//! the buffer that has such cells.
//!
//! Invariant: asks nobody and waits for nobody. What is taken here is an object at once, so the
//! caller hands it out. Called by mutators, from the fast path.

use core::sync::atomic::Ordering::*;

use crate::addr::{GRANULE_BYTES, PAGE_BYTES};
use crate::heap::HEAP;
use crate::heap::classes::{self, LARGEST_SMALL, TABLE};
use crate::heap::kind::Kind;
use crate::heap::layout::LayoutId;
use crate::heap::spaces::SpaceId;
use crate::world::mutator::Mutator;

/// Bytes to reserve for a request of `bytes`; None where no object can be so large.
#[inline(always)]
pub fn with_past_end(bytes: usize) -> Option<usize> {
    let bytes = bytes.checked_add(HEAP.state.past_end.load(Relaxed))?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// The class for so many bytes, as the front end wants objects aligned.
#[inline(always)]
pub fn class_for(bytes: usize) -> usize {
    classes::class_with(bytes, HEAP.state.align_all.load(Relaxed))
}

/// Bytes that a program may use of what a request of `bytes` gets.
pub fn usable_bytes(bytes: usize) -> usize {
    with_past_end_rounded(bytes, GRANULE_BYTES)
}

/// Bytes of the cell that a request of `bytes` gets, the pages of a large object.
pub fn cell_bytes(bytes: usize) -> usize {
    with_past_end_rounded(bytes, PAGE_BYTES)
}

/// The cell's bytes of a small object, those of a large one in whole units.
fn with_past_end_rounded(bytes: usize, unit: usize) -> usize {
    let wanted = bytes.saturating_add(HEAP.state.past_end.load(Relaxed)).max(1);
    if wanted <= LARGEST_SMALL {
        classes::cell_bytes(class_for(wanted))
    } else {
        wanted.checked_next_multiple_of(unit).unwrap_or(usize::MAX)
    }
}

/// The next cell of the thread's buffer for a request; 0 if it has none.
#[inline(always)]
pub fn from_buffer(mutator: &Mutator, bytes: usize, kind: Kind) -> usize {
    match with_past_end(bytes) {
        Some(wanted) if wanted <= LARGEST_SMALL => {
            let class = class_for(wanted);
            let buffer = mutator.local.fixed(SpaceId::of(kind, class));
            buffer.bump(TABLE[class].cell_bytes as usize)
        }
        _ => 0,
    }
}

/// As [`from_buffer`], for an object of a layout.
#[inline(always)]
pub fn from_typed_buffer(mutator: &Mutator, bytes: usize, layout: LayoutId) -> usize {
    match with_past_end(bytes) {
        Some(wanted) if wanted <= LARGEST_SMALL => {
            let class = class_for(wanted);
            from_class(mutator, class, TABLE[class].cell_bytes as usize, layout)
        }
        _ => 0,
    }
}

/// The next cell of the thread's buffer for a class and a layout; 0 if it has none.
#[inline(always)]
pub fn from_class(mutator: &Mutator, class: usize, cell_bytes: usize, layout: LayoutId) -> usize {
    let space = HEAP.layouts.space_slot(layout, class).load(Acquire);
    if space == crate::heap::blocks::header::NONE {
        return 0;
    }
    mutator.local.buffer(SpaceId(space)).map_or(0, |buffer| buffer.bump(cell_bytes))
}
