//! Making objects.
//!
//! Invariant: null only when there is no memory and the out-of-memory callback gave none. From any
//! thread, which is attached by its first object.

use core::sync::atomic::Ordering::Relaxed;

use super::{Kind, LayoutId};
use crate::heap::HEAP;
use crate::heap::classes::LARGEST_SMALL;
use crate::runtime::allocation;

/// An object of `bytes` bytes.
#[inline(always)]
pub fn allocate(bytes: usize, kind: Kind) -> *mut u8 {
    allocation::allocate(bytes, kind)
}

/// The same where the caller may hold locks that a stop or a callback of the program's takes: no
/// cycle is begun or helped, and no callback called, also when there is no memory.
pub fn allocate_beside_cycles(bytes: usize, kind: Kind) -> *mut u8 {
    allocation::allocate_beside_cycles(bytes, kind)
}

/// The same in two halves, for front ends that have something to do besides when an object is not
/// there at once: null if the thread has no cell at hand, then [`allocate_otherwise`] makes the
/// object.
#[inline(always)]
pub fn allocate_at_once(bytes: usize, kind: Kind) -> *mut u8 {
    allocation::at_once(bytes, kind)
}

/// The other half of [`allocate_at_once`].
#[inline]
pub fn allocate_otherwise(bytes: usize, kind: Kind) -> *mut u8 {
    allocation::without_cell(bytes, kind)
}

/// The same at a multiple of `alignment`, a power of two up to 4096; null for other alignments.
pub fn allocate_aligned(bytes: usize, alignment: usize, kind: Kind) -> *mut u8 {
    allocation::allocate_aligned(bytes, alignment, kind)
}

/// A zeroed object that is scanned as `layout` says.
#[inline]
pub fn allocate_typed(bytes: usize, layout: LayoutId) -> *mut u8 {
    allocation::allocate_typed(bytes, layout)
}

/// The request that takes `bytes` bytes with the byte of the option `past_end`, so that a small
/// object of `bytes` has none behind its end.
pub fn without_past_end(bytes: usize) -> usize {
    // The build variant's own word is not the program's to use.
    let past_end = HEAP.state.past_end.load(Relaxed) & 1;
    if bytes <= LARGEST_SMALL { bytes - past_end.min(bytes) } else { bytes }
}
