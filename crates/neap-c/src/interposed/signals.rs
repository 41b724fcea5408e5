//! The functions of libc that this library stands before: so every thread is known from its start,
//! none blocks the signal that stops it, and a handler of faults does not replace ours.
//!
//! Invariant: each does what libc's does as far as the program can see. Left out without the
//! feature `interpose`; then threads are attached by their first allocation, or made with
//! `neap_pthread_create`. Called from any thread.

use core::ffi::{c_int, c_void};

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

neap_core::api::signal_actions!();
