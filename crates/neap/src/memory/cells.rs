//! Cells of the core for a layout of Rust's and what is known of the type.
//!
//! Invariant: a cell is as large and aligned as the layout says, and nobody else's until it is dead
//! or was given back. Called by `place` and `buffer`, from any thread. Under miri
//! `cells_under_miri.rs` takes its place.
//!
//! # Safety
//!
//! Gives memory back that its caller says is used no more.

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ptr::NonNull;

use neap_core::api;

use super::layout_cache::{self, TypeRecord};
use super::{COMMON_ALIGNMENT, LARGEST_ALIGNMENT};

/// A fresh cell, whose words are zero where a marker reads them; None without memory.
#[inline]
pub fn cell(layout: Layout, record: &'static TypeRecord) -> Option<NonNull<u8>> {
    if layout.align() > LARGEST_ALIGNMENT {
        return None;
    }
    NonNull::new(if layout.align() > COMMON_ALIGNMENT {
        // The core hands such cells out without a layout only.
        api::allocate_aligned(layout.size(), layout.align(), record.kind())
    } else {
        // The core gives one byte to who asks for none: every object has an address of its own.
        let mut bytes = layout.pad_to_align().size();
        if layout.align() == COMMON_ALIGNMENT {
            // Such a cell is aligned if its size is a multiple, which one byte is not.
            bytes = bytes.max(COMMON_ALIGNMENT);
        }
        match layout_cache::layout(record) {
            Some(id) => api::allocate_typed(bytes, id),
            None => api::allocate(bytes, record.kind()),
        }
    })
}

/// Gives a cell back before it is dead.
///
/// # Safety
///
/// [`cell`] gave it, and nobody uses it any more.
pub unsafe fn free(cell: NonNull<u8>, _: Layout) {
    // SAFETY: the caller's promise.
    let freed = unsafe { api::free(cell.as_ptr()) };
    debug_assert!(freed.is_ok(), "a cell of this crate's: {freed:?}");
}
