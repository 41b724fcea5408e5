//! `_Fork`, and fork(2) and clone(2) by `syscall`: they make children of which no handler of
//! `pthread_atfork` is told, and which may go on with the heap all the same.
//!
//! Invariant: the collector's locks are held over the call, as over a `fork`. Called from any
//! thread, also in a handler of signals.
//!
//! # Safety
//! Each asks what libc's function of its name asks.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_long};

use crate::runtime::at_fork;
use crate::runtime::interposed::waits::real_syscall;
use crate::sys::libc_function::LibcFunction;

// SAFETY: libc's function of this name has this type.
static FORK: LibcFunction<unsafe extern "C" fn() -> c_int> =
    unsafe { LibcFunction::named("_Fork\0") };

/// Finds libc's.
pub fn find() {
    FORK.find();
}

/// As libc's `_Fork`.
///
/// # Safety
/// As libc's.
pub unsafe fn fork() -> c_int {
    // SAFETY: the caller's promise.
    at_fork::untold(|| unsafe { FORK.get()() }.into()) as c_int
}

/// As syscall(2) with the number of fork(2), or with that of clone(2) where neither memory nor a
/// stack is given to the child.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn by_syscall(
    number: c_long,
    flags: usize,
    stack: usize,
    parents_number: usize,
    childs_number: usize,
    thread_data: usize,
) -> c_long {
    let arguments = [flags, stack, parents_number, childs_number, thread_data];
    // SAFETY: the caller's promise.
    at_fork::untold(|| unsafe { real_syscall(number, arguments) })
}

/// Flags of clone(2) with which the child has its maker's memory, or its maker waits for it.
pub const SHARES: c_int = libc::CLONE_VM | libc::CLONE_VFORK;
