//! The functions of libc that this library stands before: so every thread is known from its start,
//! none blocks the signal that stops it, and a handler of faults does not replace ours.
//!
//! Invariant: each does what libc's does as far as the program can see. Left out without the
//! feature `interpose`; then threads are attached by their first allocation, or made with
//! `neap_pthread_create`. Called from any thread.

use core::ffi::{c_int, c_void};

use neap_core::api;

use crate::status::set_errno;
use crate::world::threads::{neap_pthread_create, neap_pthread_sigmask};

#[unsafe(no_mangle)]
pub extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    neap_pthread_create(thread, attributes, start, argument)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    neap_pthread_sigmask(how, set, old)
}

#[unsafe(no_mangle)]
pub extern "C" fn sigprocmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    match neap_pthread_sigmask(how, set, old) {
        0 => 0,
        code => {
            set_errno(code);
            -1
        }
    }
}

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
