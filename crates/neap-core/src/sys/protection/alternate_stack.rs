//! Alternate signal stacks for the program's threads, where the handler of faults has to run beside
//! a stack that is itself watched.
//!
//! Invariant: a thread that has an alternate stack of its own keeps it, and only such as have none
//! are given one, if [`want`] was called before. The kernel cannot deliver a fault onto the page
//! that caused it: that is what they are for. Called by each thread for itself.
//!
//! # Safety
//! The memory is the thread's alone, and is given back when it has ended or has left it.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::addr::Address;
use crate::sys::map;

/// Handlers of the program that ask for an alternate stack run here too, where it has none of its
/// own.
const BYTES: usize = 64 << 10;

static WANTED: AtomicBool = AtomicBool::new(false);

/// Threads are given one from now on.
pub fn want() {
    WANTED.store(true, Relaxed);
}

/// sigaltstack(2), past the front ends' own function of this name. Minus one, and errno, if it is
/// refused.
///
/// # Safety
/// As sigaltstack(2).
pub unsafe fn set(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_sigaltstack, new, old) as c_int }
}

/// The stack that the calling thread has; disabled: none.
pub fn current() -> libc::stack_t {
    // SAFETY: a zeroed value to be filled in by the kernel.
    unsafe {
        let mut now: libc::stack_t = core::mem::zeroed();
        set(core::ptr::null(), &mut now);
        now
    }
}

/// Gives the calling thread one if it is to have one and has none: its address, 0 for none.
pub fn provide() -> usize {
    if !WANTED.load(Relaxed) || current().ss_flags & libc::SS_DISABLE == 0 {
        return 0;
    }
    let Ok(memory) = map::allocate(BYTES) else { return 0 };
    if !enter(memory.0) {
        map::release(memory, BYTES);
        return 0;
    }
    memory.0
}

/// Has the calling thread use the one at an address that it was given.
fn enter(address: usize) -> bool {
    let stack = libc::stack_t { ss_sp: Address(address).pointer(), ss_flags: 0, ss_size: BYTES };
    // SAFETY: the thread's own memory, which stays until the thread has left it.
    unsafe { set(&stack, core::ptr::null_mut()) == 0 }
}

/// The program has taken the calling thread's stack out of use: it has the one again that it was
/// given before, at an address, or a new one, whose address is the answer; 0 for none.
pub fn provide_again(given: usize) -> usize {
    if given == 0 || !enter(given) { provide().max(given) } else { given }
}

/// Where the one at an address lies, that a thread was given; 0: nowhere.
pub fn given(address: usize) -> Range<usize> {
    if address == 0 { 0..0 } else { address..address + BYTES }
}

/// The calling thread does without the one that it was given, and may have put another in its
/// place.
pub fn leave(address: usize) {
    if address != 0 && current().ss_sp as usize == address {
        let none =
            libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: takes the stack out of use.
        unsafe { set(&none, core::ptr::null_mut()) };
    }
}

/// Gives the memory of one back; its thread has left it, or is gone.
pub fn release(address: usize) {
    if address != 0 {
        map::release(Address(address), BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_one_is_given_one_and_keeps_its_own_otherwise() {
        let new_thread = |f: fn()| std::thread::spawn(f).join().unwrap();
        new_thread(|| {
            let own = current();
            let none = libc::stack_t { ss_flags: libc::SS_DISABLE, ..own };
            let set = |stack: &libc::stack_t| {
                // SAFETY: this thread's own stack, or none.
                assert_eq!(unsafe { super::set(stack, core::ptr::null_mut()) }, 0);
            };
            set(&none);
            assert_eq!(provide(), 0);
            want();
            let given = provide();
            assert_eq!(current().ss_sp as usize, given);
            assert_eq!(provide(), 0);
            set(&none);
            assert_eq!(provide_again(given), given);
            assert_eq!(current().ss_sp as usize, given);
            leave(given);
            assert_ne!(current().ss_flags & libc::SS_DISABLE, 0);
            release(given);
            if own.ss_flags & libc::SS_DISABLE == 0 {
                set(&own);
            }
        });
    }
}
