//! Rust's own heap, in memory that the collector reads: boxes, vectors, reference counts, channels,
//! futures and panics.
//!
//! Invariant: every piece lives until it is freed, and each of its aligned words is a root as long
//! as it lives. So a [`Gc`](crate::Gc) may lie in any of them, and no code that hides a pointer to
//! such a piece can be harmed. The crate declares the one global allocator of the program, and a
//! program with another does not compile. Called from any thread, which is attached by it.
//!
//! # Safety
//!
//! A `GlobalAlloc`: pieces are disjoint, at least as large and aligned as asked for, and stay until
//! they are freed. The core attaches threads without this allocator.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use neap_core::api::{self, Kind};

use super::{COMMON_ALIGNMENT, LARGEST_ALIGNMENT};

/// The program's global allocator; this crate declares it.
///
/// ```compile_fail
/// // Another one would hide objects from the collector: this does not compile.
/// #[global_allocator]
/// static SYSTEM: std::alloc::System = std::alloc::System;
/// # fn main() { neap::Gc::new(1); }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

#[cfg_attr(not(miri), global_allocator)]
#[cfg_attr(miri, allow(dead_code))]
static ALLOCATOR: Allocator = Allocator;

/// Whether memory of small alignment is not scanned.
static SKIPS_SMALL_ALIGNMENT: AtomicBool = AtomicBool::new(false);

/// From now on memory that Rust's own heap gives out at an alignment below that of a pointer (text,
/// bytes, pixels, `Vec<u32>`) is not scanned, which saves time in each cycle and dead objects that
/// numbers in it would keep. Memory that was given out before stays as it is.
///
/// ```
/// // SAFETY: no crate of this program places values in byte buffers that it aligns by itself.
/// unsafe { neap::skip_small_alignment() };
/// ```
///
/// # Safety
///
/// No code of the program puts a value that holds a [`Gc`](crate::Gc) into memory that it asked for
/// with an alignment below eight, by aligning within it. Arenas on `Vec<u8>` or
/// `Box<[MaybeUninit<u8>]>` do that.
pub unsafe fn skip_small_alignment() {
    SKIPS_SMALL_ALIGNMENT.store(true, Relaxed);
}

fn kind(layout: Layout) -> Kind {
    if layout.align() < 8 && SKIPS_SMALL_ALIGNMENT.load(Relaxed) {
        Kind::UncollectableLeaf
    } else {
        Kind::Uncollectable
    }
}

/// Whether the core gives this alignment to every cell of the size.
fn is_common(layout: Layout) -> bool {
    layout.align() <= 8
        || layout.align() <= COMMON_ALIGNMENT && layout.size().is_multiple_of(COMMON_ALIGNMENT)
}

// SAFETY: see the file's opening lines.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_common(layout) {
            return api::allocate(layout.size(), kind(layout));
        }
        aligned(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let piece = unsafe { self.alloc(layout) };
        if !piece.is_null() && layout.align() < 8 && SKIPS_SMALL_ALIGNMENT.load(Relaxed) {
            // SAFETY: so many bytes are the caller's. Scanned memory is zeroed already.
            unsafe { piece.write_bytes(0, layout.size()) };
        }
        piece
    }

    #[inline]
    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        let start = if layout.align() > LARGEST_ALIGNMENT {
            api::object_at(piece.addr()).map_or(piece, |object| object.start.as_ptr())
        } else {
            piece
        };
        // SAFETY: the caller does not use the piece any more.
        let freed = unsafe { api::free(start) };
        debug_assert!(freed.is_ok(), "a piece of this allocator's: {freed:?}");
    }

    #[inline]
    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.align() <= 8 {
            // SAFETY: the caller's promise; the kind stays.
            return unsafe { api::reallocate(piece, bytes) };
        }
        // SAFETY: the caller's promise: the size is not zero and does not overflow.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(piece, new, layout.size().min(bytes));
                self.dealloc(piece, layout);
            }
            new
        }
    }
}

#[cold]
fn aligned(layout: Layout) -> *mut u8 {
    if layout.align() <= LARGEST_ALIGNMENT {
        return api::allocate_aligned(layout.size(), layout.align(), kind(layout));
    }
    let Some(bytes) = layout.size().checked_add(layout.align()) else {
        return std::ptr::null_mut();
    };
    let start = api::allocate(bytes, kind(layout));
    // An object of null stays null.
    start.wrapping_add(if start.is_null() { 0 } else { start.align_offset(layout.align()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "it asks the core, which is not there under miri")]
    fn pieces_are_as_large_and_aligned_as_asked_for() {
        for align in [1, 8, 16, 32, 64, 4096, 8192, 1 << 16] {
            for bytes in [1, 8, 24, 40, 48, 4096, 40_000, 100_000] {
                let layout = Layout::from_size_align(bytes, align).unwrap();
                // SAFETY: a valid layout; freed with the one it has.
                unsafe {
                    let piece = Allocator.alloc_zeroed(layout);
                    assert!(!piece.is_null() && piece.addr().is_multiple_of(align));
                    assert!((0..bytes).all(|index| *piece.add(index) == 0));
                    piece.write_bytes(0x5a, bytes);
                    let larger = Allocator.realloc(piece, layout, bytes * 3);
                    assert!(!larger.is_null() && larger.addr().is_multiple_of(align));
                    assert!((0..bytes).all(|index| *larger.add(index) == 0x5a));
                    let grown = Layout::from_size_align(bytes * 3, align).unwrap();
                    Allocator.dealloc(larger, grown);
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it asks the core, which is not there under miri")]
    fn memory_of_small_alignment_is_scanned_until_the_program_says_otherwise() {
        let scanned = Box::new([0_u8; 64]);
        let kind_at = |piece: *const u8| api::object_at(piece.addr()).unwrap().kind;
        assert_eq!(kind_at(scanned.as_ptr()), Kind::Uncollectable);
        // SAFETY: nothing of this test lies in byte buffers.
        unsafe { skip_small_alignment() };
        let skipped = Box::new([0_u8; 64]);
        assert_eq!(kind_at(skipped.as_ptr()), Kind::UncollectableLeaf);
        let words = Box::new([0_u64; 8]);
        assert_eq!(kind_at(words.as_ptr().cast()), Kind::Uncollectable);
    }
}
