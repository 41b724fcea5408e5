//! The library's own small allocations: a global allocator on `mmap`, so that nothing of ours comes
//! from the program's malloc.
//!
//! Powers of two from 16 bytes to 32 KiB from free lists under one lock; larger ones are mappings
//! of their own. The shared libraries declare [`MetaAllocator`] as their `#[global_allocator]`. Not
//! called between stop and resume. Called from any thread.
//!
//! # Safety
//!
//! A `GlobalAlloc`: pieces are disjoint, at least as large and aligned as asked for, and stay until
//! they are deallocated. Links of free pieces are written to memory that nobody has any more.

#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{map, print};
use crate::addr::{Address, PAGE_BYTES, round_up};
use crate::rank::Rank;
use crate::sync::{ForkLock, Lock};

const SMALLEST_SHIFT: u32 = 4;
const LARGEST_SHIFT: u32 = 15;
/// Taken from the system at once for small allocations. Larger: fewer calls; smaller: less waste in
/// small programs.
const SLAB_BYTES: usize = 64 << 10;

/// The allocator; has no state of its own, all instances are one.
pub struct MetaAllocator;

struct Pools {
    /// First free piece of each size; a free piece holds the next one's address in its first word.
    free: [usize; (LARGEST_SHIFT - SMALLEST_SHIFT + 1) as usize],
    slab: usize,
    slab_end: usize,
}

static POOLS: Lock<Pools> = Lock::new(
    Rank::Meta,
    Pools { free: [0; (LARGEST_SHIFT - SMALLEST_SHIFT + 1) as usize], slab: 0, slab_end: 0 },
);
/// Bytes mapped for small pieces and for large ones; statistics only.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Bytes that this allocator has mapped.
pub fn mapped_bytes() -> usize {
    MAPPED.load(Relaxed)
}

/// The lock, for who holds it over a `fork`.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &POOLS
}

fn shift_of(layout: Layout) -> u32 {
    layout.size().max(layout.align()).max(1 << SMALLEST_SHIFT).next_power_of_two().trailing_zeros()
}

fn large(layout: Layout) -> *mut u8 {
    if layout.align() > PAGE_BYTES {
        return null_mut();
    }
    let Some(bytes) = round_up(layout.size(), PAGE_BYTES) else { return null_mut() };
    match map::allocate(bytes) {
        Ok(start) => {
            MAPPED.fetch_add(bytes, Relaxed);
            start.pointer()
        }
        Err(_) => null_mut(),
    }
}

impl MetaAllocator {
    /// A piece; null where the system gives no memory.
    fn try_alloc(layout: Layout) -> *mut u8 {
        let shift = shift_of(layout);
        if shift > LARGEST_SHIFT {
            return large(layout);
        }
        let bytes = 1_usize << shift;
        let mut pools = POOLS.lock();
        let list = (shift - SMALLEST_SHIFT) as usize;
        let first = pools.free[list];
        if first != 0 {
            // SAFETY: a free piece's first word is the list's link.
            pools.free[list] = unsafe { *(first as *const usize) };
            return first as *mut u8;
        }
        let start = (pools.slab + bytes - 1) & !(bytes - 1);
        if pools.slab == 0 || start + bytes > pools.slab_end {
            let Ok(slab) = map::allocate(SLAB_BYTES) else { return null_mut() };
            MAPPED.fetch_add(SLAB_BYTES, Relaxed);
            // A mapping is page-aligned; pieces larger than a page need their own alignment made up
            // inside it.
            pools.slab =
                (slab.0 + bytes.min(SLAB_BYTES / 2) - 1) & !(bytes.min(SLAB_BYTES / 2) - 1);
            pools.slab_end = slab.0 + SLAB_BYTES;
            let start = pools.slab;
            pools.slab = start + bytes;
            return start as *mut u8;
        }
        pools.slab = start + bytes;
        start as *mut u8
    }
}

// SAFETY: pieces are disjoint, at least as large and aligned as asked for, and stay until
// deallocated.
unsafe impl GlobalAlloc for MetaAllocator {
    // What asks here cannot go on without; who can, uses `MetaVec`.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let piece = Self::try_alloc(layout);
        if piece.is_null() {
            print::no_memory();
        }
        piece
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let shift = shift_of(layout);
        if shift > LARGEST_SHIFT {
            let bytes = layout.size().next_multiple_of(PAGE_BYTES);
            MAPPED.fetch_sub(bytes, Relaxed);
            map::release(Address(pointer as usize), bytes);
            return;
        }
        let mut pools = POOLS.lock();
        let list = (shift - SMALLEST_SHIFT) as usize;
        // SAFETY: the piece is ours again, large enough for a word and aligned for it.
        unsafe { *(pointer as *mut usize) = pools.free[list] };
        pools.free[list] = pointer as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_disjoint_and_reused() {
        let mut seen = std::collections::BTreeMap::new();
        for size in [1_usize, 16, 17, 100, 4096, 5000, 20_000, 32_768, 40_000, 1 << 20] {
            for align in [1_usize, 16, 64, 4096] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: a valid layout of more than zero bytes.
                let piece = unsafe { MetaAllocator.alloc(layout) };
                assert!(!piece.is_null() && (piece as usize).is_multiple_of(align));
                // SAFETY: `size` bytes are ours.
                unsafe { piece.write_bytes(0xa5, size) };
                let below = seen.range(..piece as usize).next_back();
                assert!(below.is_none_or(|(start, length)| start + length <= piece as usize));
                let above = seen.range(piece as usize..).next();
                assert!(above.is_none_or(|(start, _)| piece as usize + size <= *start));
                seen.insert(piece as usize, size);
            }
        }
    }

    #[test]
    fn a_freed_piece_is_used_again() {
        let layout = Layout::from_size_align(3000, 8).unwrap();
        // SAFETY: allocated and freed with one layout.
        unsafe {
            let first = MetaAllocator.alloc(layout);
            MetaAllocator.dealloc(first, layout);
            assert_eq!(MetaAllocator.alloc(layout), first);
        }
    }

    #[test]
    fn absurd_sizes_give_null() {
        let layout = Layout::from_size_align(1 << 61, 8).unwrap();
        assert!(MetaAllocator::try_alloc(layout).is_null());
    }
}
