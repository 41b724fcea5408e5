//! The functions of libc that every program with this crate has from it: so each thread is known
//! from its first instruction, whoever made it, none blocks the signal that stops it, and a stop
//! ends no wait.
//!
//! Invariant: each does what libc's does as far as the program can see. They are defined in the
//! program itself, where the linker finds them before libc's. Called from any thread, some in
//! signal handlers.
//!
//! # Safety
//!
//! Each asks of its arguments what libc's of the same name asks, and hands them on.

#![allow(unsafe_code)]

mod helpers {
    neap_core::api::helpers!();
}
mod kernel_writes {
    neap_core::api::kernel_writes!();
}
mod masks {
    neap_core::api::masks!();
}
mod process_memory {
    neap_core::api::process_memory!();
}
mod thread_results {
    neap_core::api::thread_results!();
}
mod waits {
    neap_core::api::waits!();
}
neap_core::api::signal_actions!();

use std::ffi::{CStr, c_int, c_void};

use neap_core::api;

#[unsafe(no_mangle)]
extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller calls it as libc's.
    unsafe { api::pthread_create(thread, attributes, start, argument) }
}

#[unsafe(no_mangle)]
extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    // SAFETY: the caller calls it as libc's.
    unsafe { api::pthread_sigmask(how, set, old) }
}

#[unsafe(no_mangle)]
extern "C" fn sigprocmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    match pthread_sigmask(how, set, old) {
        0 => 0,
        code => {
            // SAFETY: the thread's own errno.
            unsafe { *libc::__errno_location() = code };
            -1
        }
    }
}

/// Run by the dynamic loader before the program's constructors; the number puts it first.
#[used]
#[unsafe(link_section = ".init_array.00000")]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    api::on_load();
    kernel_writes::find();
    api::process_memory::find();
    if !is_set(c"NEAP_BUSY_TRIGGER") {
        let set = api::set_option(b"busy_trigger", BUSY_TRIGGER.as_bytes());
        debug_assert_eq!(set, Ok(()));
    }
}

/// What a Rust program has unless its environment says otherwise: those that make small objects as
/// fast as they can, and keep few, would have a cycle for every two megabytes; a program on `Rc`
/// pays nothing of the kind.
const BUSY_TRIGGER: &str = "32MiB";

/// Whether the environment has the variable.
fn is_set(name: &CStr) -> bool {
    // SAFETY: no thread can be changing the environment yet.
    !unsafe { libc::getenv(name.as_ptr()) }.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Runs again, in a child, with the variable set.
    #[test]
    fn cycles_come_rarely_in_a_busy_program_unless_it_says_how_often() {
        let name =
            "interposed::tests::cycles_come_rarely_in_a_busy_program_unless_it_says_how_often";
        assert!(api::options_in_force().past_end);
        let in_force = api::options_in_force().busy_trigger;
        if is_set(c"NEAP_BUSY_TRIGGER") {
            assert_eq!(in_force, 3 << 20);
        } else {
            assert_eq!(in_force, 32 << 20);
            let mut child = Command::new(std::env::current_exe().unwrap());
            let child = child.args(["--exact", name]).env("NEAP_BUSY_TRIGGER", "3MiB");
            let said = child.output().unwrap();
            assert!(String::from_utf8_lossy(&said.stdout).contains("1 passed"), "{said:?}");
        }
    }
}
