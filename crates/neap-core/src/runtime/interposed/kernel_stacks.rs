//! Stacks that the kernel writes to by itself, where they are objects of the heap: alternate ones
//! for signals, and those that the program made threads or contexts with. Under the `mprotect`
//! watch it would meet a protected page there, and end the program; so the watch is told of them,
//! by `sigaltstack`, which front ends export in libc's stead, and by other functions of theirs.
//!
//! Invariant: a stack in the heap that one of these functions knows is not protected from before
//! the kernel writes to it until the object is gone (`watch::mprotect`). Called by program threads,
//! also in their signal handlers.
//!
//! # Safety
//!
//! Passes on to the system what the caller gave; attributes and structures are the caller's.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ops::Range;
use core::ptr::{from_mut, null_mut};
use core::sync::atomic::Ordering::Relaxed;

use crate::sys::protection::alternate_stack;
use crate::watch::mprotect;
use crate::world::current;

pub use crate::watch::mprotect::{keep, keep_stack};

/// As sigaltstack(2). A thread that does without one has the one again that it was given, if it was
/// given one.
///
/// # Safety
/// `new` and `old` are null or valid.
pub unsafe fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    // SAFETY: the caller's promise; what the kernel writes to is ours, since theirs may lie on a
    // protected page.
    unsafe {
        let disables = new.as_ref().is_some_and(|new| new.ss_flags & libc::SS_DISABLE != 0);
        if let Some(new) = new.as_ref().filter(|_| !disables) {
            mprotect::keep(&range(new.ss_sp as usize, new.ss_size));
        }
        let mut before: libc::stack_t = core::mem::zeroed();
        let place = if old.is_null() { null_mut() } else { from_mut(&mut before) };
        let result = alternate_stack::set(new, place);
        if result != 0 {
            return result;
        }
        if let Some(old) = old.as_mut() {
            *old = before;
        }
        if disables && let Some(own) = current::get() {
            let given = own.alternate_stack.load(Relaxed);
            own.alternate_stack.store(alternate_stack::provide_again(given), Relaxed);
        }
        result
    }
}

/// A thread is about to be made with these attributes, in which a stack may be named. There the
/// kernel writes the thread's number, and clears it at its end.
///
/// # Safety
/// `attributes` is null or valid.
pub unsafe fn keep_stack_of(attributes: *const libc::pthread_attr_t) {
    let (mut low, mut bytes) = (null_mut(), 0);
    // SAFETY: the caller's promise; the places are ours.
    let known = !attributes.is_null()
        && unsafe { libc::pthread_attr_getstack(attributes, &mut low, &mut bytes) } == 0;
    if known {
        mprotect::keep(&range(low as usize, bytes));
    }
}

fn range(low: usize, bytes: usize) -> Range<usize> {
    low..low.saturating_add(bytes)
}

/// Defines libc's function by which a thread has its signals handled on another stack. In a library
/// that programs load before libc, once.
#[macro_export]
macro_rules! kernel_stacks {
    () => {
        /// As libc's `sigaltstack`.
        #[unsafe(no_mangle)]
        pub extern "C" fn sigaltstack(
            new: *const libc::stack_t,
            old: *mut libc::stack_t,
        ) -> core::ffi::c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::kernel_stacks::sigaltstack(new, old) }
        }
    };
}
