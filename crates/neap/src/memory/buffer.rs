//! Memory for containers that are part of the collected heap: it dies with what leads to it.
//!
//! Invariant: never named outside the crate, so that nobody makes a container of other values on
//! it, which would be scanned wrongly. A piece is one container's own; nothing else leads into it.
//! Called by the containers, from any thread.
//!
//! # Safety
//!
//! Allocators as `allocator-api2` has them: pieces are disjoint and as large and aligned as asked
//! for. What a container gives back, it does not use any more.

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::{cells, place};
use crate::types::trace::Trace;

/// Larger pieces are freed when a container gives them back; the others when a cycle finds them
/// dead, which takes no lock now.
const FREED_ABOVE: usize = 4 << 10;

fn allocated(cell: Option<NonNull<u8>>, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    cell.map(|cell| NonNull::slice_from_raw_parts(cell, layout.size())).ok_or(AllocError)
}

fn given_back(piece: NonNull<u8>, layout: Layout) {
    if layout.size() > FREED_ABOVE {
        // SAFETY: the container's promise.
        unsafe { cells::free(piece, layout) };
    }
}

/// For arrays of `T` and nothing else.
pub struct ArrayOf<T>(PhantomData<fn() -> T>);

impl<T> ArrayOf<T> {
    pub const NEW: Self = Self(PhantomData);
}

// SAFETY: see the file's opening lines.
unsafe impl<T: Trace> Allocator for ArrayOf<T> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        allocated(place::of_some::<T>(layout), layout)
    }

    unsafe fn deallocate(&self, piece: NonNull<u8>, layout: Layout) {
        given_back(piece, layout);
    }
}

/// For memory in which a `T` may lie at any aligned place.
pub struct AnywhereIn<T>(PhantomData<fn() -> T>);

impl<T> AnywhereIn<T> {
    pub const NEW: Self = Self(PhantomData);
}

impl<T> Clone for AnywhereIn<T> {
    fn clone(&self) -> Self {
        Self::NEW
    }
}

// SAFETY: see the file's opening lines.
unsafe impl<T: Trace> Allocator for AnywhereIn<T> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        allocated(place::of_any::<T>(layout), layout)
    }

    unsafe fn deallocate(&self, piece: NonNull<u8>, layout: Layout) {
        given_back(piece, layout);
    }
}
