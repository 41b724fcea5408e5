//! Blocks of the heap, for programs that draw it: what lies where, and how much of it is marked.
//!
//! Invariant: the program's functions are called with nothing locked, on a list made before, so
//! they may do anything; what they are told is as old as the call. Called from any thread.

use core::ffi::{c_int, c_uint, c_void};
use core::ops::Range;
use core::ptr::null_mut;
use rust_alloc::vec::Vec;

use crate::collections::walk::{listed, takes_unmarked};
use crate::core_api::embedding::{self, Use};

type BlockFunction = unsafe extern "C" fn(*mut c_void, *mut c_void);
type FreeBlockFunction = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void);
type SectionFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut c_void);

/// `GC_heap_section_type`, by its values in `gc.h`.
const SECTION_FREE: c_int = 0;
const SECTION_USED: c_int = 2;
const SECTION_UNMAPPED: c_int = 3;
const SECTION_WHOLE: c_int = 5;

/// Every part of the heap, as it was at some moment of this call.
fn parts() -> Vec<(Range<usize>, Use)> {
    listed(|keep| embedding::for_each_part(|part, what| keep((part, what))))
}

/// Blocks are multiples of this.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_hblk_size() -> usize {
    embedding::BLOCK_BYTES
}

/// Calls the function with the start of each block of objects.
#[unsafe(no_mangle)]
pub extern "C" fn GC_apply_to_all_blocks(function: BlockFunction, data: *mut c_void) {
    for (part, _) in parts().into_iter().filter(|(_, what)| *what == Use::Objects) {
        // SAFETY: the program's function with the program's argument.
        unsafe { function(part.start as *mut c_void, data) };
    }
}

/// Calls the function with the start of each row of free memory. There are no lists of them by
/// size: 0 stands for the one.
#[unsafe(no_mangle)]
pub extern "C" fn GC_iterate_free_hblks(function: FreeBlockFunction, data: *mut c_void) {
    for (part, _) in parts().into_iter().filter(|(_, what)| *what != Use::Objects) {
        // SAFETY: the program's function with the program's argument.
        unsafe { function(part.start as *mut c_void, 0, data) };
    }
}

/// Calls the function with the heap as a whole, which is one section, and with each part of it.
#[unsafe(no_mangle)]
pub extern "C" fn GC_foreach_heap_section_inner(function: SectionFunction, data: *mut c_void) {
    let parts = parts();
    let tell = |start: usize, end: usize, kind| {
        // SAFETY: the program's function with the program's argument.
        unsafe { function(start as *mut c_void, end as *mut c_void, kind, data) };
    };
    if let (Some((first, _)), Some((last, _))) = (parts.first(), parts.last()) {
        tell(first.start, last.end, SECTION_WHOLE);
    }
    for (part, what) in parts {
        let kind = match what {
            Use::Objects => SECTION_USED,
            Use::Free => SECTION_FREE,
            Use::GivenBack => SECTION_UNMAPPED,
        };
        tell(part.start, part.end, kind);
    }
}

/// No block is avoided because something looks like a pointer into it: null.
#[unsafe(no_mangle)]
pub extern "C" fn GC_is_black_listed(_block: *mut c_void, _bytes: usize) -> *mut c_void {
    null_mut()
}

/// Marked objects in the block that the pointer lies in; 0 outside. All that are in it where
/// `GC_is_marked` takes them for marked too.
#[unsafe(no_mangle)]
pub extern "C" fn GC_count_set_marks_in_hblk(pointer: *const c_void) -> c_uint {
    let before = takes_unmarked();
    let found = embedding::objects_and_marks_of_block(pointer as usize);
    let takes_all = before || takes_unmarked();
    found.map_or(0, |(objects, marked)| if takes_all { objects } else { marked }) as c_uint
}
