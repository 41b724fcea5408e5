//! Waits for files, with or without a time.
//!
//! Invariant: the program's arguments are changed as libc's functions change them, and no others:
//! `select` alone writes what is left. Called by program threads.
//!
//! # Safety
//! Each asks what libc's function of its name asks.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::take;
use core::ptr::{from_ref, null};

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::left::Left;
use super::{real, undisturbed};
use crate::runtime::interposed::signals::without_open_ones;

/// Calls for as long as `limit` says; again with what is left as long as a stop ends it.
///
/// # Safety
/// `limit` is null or valid.
pub(super) unsafe fn undisturbed_for(
    limit: *const timespec,
    call: impl Fn(*const timespec) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let left = unsafe { Left::of(limit) };
    let mut first = true;
    undisturbed(|| {
        let rest = if take(&mut first) { None } else { left.timespec() };
        call(rest.as_ref().map_or(limit, from_ref))
    })
}

/// As poll(2).
///
/// # Safety
/// As poll(2).
pub unsafe fn poll(files: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
    let left = Left::of_milliseconds(milliseconds);
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe { real::poll(files, count, left.milliseconds(milliseconds)) })
}

/// What fortified programs call for poll(2).
///
/// # Safety
/// As poll(2); `files` has `room` bytes.
pub unsafe fn __poll_chk(
    files: *mut pollfd,
    count: nfds_t,
    milliseconds: c_int,
    room: usize,
) -> c_int {
    let left = Left::of_milliseconds(milliseconds);
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe { real::__poll_chk(files, count, left.milliseconds(milliseconds), room) })
}

/// As ppoll(2).
///
/// # Safety
/// As ppoll(2).
pub unsafe fn ppoll(
    files: *mut pollfd,
    count: nfds_t,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => real::ppoll(files, count, limit, &without_open_ones(mask)),
            None => undisturbed_for(limit, |limit| real::ppoll(files, count, limit, null())),
        }
    }
}

/// What fortified programs call for ppoll(2).
///
/// # Safety
/// As ppoll(2); `files` has `room` bytes.
pub unsafe fn __ppoll_chk(
    files: *mut pollfd,
    count: nfds_t,
    limit: *const timespec,
    mask: *const sigset_t,
    room: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => real::__ppoll_chk(files, count, limit, &without_open_ones(mask), room),
            None => {
                undisturbed_for(limit, |limit| real::__ppoll_chk(files, count, limit, null(), room))
            }
        }
    }
}

/// As select(2): the time that is left is written to `limit`.
///
/// # Safety
/// As select(2).
pub unsafe fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *mut timeval,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let left = Left::of_timeval(limit);
        let mut first = true;
        undisturbed(|| {
            if !take(&mut first)
                && let Some(rest) = left.timeval()
            {
                *limit = rest;
            }
            real::select(count, read, write, except, limit)
        })
    }
}

/// As pselect(2).
///
/// # Safety
/// As pselect(2).
pub unsafe fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => {
                real::pselect(count, read, write, except, limit, &without_open_ones(mask))
            }
            None => undisturbed_for(limit, |limit| {
                real::pselect(count, read, write, except, limit, null())
            }),
        }
    }
}

/// As epoll_wait(2).
///
/// # Safety
/// As epoll_wait(2).
pub unsafe fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    milliseconds: c_int,
) -> c_int {
    let left = Left::of_milliseconds(milliseconds);
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe {
        real::epoll_wait(epoll, events, most, left.milliseconds(milliseconds))
    })
}

/// As epoll_pwait(2).
///
/// # Safety
/// As epoll_pwait(2).
pub unsafe fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    milliseconds: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => {
                real::epoll_pwait(epoll, events, most, milliseconds, &without_open_ones(mask))
            }
            None => epoll_wait(epoll, events, most, milliseconds),
        }
    }
}

/// The kernel's own.
///
/// # Safety
/// As epoll_pwait2(2).
unsafe fn kernels_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    /// Of the kernel's set of signals.
    const SET_BYTES: usize = 8;
    // SAFETY: the caller's promise; a `sigset_t` begins with the kernel's set.
    unsafe {
        libc::syscall(libc::SYS_epoll_pwait2, epoll, events, most, limit, mask, SET_BYTES) as c_int
    }
}

/// As epoll_pwait2(2).
///
/// # Safety
/// As epoll_pwait2(2).
pub unsafe fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // Where libc is older than the call (glibc before 2.35) a program finds ours there.
    let wait = match real::found::epoll_pwait2.is_known() {
        true => real::epoll_pwait2,
        false => kernels_pwait2,
    };
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => wait(epoll, events, most, limit, &without_open_ones(mask)),
            None => undisturbed_for(limit, |limit| wait(epoll, events, most, limit, null())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    #[cfg_attr(miri, ignore)]
    fn the_kernels_epoll_pwait2_waits_and_tells_errors() {
        // SAFETY: structures of ours.
        unsafe {
            let (epoll, began) = (libc::epoll_create1(0), Instant::now());
            let mut event = epoll_event { events: 0, u64: 0 };
            let limit = timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            let mut mask: sigset_t = core::mem::zeroed();
            libc::sigemptyset(&mut mask);
            let mut wait = |epoll| kernels_pwait2(epoll, &raw mut event, 1, &limit, &mask);
            match wait(epoll) {
                0 => assert!(began.elapsed() >= Duration::from_millis(5)),
                // Linux before 5.11.
                result => assert_eq!((result, super::super::error()), (-1, libc::ENOSYS)),
            }
            assert_eq!(wait(-1), -1);
            libc::close(epoll);
        }
    }
}
