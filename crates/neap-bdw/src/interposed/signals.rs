//! Functions about signals that this library stands before in libc's stead.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread.

#![cfg(not(test))]

use core::ffi::c_int;

use crate::core_api as api;

/// sigaction(2): what the program wants done about SIGSEGV is kept where the collector has a
/// handler of its own (`NEAP_WATCH=mprotect`).
#[unsafe(no_mangle)]
pub extern "C" fn sigaction(
    number: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: as sigaction(2).
    unsafe { api::sigaction(number, new, old) }
}

/// signal(2), for the same reason.
#[unsafe(no_mangle)]
pub extern "C" fn signal(number: c_int, wanted: libc::sighandler_t) -> libc::sighandler_t {
    api::signal(number, wanted)
}
