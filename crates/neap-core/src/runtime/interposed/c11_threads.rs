//! The threads of C11: libc makes them past the `pthread_create` that front ends export, so these
//! stand before its functions, and go by ours.
//!
//! Invariant: as libc's, such a thread is one of POSIX, whose result is a number. Called by program
//! threads, outside stops.
//!
//! # Safety
//! Exported functions ask what libc's of the same name ask. What a thread is to call lies in an
//! object of this file's, which the thread frees.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use libc::pthread_t;

use super::thread_results::{pthread_create, pthread_detach, pthread_join};
use crate::heap::kind::Kind;
use crate::runtime::allocation;

/// What a thread of C11 runs.
pub type Start = extern "C" fn(*mut c_void) -> c_int;

/// `thrd_success`, `thrd_busy`, `thrd_error`, `thrd_nomem` and `thrd_timedout` of libc's threads.h.
const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

/// What C11 calls an error of a function of POSIX.
fn named(error: c_int) -> c_int {
    match error {
        0 => SUCCESS,
        libc::ENOMEM => NO_MEMORY,
        libc::EBUSY => BUSY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

#[repr(C)]
struct Call {
    start: Start,
    argument: *mut c_void,
}

extern "C" fn begin(call: *mut c_void) -> *mut c_void {
    // SAFETY: made by `thrd_create` for this thread alone.
    let Call { start, argument } = unsafe { call.cast::<Call>().read() };
    free(call);
    start(argument) as isize as *mut c_void
}

fn free(call: *mut c_void) {
    let freed = allocation::free(call.cast());
    debug_assert!(freed.is_ok());
}

/// As libc's.
///
/// # Safety
/// As libc's.
pub unsafe fn thrd_create(thread: *mut pthread_t, start: Start, argument: *mut c_void) -> c_int {
    let call = allocation::allocate_beside_cycles(size_of::<Call>(), Kind::Uncollectable);
    if call.is_null() {
        return NO_MEMORY;
    }
    // SAFETY: fresh memory for one, of the right alignment.
    unsafe { call.cast::<Call>().write(Call { start, argument }) };
    // SAFETY: the caller's promise; the function takes what it is given.
    let error = unsafe { pthread_create(thread, core::ptr::null(), begin, call.cast()) };
    if error != 0 {
        free(call.cast());
    }
    named(error)
}

/// As libc's.
///
/// # Safety
/// As libc's.
pub unsafe fn thrd_join(thread: pthread_t, result: *mut c_int) -> c_int {
    let mut returned = null_mut();
    // SAFETY: the caller's promise.
    let error = unsafe { pthread_join(thread, &mut returned) };
    // SAFETY: null or the caller's place for the number.
    if let Some(result) = unsafe { result.as_mut() }
        && error == 0
    {
        *result = returned as usize as c_int;
    }
    named(error)
}

/// As libc's.
///
/// # Safety
/// As libc's.
pub unsafe fn thrd_detach(thread: pthread_t) -> c_int {
    // SAFETY: the caller's promise.
    named(unsafe { pthread_detach(thread) })
}

/// Defines libc's functions for threads of C11. In a library that programs load before libc, once.
#[doc(hidden)]
#[macro_export]
macro_rules! c11_threads {
    () => {
        /// As libc's `thrd_create`.
        #[unsafe(no_mangle)]
        pub extern "C" fn thrd_create(
            thread: *mut libc::pthread_t,
            start: $crate::api::c11_threads::Start,
            argument: *mut c_void,
        ) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::c11_threads::thrd_create(thread, start, argument) }
        }

        /// As libc's `thrd_join`.
        #[unsafe(no_mangle)]
        pub extern "C" fn thrd_join(thread: libc::pthread_t, result: *mut c_int) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::c11_threads::thrd_join(thread, result) }
        }

        /// As libc's `thrd_detach`.
        #[unsafe(no_mangle)]
        pub extern "C" fn thrd_detach(thread: libc::pthread_t) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::c11_threads::thrd_detach(thread) }
        }

        /// As libc's `thrd_exit`: pthread_exit(3) with a number.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn thrd_exit() {
            core::arch::naked_asm!("movsxd rdi, edi", "jmp {exit}", exit = sym pthread_exit);
        }
    };
}
