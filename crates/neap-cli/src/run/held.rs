//! Signals that end this process are held back while there is something to tidy up, and waited for
//! together with the end of a child, or for a time.
//!
//! Invariant: those that were ignored at the start (`nohup`, a shell's `&`) stay so. Threads that
//! begin meanwhile hold them back, too. Dropping lets through what came meanwhile. Called by
//! `compare`, `once`, `metrics` and both `top`.
//!
//! # Safety
//!
//! Calls sigaction(2), pthread_sigmask(3), sigwaitinfo(2) and sigtimedwait(2), for which rustix has
//! no functions, each with pointers to places of its own; none is kept by the callee. What runs
//! between fork and exec makes a system call only.

#![allow(unsafe_code)]

use rustix::process::{Signal, getpid, getsid, kill_process};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::time::Duration;

/// What a user or a supervisor ends a program with.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The signals are held back as long as this exists.
pub struct Held {
    waited_for: libc::sigset_t,
    before: libc::sigset_t,
}

impl Held {
    /// From now on.
    pub fn new() -> Held {
        let mut waited_for = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // A parent that ignores the end of its children hands that on; none could be waited for.
        // SAFETY: an action without a handler is all zero but for its kind, SIG_DFL.
        unsafe {
            let mut default: libc::sigaction = MaybeUninit::zeroed().assume_init();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(libc::SIGCHLD, &default, null_mut());
        }
        // SAFETY: the sets are written before they are read, and outlive the calls.
        unsafe {
            libc::sigemptyset(waited_for.as_mut_ptr());
            libc::sigaddset(waited_for.as_mut_ptr(), libc::SIGCHLD);
            for signal in ENDING.into_iter().filter(|signal| !is_ignored(*signal)) {
                libc::sigaddset(waited_for.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, waited_for.as_ptr(), before.as_mut_ptr());
            Held { waited_for: waited_for.assume_init(), before: before.assume_init() }
        }
    }

    /// Has a child that is started by this command hold back what this process did before.
    pub fn let_through(&self, command: &mut Command) {
        let before = self.before;
        // SAFETY: makes one system call, which is allowed after a fork.
        unsafe {
            command.pre_exec(move || {
                match libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut()) {
                    0 => Ok(()),
                    error => Err(std::io::Error::from_raw_os_error(error)),
                }
            });
        }
    }

    /// Waits for a child's end, None, or for a signal that ends this process.
    pub fn next(&self) -> Option<i32> {
        self.next_and_whose().map(|(signal, _)| signal)
    }

    /// The same, and whether a child in the same group has it, too.
    pub fn next_and_whose(&self) -> Option<(i32, bool)> {
        loop {
            let mut known = MaybeUninit::<libc::siginfo_t>::zeroed();
            // SAFETY: the set is initialised, and what is known of the signal is a place of ours.
            let signal = unsafe { libc::sigwaitinfo(&self.waited_for, known.as_mut_ptr()) };
            match signal {
                libc::SIGCHLD => return None,
                // Interrupted, as by a stop of this process.
                ..=0 => {}
                // SAFETY: zero or written, numbers either way.
                _ => return Some((signal, is_groups(unsafe { known.assume_init_ref() }))),
            }
        }
    }

    /// A signal that ends this process, if one comes within this time.
    pub fn within(&self, time: Duration) -> Option<i32> {
        self.within_and_whose(time).map(|(signal, _)| signal)
    }

    /// The same, and whether a child in the same group has it, too.
    pub fn within_and_whose(&self, time: Duration) -> Option<(i32, bool)> {
        let time = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(time.subsec_nanos()),
        };
        let mut known = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: set and time are initialised, and what is known of the signal is a place of ours.
        let signal = unsafe { libc::sigtimedwait(&self.waited_for, known.as_mut_ptr(), &time) };
        // SAFETY: zero or written, numbers either way.
        let known = unsafe { known.assume_init() };
        (signal > 0 && signal != libc::SIGCHLD).then(|| (signal, is_groups(&known)))
    }

    /// Ends this process by a signal that was held back; what it returns, as an exit status, is for
    /// one that does not end it.
    pub fn die(self, signal: i32) -> u8 {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // It may send signals to itself; if it may not, the exit status has to do.
            let _ = kill_process(getpid(), signal);
        }
        drop(self);
        128 + signal as u8
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the mask that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, null_mut()) };
    }
}

/// Whether the group has the signal: the kernel sent it, as for a key of the terminal. Of the
/// terminal's end it tells the leader of the session only.
fn is_groups(known: &libc::siginfo_t) -> bool {
    let leads = || getsid(None).is_ok_and(|session| session == getpid());
    known.si_code > 0 && !(known.si_signo == libc::SIGHUP && leads())
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only asks, and what it writes is initialised either way.
    unsafe {
        libc::sigaction(signal, null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_hold_back_what_was_before() {
        let blocked = |held: Option<&Held>| {
            let mut command = Command::new("grep");
            command.args(["SigBlk", "/proc/self/status"]);
            if let Some(held) = held {
                held.let_through(&mut command);
            }
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let before = blocked(None);
        let held = Held::new();
        assert_ne!(blocked(None), before, "a child inherits what is held back");
        assert_eq!(blocked(Some(&held)), before);
    }
}
