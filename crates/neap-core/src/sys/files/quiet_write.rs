//! Writing to files that the user named, where a write that is refused is an error and no signal:
//! past a limit on file sizes, and to a pipe that nobody reads any more.
//!
//! Invariant: the program's handlers hear of no signal that a write of the library's raised, and of
//! all others. Stops come through. No allocation, no lock. Called where recordings, summaries and
//! heap snapshots are written.
//!
//! # Safety
//!
//! System calls about signals, with sets of the kernel's 64 bits that outlive them.

#![allow(unsafe_code)]

use core::mem::zeroed;
use core::ptr::null;

use rustix::fd::AsFd;
use rustix::io::Errno;

use crate::sys::signal::{self, raw_sigmask};

const RAISED: [i32; 2] = [libc::SIGXFSZ, libc::SIGPIPE];
const SET_BYTES: usize = 8;

/// Runs `write` on a thread that such a signal does not reach.
pub fn without_signals<R>(write: impl FnOnce() -> R) -> R {
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
    let raised = pending() & set & !others;
    if raised != 0 {
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
    }
}
