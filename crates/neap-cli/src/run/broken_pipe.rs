//! What a program that is run does where it writes to a pipe that nobody reads any more: what it
//! would do without us.
//!
//! Rust's runtime ignores SIGPIPE in this process, and a program that is executed from it gets the
//! default. One whose caller ignored the signal (a shell's `trap '' PIPE`, Python, services) is to
//! ignore it, too.
//!
//! Invariant: what the caller did is noted before the runtime starts, and never changes. Called by
//! `run`, for each way of running a program.
//!
//! # Safety
//!
//! Calls sigaction(2), which may be called before `main` and after a fork, with places of its own.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the signal was ignored when this process began.
static WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// The loader calls it before the runtime starts.
#[used]
// SAFETY: the section holds functions that may be called before `main`; this one needs no runtime.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note;

extern "C" fn note() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only asks, and what it writes is initialised either way.
    let kind = unsafe {
        libc::sigaction(libc::SIGPIPE, null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    };
    WAS_IGNORED.store(kind == libc::SIG_IGN, Ordering::Relaxed);
}

/// Has the command ignore the signal, if this process was told to.
pub fn as_it_was(command: &mut Command) {
    if WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: makes one system call, which is allowed after a fork, with an action that is all
        // zero but for its kind; the standard library has set the default before.
        unsafe {
            command.pre_exec(|| {
                let mut ignored: libc::sigaction = MaybeUninit::zeroed().assume_init();
                ignored.sa_sigaction = libc::SIG_IGN;
                match libc::sigaction(libc::SIGPIPE, &ignored, null_mut()) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
    }
}
