//! The process's environment, also before libc knows it.
//!
//! Invariant: where libc has not begun yet, as when ThreadSanitizer's start calls functions that we
//! stand before, what it will set later is set here. Assumes that the kernel's words for the
//! process lie where ld.so found the stack to begin. Called at start-up by one thread, while nobody
//! changes the environment.
//!
//! # Safety
//!
//! Reads the words that the kernel put on the main thread's stack: the number of arguments, so many
//! pointers to them and a null one, then those of the environment and a null one.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

use crate::sys::thread;

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// Makes sure that libc has the environment.
pub fn find() {
    // SAFETY: as the module says; a null pointer stands where it must or nothing is set.
    unsafe {
        if !environ.is_null() {
            return;
        }
        let words = thread::main_stack_base() as *const *const c_char;
        let arguments = words.read() as usize;
        if arguments < MOST_ARGUMENTS && words.add(1 + arguments).read().is_null() {
            environ = words.add(2 + arguments);
        }
    }
}

/// No process has more arguments; a larger number is something else.
const MOST_ARGUMENTS: usize = 1 << 24;

/// A variable. A process with rights that its starter has not has none: the starter chose them.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    if thread::is_privileged() {
        return None;
    }
    find();
    // SAFETY: getenv gives null or a text that stays while nobody changes the environment.
    unsafe {
        let text = libc::getenv(name.as_ptr());
        (!text.is_null()).then(|| CStr::from_ptr(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_found_on_the_stack() {
        // SAFETY: no other test of this process changes the environment.
        unsafe {
            let known = environ;
            environ = core::ptr::null();
            find();
            let found = environ;
            environ = known;
            let path = |block: *const *const c_char| {
                (0..).map(|at| block.add(at).read()).take_while(|text| !text.is_null()).find_map(
                    |text| CStr::from_ptr(text).to_bytes().strip_prefix(b"PATH=").map(Vec::from),
                )
            };
            assert!(path(found).is_some());
            assert_eq!(path(found), path(known));
        }
    }
}
