//! Cells where miri runs the tests, which knows neither signals nor mappings: each is an allocation
//! of its own, so miri sees who leaves it, and whose pointer is used after somebody else's.
//!
//! Invariant: as `cells`', whose place this takes, but no object is ever found dead. Called by
//! `place` and `buffer`.
//!
//! # Safety
//!
//! As for the allocator of the standard library, which is asked.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::LARGEST_ALIGNMENT;
use super::layout_cache::TypeRecord;
use neap_core::api::Kind;

fn padded(layout: Layout) -> Layout {
    let layout = layout.pad_to_align();
    Layout::from_size_align(layout.size().max(1), layout.align()).expect("one byte")
}

/// A fresh cell. What no marker reads has no values yet.
pub fn cell(layout: Layout, record: &'static TypeRecord) -> Option<NonNull<u8>> {
    if layout.align() > LARGEST_ALIGNMENT {
        return None;
    }
    // SAFETY: of a byte or more.
    NonNull::new(unsafe {
        match record.kind() {
            Kind::Leaf => alloc(padded(layout)),
            _ => alloc_zeroed(padded(layout)),
        }
    })
}

/// Gives a cell back before it is dead.
///
/// # Safety
///
/// [`cell`] gave it for this layout, and nobody uses it any more.
pub unsafe fn free(cell: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe { dealloc(cell.as_ptr(), padded(layout)) };
}
