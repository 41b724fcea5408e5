//! The monotonic clock, in nanoseconds.
//!
//! Assumes that the kernel lets it be read without a system call. Safe anywhere, also with the
//! world stopped. libc's function, since rustix's own search for the kernel's faults under
//! Valgrind, which hides what it looks for.
//!
//! # Safety
//!
//! `clock_gettime` writes to a structure of ours.

#![allow(unsafe_code)]

use core::ops::Add;
use core::time::Duration;

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time that it is given; these clocks exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since a moment before the process began.
pub fn now_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

/// Processor time that the calling thread has taken.
pub fn own_processor_ns() -> u64 {
    nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time that this thread of the process has taken; None if there is no such thread.
pub fn processor_ns_of(thread: i32) -> Option<u64> {
    // As the kernel encodes the clock of a thread (include/linux/posix-timers.h): its number
    // inverted, then that it is one thread's, and that it counts what the scheduler gave.
    let clock = !thread << 3 | 0b110;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time that it is given, unless it refuses.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Processor time that the threads of the process have taken, but for the calling one.
pub fn others_processor_ns() -> u64 {
    let own = own_processor_ns();
    nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(own)
}

/// A moment, by the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    /// Nanoseconds, as of [`now_ns`].
    ns: u64,
}

impl Instant {
    /// This one.
    pub fn now() -> Self {
        Self { ns: now_ns() }
    }

    /// How long ago it was.
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    /// How long after another one; nothing if it was before.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }
}

/// As much later, at most at the end of the clock.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self { ns: self.ns.saturating_add(nanoseconds) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_on() {
        let before = now_ns();
        assert!(now_ns() >= before && unix_ns() > 1_600_000_000_000_000_000);
    }

    #[test]
    fn a_thread_has_a_clock_while_it_lives() {
        let own = crate::sys::thread::current();
        let before = own_processor_ns();
        assert!((before..before + 1_000_000_000).contains(&processor_ns_of(own).unwrap()));
        let ended = std::thread::spawn(crate::sys::thread::current).join().unwrap();
        let gone = || processor_ns_of(ended).is_none();
        assert!((0..1000).any(|_| gone() || {
            std::thread::sleep(core::time::Duration::from_millis(1));
            false
        }));
    }
}
