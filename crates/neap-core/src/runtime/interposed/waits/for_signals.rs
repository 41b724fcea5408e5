//! Waits for signals.
//!
//! Invariant: none waits with the stop signal blocked. Called by program threads.
//!
//! # Safety
//! Each asks what libc's function of its name asks.

#![allow(unsafe_code)]

use core::ffi::c_int;

use libc::{siginfo_t, sigset_t, timespec};

use super::files::undisturbed_for;
use super::{real, undisturbed};
use crate::runtime::interposed::signals::without_open_ones;

/// As pause(2).
///
/// # Safety
/// None is needed.
pub unsafe fn pause() -> c_int {
    // SAFETY: takes nothing.
    undisturbed(|| unsafe { real::pause() })
}

/// As sigsuspend(2).
///
/// # Safety
/// As sigsuspend(2).
pub unsafe fn sigsuspend(mask: *const sigset_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => real::sigsuspend(&without_open_ones(mask)),
            None => real::sigsuspend(mask),
        }
    }
}

/// As sigwaitinfo(2).
///
/// # Safety
/// As sigwaitinfo(2).
pub unsafe fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let set = without_open_ones(&*set);
        undisturbed(|| real::sigwaitinfo(&set, info))
    }
}

/// As sigtimedwait(2).
///
/// # Safety
/// As sigtimedwait(2).
pub unsafe fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    limit: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let set = without_open_ones(&*set);
        undisturbed_for(limit, |limit| real::sigtimedwait(&set, info, limit))
    }
}
