//! Waits for signals.
//!
//! Invariant: none waits with the stop signal blocked. Called by program threads.
//!
//! # Safety
//! Each asks what libc's function of its name asks.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::zeroed;
use core::ptr::null;

use libc::{siginfo_t, sigset_t, timespec};

use super::files::undisturbed_for;
use super::{real, undisturbed};
use crate::runtime::interposed::signals::without_open_ones;
use crate::sys::signal::raw_sigmask;

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

/// As sigpause(3) in its two forms: with the thread's mask but for a signal, or with a mask of the
/// first 32. libc's own would call its own `sigsuspend`.
pub fn __sigpause(signal_or_mask: c_int, is_signal: c_int) -> c_int {
    // SAFETY: sets of ours, of which all zeros is one; reads this thread's mask.
    unsafe {
        let mut mask: sigset_t = zeroed();
        if is_signal != 0 {
            raw_sigmask(libc::SIG_BLOCK, null(), &mut mask);
            if libc::sigdelset(&mut mask, signal_or_mask) != 0 {
                return -1;
            }
        } else {
            for bit in (0..u32::BITS as c_int).filter(|bit| signal_or_mask >> bit & 1 != 0) {
                libc::sigaddset(&mut mask, bit + 1);
            }
        }
        sigsuspend(&mask)
    }
}

/// The one with a mask.
pub fn sigpause(mask: c_int) -> c_int {
    __sigpause(mask, 0)
}

/// The one with a signal, which `<signal.h>` makes of `sigpause`.
pub fn __xpg_sigpause(signal: c_int) -> c_int {
    __sigpause(signal, 1)
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
