//! Functions of libc that the front ends export in its stead: `pthread_sigmask`, so that nobody
//! blocks the stop signal; `sigaction` and `signal`, so that handlers of ours, of faults and of the
//! stop signal, stay where they are.
//!
//! Invariant: each does what libc's does and no more than that is visible. Called by program
//! threads.
//!
//! # Safety
//!
//! Each function is libc's in type and promise, and passes the program's arguments on to libc's
//! own.

#![allow(unsafe_code)]

use core::ffi::c_int;

use crate::sys::protection::fault;
use crate::sys::signal;
use crate::world::stop_signal;

/// As sigaction(2); what the program wants done is kept beside a handler of our own, where there is
/// one, and a handler of the program's does not block the stop signal.
///
/// # Safety
/// `new` and `old` are null or valid.
pub unsafe fn sigaction(
    number: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's promise.
    let kept = unsafe {
        match number {
            libc::SIGSEGV => fault::set_program_action(new, old),
            _ => stop_signal::set_program_action(number, new, old),
        }
    };
    if let Some(result) = kept {
        return result;
    }
    // SAFETY: as above; the copy is ours.
    unsafe {
        let open = new
            .as_ref()
            .map(|new| libc::sigaction { sa_mask: without_stop_signal(&new.sa_mask), ..*new });
        let new = open.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        signal::real_sigaction()(number, new, old)
    }
}

/// As signal(2).
pub fn signal(number: c_int, wanted: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: two structures of ours; the handler is the program's.
    unsafe {
        let mut new: libc::sigaction = core::mem::zeroed();
        let mut old: libc::sigaction = core::mem::zeroed();
        new.sa_sigaction = wanted;
        new.sa_flags = libc::SA_RESTART;
        match sigaction(number, &new, &mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// As pthread_sigmask(3), but never blocks the stop signal, nor the one that our own handler of
/// faults is there for.
///
/// # Safety
/// `set` and `old` are null or valid.
pub unsafe fn pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    if set.is_null() || how == libc::SIG_UNBLOCK {
        // SAFETY: the caller's promise.
        return unsafe { signal::raw_sigmask(how, set, old) };
    }
    // SAFETY: the caller's sets.
    unsafe { signal::raw_sigmask(how, &without_stop_signal(&*set), old) }
}

/// The set without the stop signal, and without the one that our own handler of faults is there
/// for.
pub(crate) fn without_stop_signal(set: &libc::sigset_t) -> libc::sigset_t {
    let mut without = *set;
    // SAFETY: a copy of ours.
    unsafe {
        libc::sigdelset(&mut without, stop_signal::masked());
        if fault::is_installed() {
            libc::sigdelset(&mut without, libc::SIGSEGV);
        }
    }
    without
}
