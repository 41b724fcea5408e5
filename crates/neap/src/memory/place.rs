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

use neap_core::api;

use super::layout_cache::{self, TypeRecord};
use crate::Trace;

/// Above this the core promises no alignment; below it has every cell at a multiple of 8, and of 16
/// if its size is one.
const COMMON_ALIGNMENT: usize = 16;
/// The largest alignment that the core knows.
const LARGEST_ALIGNMENT: usize = 4096;

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

#[inline]
fn cell(layout: Layout, record: &'static TypeRecord) -> Option<NonNull<u8>> {
    if layout.align() > LARGEST_ALIGNMENT {
        return None;
    }
    NonNull::new(if layout.align() > COMMON_ALIGNMENT {
        // The core hands such cells out without a layout only.
        api::allocate_aligned(layout.size(), layout.align(), record.kind())
    } else {
        // The core gives one byte to who asks for none: every object has an address of its own.
        let bytes = layout.pad_to_align().size();
        match layout_cache::layout(record) {
            Some(id) => api::allocate_typed(bytes, id),
            None => api::allocate(bytes, record.kind()),
        }
    })
}
