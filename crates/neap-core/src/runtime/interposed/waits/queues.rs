//! Waits for System V's semaphores and message queues, and for requests.
//!
//! Invariant: an operation that was interrupted was not done, so it is done once. Called by program
//! threads.
//!
//! # Safety
//! Each asks what libc's function of its name asks.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::from_ref;

use libc::{aiocb, sembuf, timespec};

use super::files::undisturbed_for;
use super::left::Left;
use super::{real, stops, undisturbed};

/// As semop(2).
///
/// # Safety
/// As semop(2).
pub unsafe fn semop(set: c_int, operations: *mut sembuf, count: usize) -> c_int {
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe { real::semop(set, operations, count) })
}

/// As semtimedop(2).
///
/// # Safety
/// As semtimedop(2).
pub unsafe fn semtimedop(
    set: c_int,
    operations: *mut sembuf,
    count: usize,
    limit: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { undisturbed_for(limit, |limit| real::semtimedop(set, operations, count, limit)) }
}

/// As msgsnd(2).
///
/// # Safety
/// As msgsnd(2).
pub unsafe fn msgsnd(queue: c_int, message: *const c_void, bytes: usize, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe { real::msgsnd(queue, message, bytes, flags) })
}

/// As msgrcv(2).
///
/// # Safety
/// As msgrcv(2).
pub unsafe fn msgrcv(
    queue: c_int,
    message: *mut c_void,
    bytes: usize,
    kind: isize,
    flags: c_int,
) -> isize {
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe { real::msgrcv(queue, message, bytes, kind, flags) })
}

/// As aio_suspend(3).
///
/// # Safety
/// As aio_suspend(3).
pub unsafe fn aio_suspend(
    requests: *const *const aiocb,
    count: c_int,
    limit: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { undisturbed_for(limit, |limit| real::aio_suspend(requests, count, limit)) }
}

/// What programs with 64-bit offsets call for aio_suspend(3).
///
/// # Safety
/// As aio_suspend(3).
pub unsafe fn aio_suspend64(
    requests: *const *const aiocb,
    count: c_int,
    limit: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { undisturbed_for(limit, |limit| real::aio_suspend64(requests, count, limit)) }
}

/// What `gai_suspend` gives where a signal ended it; it sets no errno.
const EAI_INTR: c_int = -104;

/// As `gai_suspend`.
///
/// # Safety
/// As `gai_suspend`.
pub unsafe fn gai_suspend(
    requests: *const *const c_void,
    count: c_int,
    limit: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let left = unsafe { Left::of(limit) };
    let mut rest = None;
    loop {
        let before = stops();
        let limit = rest.as_ref().map_or(limit, from_ref);
        // SAFETY: the caller's promise, with a limit of its own or of ours.
        let result = unsafe { real::gai_suspend(requests, count, limit) };
        if result != EAI_INTR || stops() == before {
            return result;
        }
        rest = left.timespec();
    }
}
