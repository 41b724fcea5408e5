//! What a program is examined with, as far as it matters to a collector: sanitizers that it was
//! built with, valgrind, and rr.
//!
//! Assumes the names of the sanitizers' runtimes, those of gcc and clang, and the variable that rr
//! sets. What the user has to set is said once. Called by the start-up.
//!
//! # Safety
//! Symbols are looked up by name and used as what their runtimes document them to be.

#![allow(unsafe_code)]

use core::ffi::CStr;

use super::valgrind;
use super::variables;
use crate::sys::print;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Says what the program's user has to set, where anything is missing.
pub fn advise() {
    let suppressions = b"suppressions=";
    let suppresses = |options: &[u8]| options.windows(13).any(|part| part == suppressions);
    if has_thread_sanitizer() && !suppresses(variable(c"TSAN_OPTIONS")) {
        print::message(format_args!(
            "this program runs under ThreadSanitizer. A report from within the collector could \
             stop it for ever; set TSAN_OPTIONS=suppressions=FILE, FILE being share/neap/tsan.supp \
             of the installation"
        ));
    }
    if keeps_frames_elsewhere() {
        print::message(format_args!(
            "AddressSanitizer keeps local variables where the collector does not look for roots; \
             set ASAN_OPTIONS=detect_stack_use_after_return=0, or objects may be lost"
        ));
    }
    if is_there(c"__msan_init") {
        print::message(format_args!(
            "this program runs under MemorySanitizer, which does not see what the collector \
             writes: its reports about objects are not to be relied on"
        ));
    }
}

/// Whether userfaultfd(2) must not be used because of what runs the process. rr ends a recording at
/// a system call that it does not know and that succeeds. Under valgrind one thread runs at a time,
/// and that one would wait in its write for the thread that serves the fault.
pub fn forbid_userfaultfd() -> bool {
    valgrind::is_here() || !variable(c"RUNNING_UNDER_RR").is_empty()
}

/// Whether ThreadSanitizer is here. Asked first when the library is loaded.
pub fn has_thread_sanitizer() -> bool {
    /// 0 until somebody has looked, then 1 for no and 2 for yes.
    static IS_HERE: AtomicU8 = AtomicU8::new(0);
    if IS_HERE.load(Relaxed) == 0 {
        IS_HERE.store(1 + is_there(c"__tsan_init") as u8, Relaxed);
    }
    IS_HERE.load(Relaxed) == 2
}

/// Whether a sanitizer has divided the address space between the program and its own tables: only
/// the kernel's choice, which the sanitizer sees, is known to be the program's. ThreadSanitizer
/// ends a process that maps memory elsewhere. Built with one we find no symbol of it.
pub fn divide_address_space() -> bool {
    let runtimes = [c"__asan_init", c"__msan_init", c"__tsan_init"];
    cfg!(thread_sanitizer) || runtimes.into_iter().any(is_there)
}

fn find(name: &CStr) -> *mut core::ffi::c_void {
    // SAFETY: looks a symbol up in what is loaded.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

fn is_there(name: &CStr) -> bool {
    !find(name).is_null()
}

/// Whether functions of the program put their frames elsewhere than on the stack.
fn keeps_frames_elsewhere() -> bool {
    let option = find(c"__asan_option_detect_stack_use_after_return") as *const i32;
    // SAFETY: null, or the runtime's variable of this name, an int.
    unsafe { option.as_ref() }.is_some_and(|option| *option != 0)
}

fn variable(name: &CStr) -> &'static [u8] {
    variables::variable(name).map_or(&[], CStr::to_bytes)
}
