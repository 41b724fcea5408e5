//! Debugging variants of what is rarely asked for: copies of strings, resizing and freeing with a
//! difference, other kinds, toggle references.
//!
//! Invariant: as `allocator.rs`, on which all of them stand. Called from any thread.

use core::ffi::{c_char, c_int, c_void};

use crate::alloc::{GC_freezero, GC_malloc_uncollectable};
use crate::debugging::allocator::{
    GC_debug_free, GC_debug_generic_or_special_malloc, GC_debug_malloc_atomic, GC_debug_realloc,
};
use crate::debugging::header;
use crate::references::toggle::GC_toggleref_add;
use crate::strings::{copy_start, copy_text, copy_wide};

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_strdup(
    text: *const c_char,
    file: *const c_char,
    line: c_int,
) -> *mut c_char {
    copy_text(text, |bytes| GC_debug_malloc_atomic(bytes, file, line))
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_strndup(
    text: *const c_char,
    limit: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_char {
    copy_start(text, limit, |bytes| GC_debug_malloc_atomic(bytes, file, line))
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_wcsdup(
    text: *const libc::wchar_t,
    file: *const c_char,
    line: c_int,
) -> *mut libc::wchar_t {
    copy_wide(text, |bytes| GC_debug_malloc_atomic(bytes, file, line))
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_generic_malloc(
    bytes: usize,
    kind: c_int,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    GC_debug_generic_or_special_malloc(bytes, kind, file, line)
}

/// The place is not known.
#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_malloc_uncollectable_replacement(bytes: usize) -> *mut c_void {
    header::allocate(bytes, c"unknown".as_ptr(), 0, |bytes| GC_malloc_uncollectable(bytes))
}

/// As `GC_debug_realloc`, but an object for which there is no memory is freed.
#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_reallocf(
    object: *mut c_void,
    bytes: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    let resized = GC_debug_realloc(object, bytes, file, line);
    if resized.is_null() && bytes != 0 {
        GC_debug_free(object);
    }
    resized
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_reallocf_replacement(object: *mut c_void, bytes: usize) -> *mut c_void {
    GC_debug_reallocf(object, bytes, c"unknown".as_ptr(), 0)
}

/// Clears what was asked for of the object, up to `bytes`, and frees it.
#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_freezero(object: *mut c_void, bytes: usize) {
    let Some(header) = header::header_of(object) else {
        return GC_freezero(object, bytes);
    };
    // SAFETY: the bytes between header and trailer are the object's, and gc.h asks that nobody uses
    // it any more.
    unsafe { object.cast::<u8>().write_bytes(0, bytes.min(header.bytes)) };
    GC_debug_free(object);
}

/// The callback is asked about the object's real start, where the header is, as in libgc.
#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_toggleref_add(object: *mut c_void, is_strong: c_int) -> c_int {
    GC_toggleref_add(object, is_strong)
}
