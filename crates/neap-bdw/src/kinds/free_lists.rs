//! The free lists of libgc's own allocator, one for each number of granules, by which programs that
//! were built against its private headers take small objects without a call. Nothing is ever on
//! them, so these ask the allocator. What a program puts there it gets back.
//!
//! Invariant: only the program writes to them; nobody here reads them.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;

use crate::settings::variables::variables;

/// `MAXOBJGRANULES` of libgc, half of one of its blocks in granules, and the list of nothing.
const LISTS: usize = 2048 / 16 + 1;

type FreeLists = [AtomicPtr<c_void>; LISTS];

/// Of each kind, in the order of the pointers below.
static OF_KINDS: [FreeLists; 4] = [const { [const { AtomicPtr::new(null_mut()) }; LISTS] }; 4];

variables! {
    /// Of objects without pointers.
    GC_aobjfreelist_ptr: &FreeLists = &OF_KINDS[0];
    /// Of ordinary objects.
    GC_objfreelist_ptr: &FreeLists = &OF_KINDS[1];
    /// Of uncollectable objects.
    GC_uobjfreelist_ptr: &FreeLists = &OF_KINDS[2];
    /// Of uncollectable objects without pointers.
    GC_auobjfreelist_ptr: &FreeLists = &OF_KINDS[3];
}
