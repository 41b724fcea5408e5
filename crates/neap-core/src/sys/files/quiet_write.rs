//! Writing to files that the user named, where a write that is refused is an error and no signal:
//! past a limit on file sizes, and to a pipe that nobody reads any more.
//!
//! Invariant: the program's handlers hear of no signal that a write of the library's raised, and of
//! all others, also such as somebody else sends during a write that succeeds. Stops come through.
//! No allocation, no lock. Called where recordings, summaries and heap snapshots are written, and
//! what refuses them is said.
//!
//! # Safety
//!
//! System calls about signals, with sets of the kernel's 64 bits that outlive them.

#![allow(unsafe_code)]

use core::fmt::Arguments;
use core::mem::zeroed;
use core::ptr::null;

use rustix::fd::AsFd;
use rustix::io::Errno;

use crate::sys::print;
use crate::sys::signal::{self, raw_sigmask};

const RAISED: [i32; 2] = [libc::SIGXFSZ, libc::SIGPIPE];
const SET_BYTES: usize = 8;

/// Runs `write` on a thread that such a signal does not reach. Its result is that of its last
/// system call, which tells whether it raised one.
pub fn without_signals<R>(write: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let set = RAISED.iter().fold(0_u64, |set, signal| set | 1 << (signal - 1));
    // SAFETY: sets that are zeroed begin with the kernel's 64 bits.
    let before = unsafe {
        let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        (&raw mut blocked).cast::<u64>().write(set);
        raw_sigmask(libc::SIG_BLOCK, &blocked, &mut before);
        before
    };
    let others = pending() & set;
    let result = write();
    let refused = match result {
        Err(Errno::PIPE) => 1 << (libc::SIGPIPE - 1),
        Err(Errno::FBIG) => 1 << (libc::SIGXFSZ - 1),
        _ => 0,
    };
    let raised = pending() & refused & !others;
    if raised != 0 {
        // The kernel gives the thread's own first, which a write raises; the process's stay.
        // SAFETY: the kernel reads a set and a time, and is asked for no information.
        unsafe {
            let now: libc::timespec = zeroed();
            let none = null::<libc::siginfo_t>();
            libc::syscall(libc::SYS_rt_sigtimedwait, &raw const raised, none, &now, SET_BYTES);
        }
    }
    signal::restore(&before);
    result
}

/// Signals that wait for the calling thread or the process.
fn pending() -> u64 {
    let mut pending = 0_u64;
    // SAFETY: the kernel writes as many bytes as it is told.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, SET_BYTES) };
    pending
}

/// Writes all of `bytes`, or says what refused the rest.
pub fn all(file: impl AsFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    without_signals(|| {
        while !rest.is_empty() {
            match rustix::io::write(&file, rest) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Writes a message to standard error, if there is anybody to be told.
pub fn message(arguments: Arguments<'_>) {
    let _ = without_signals(|| print::try_message(arguments));
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::os::unix::net::UnixStream;

    static HEARD: AtomicU32 = AtomicU32::new(0);
    extern "C" fn hear(_: i32, _: *mut libc::siginfo_t, _: *mut core::ffi::c_void) {
        HEARD.fetch_add(1, Relaxed);
    }

    #[test]
    fn a_write_that_nobody_reads_is_an_error_and_others_signals_come() {
        assert!(signal::install(libc::SIGPIPE, hear) && signal::install(libc::SIGXFSZ, hear));
        let (read, write) = UnixStream::pair().unwrap();
        assert_eq!(all(&write, b"abc"), Ok(()));
        let mut there = [0; 4];
        assert_eq!(rustix::io::read(&read, &mut there), Ok(3));
        drop(read);
        assert_eq!(all(&write, b"abc"), Err(Errno::PIPE));
        assert_eq!(HEARD.load(Relaxed), 0);
        // One that was sent before is the program's.
        let mask = signal::block_all();
        signal::send(crate::sys::thread::current(), libc::SIGPIPE);
        assert_eq!(all(&write, b"abc"), Err(Errno::PIPE));
        assert_eq!(HEARD.load(Relaxed), 0);
        signal::restore(&mask);
        assert_eq!(HEARD.load(Relaxed), 1);
        // And one that somebody sends during a write that succeeds.
        let written = without_signals(|| {
            signal::send(crate::sys::thread::current(), libc::SIGPIPE);
            Ok(())
        });
        assert_eq!((written, HEARD.load(Relaxed)), (Ok(()), 2));
    }
}
