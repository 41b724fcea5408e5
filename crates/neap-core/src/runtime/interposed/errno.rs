//! The calling thread's `errno`, for functions that stand before libc's.
//!
//! Invariant: none. Called by program threads, also in their signal handlers.
//!
//! # Safety
//! `errno` is the calling thread's own.

#![allow(unsafe_code)]

use core::ffi::c_int;

/// Its value.
pub fn error() -> c_int {
    // SAFETY: as the file says.
    unsafe { *libc::__errno_location() }
}

/// Gives it another.
pub fn set_error(error: c_int) {
    // SAFETY: as the file says.
    unsafe { *libc::__errno_location() = error };
}
