//! Threads: attach, detach, blocked regions, creation.
//!
//! Invariant: no lock of ours is held while a function of the program runs. Each function is about
//! the thread that calls it.

use core::ffi::{c_int, c_void};

use neap_core::api;

use crate::inline;

#[unsafe(no_mangle)]
pub extern "C" fn neap_thread_attach() -> c_int {
    let attached = !api::is_thread_attached();
    // The first call of a process attaches by starting the collector.
    api::attach_thread(None);
    inline::settle();
    attached.into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_thread_detach() -> c_int {
    api::detach_thread().into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_thread_is_attached() -> c_int {
    api::is_thread_attached().into()
}

type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

#[unsafe(no_mangle)]
pub extern "C" fn neap_blocked(function: Function, argument: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's function, with the argument that it is for.
    api::blocked(|| unsafe { function(argument) })
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_unblocked(function: Function, argument: *mut c_void) -> *mut c_void {
    // SAFETY: as above.
    api::unblocked(|| unsafe { function(argument) })
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as pthread_create(3).
    let result = unsafe { api::pthread_create(thread, attributes, start, argument) };
    inline::settle();
    result
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: as pthread_join(3).
    unsafe { api::thread_results::pthread_join(thread, result) }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_pthread_detach(thread: libc::pthread_t) -> c_int {
    // SAFETY: as pthread_detach(3).
    unsafe { api::thread_results::pthread_detach(thread) }
}

neap_core::api::exit_function!(neap_pthread_exit);

#[unsafe(no_mangle)]
pub extern "C" fn neap_pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    // SAFETY: as pthread_sigmask(3).
    unsafe { api::pthread_sigmask(how, set, old) }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_stop_signal() -> c_int {
    api::stop_signal()
}
