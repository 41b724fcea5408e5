//! Copies of strings: `GC_strdup` and its family.
//!
//! Invariant: a copy is pointer-free and as long as its text needs; a text too long to be copied
//! counts as out of memory. Called from any thread.

use core::ffi::{c_char, c_void};
use core::ptr::{copy_nonoverlapping, null_mut};

use crate::alloc::GC_malloc_atomic;

/// Copies `length` characters and a zero into what `allocate` gives.
fn copy<T: Copy>(
    text: *const T,
    length: usize,
    allocate: impl FnOnce(usize) -> *mut c_void,
) -> *mut T {
    let bytes = length.checked_add(1).and_then(|count| count.checked_mul(size_of::<T>()));
    let copy: *mut T = bytes.map_or(null_mut(), |bytes| allocate(bytes).cast());
    if copy.is_null() {
        // SAFETY: the address of this thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return copy;
    }
    // SAFETY: `length` characters are readable at `text`, and the copy has room for one more, for
    // which all bits zero are a zero.
    unsafe {
        copy_nonoverlapping(text, copy, length);
        copy.add(length).write_bytes(0, 1);
    }
    copy
}

/// A copy of a text in what `allocate` gives; null of null.
pub fn copy_text(text: *const c_char, allocate: impl FnOnce(usize) -> *mut c_void) -> *mut c_char {
    if text.is_null() {
        return null_mut();
    }
    // SAFETY: a NUL-terminated text, says gc.h.
    copy(text, unsafe { libc::strlen(text) }, allocate)
}

/// The same for at most `limit` bytes of it.
pub fn copy_start(
    text: *const c_char,
    limit: usize,
    allocate: impl FnOnce(usize) -> *mut c_void,
) -> *mut c_char {
    // SAFETY: readable up to a NUL or `limit` bytes, says gc.h.
    copy(text, unsafe { libc::strnlen(text, limit) }, allocate)
}

/// The same for wide characters.
pub fn copy_wide(
    text: *const libc::wchar_t,
    allocate: impl FnOnce(usize) -> *mut c_void,
) -> *mut libc::wchar_t {
    if text.is_null() {
        return null_mut();
    }
    // SAFETY: a text that ends in a zero, says gc.h.
    copy(text, unsafe { libc::wcslen(text) }, allocate)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_strdup(text: *const c_char) -> *mut c_char {
    copy_text(text, |bytes| GC_malloc_atomic(bytes))
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_strndup(text: *const c_char, limit: usize) -> *mut c_char {
    copy_start(text, limit, |bytes| GC_malloc_atomic(bytes))
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_wcsdup(text: *const libc::wchar_t) -> *mut libc::wchar_t {
    copy_wide(text, |bytes| GC_malloc_atomic(bytes))
}
