//! Fresh cells for values: of the size, alignment and layout that a type asks for.
//!
//! Invariant: every word of a fresh cell that a marker will read is zero until its value is
//! written. A request that cannot be had ends in `handle_alloc_error`, as a `Box` would. Called
//! from any thread, which is attached by it.
//!
//! # Safety
//!
//! Hands out pointers only, which nobody else has; who writes to them does so within the layout
//! that was asked for.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

use super::LARGEST_ALIGNMENT;
use super::cells::cell;
use super::layout_cache::TypeRecord;
use crate::Trace;

/// A cell for one value.
#[inline]
pub fn of_one<T: Trace>() -> NonNull<T> {
    const { assert!(align_of::<T>() <= LARGEST_ALIGNMENT, "objects are aligned to 4096 at most") };
    let layout = const { Layout::new::<T>() };
    match cell(layout, TypeRecord::of_one::<T>()) {
        Some(cell) => cell.cast(),
        None => handle_alloc_error(layout),
    }
}

/// A cell for so many values side by side; None without memory.
pub fn of_some<T: Trace>(layout: Layout) -> Option<NonNull<u8>> {
    cell(layout, TypeRecord::of_some::<T>())
}

/// A cell in which a `T` may lie at any aligned place; None without memory.
pub fn of_any<T: Trace>(layout: Layout) -> Option<NonNull<u8>> {
    cell(layout, TypeRecord::of_any::<T>())
}
