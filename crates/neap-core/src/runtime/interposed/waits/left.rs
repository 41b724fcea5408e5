//! What is left of a time to wait: the moment at which a wait is to be over, by the clock that the
//! kernel measures it with.
//!
//! Invariant: the moment is fixed when the wait begins and never moves. What was asked for without
//! an end, or without sense, is left to libc as it is. Made and asked by the thread that waits.
//!
//! # Safety
//! Limits are null or valid, which the caller promises.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_long};
use core::time::Duration;

use libc::{clockid_t, timespec, timeval};

/// The moment at which a wait is over.
pub struct Left {
    clock: clockid_t,
    /// On that clock; `None` where there is no end, or no sense in what was asked for.
    ends: Option<Duration>,
}

/// What a clock says; `None` if there is no such clock.
fn now(clock: clockid_t) -> Option<Duration> {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time that it is given.
    let known = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    let seconds = u64::try_from(time.tv_sec).ok()?;
    known.then(|| Duration::new(seconds, time.tv_nsec as u32))
}

fn to_timespec(time: Duration) -> timespec {
    timespec { tv_sec: time.as_secs() as i64, tv_nsec: c_long::from(time.subsec_nanos() as i32) }
}

impl Left {
    /// `time` from now, if it is one.
    fn from_now(clock: clockid_t, time: Option<Duration>) -> Self {
        let ends =
            time.filter(|time| !time.is_zero()).and_then(|time| now(clock)?.checked_add(time));
        Self { clock, ends }
    }

    /// For a time in milliseconds; negative is for ever.
    pub fn of_milliseconds(milliseconds: c_int) -> Self {
        let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        Self::from_now(libc::CLOCK_MONOTONIC, time)
    }

    /// # Safety
    /// `limit` is null or valid.
    pub unsafe fn of(limit: *const timespec) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::of_clock(libc::CLOCK_MONOTONIC, limit) }
    }

    /// The same by a clock of the caller's.
    ///
    /// # Safety
    /// `limit` is null or valid.
    pub unsafe fn of_clock(clock: clockid_t, limit: *const timespec) -> Self {
        // SAFETY: the caller's promise.
        let time = unsafe { limit.as_ref() }.and_then(|limit| {
            let seconds = u64::try_from(limit.tv_sec).ok()?;
            let nanoseconds = u32::try_from(limit.tv_nsec).ok()?;
            (nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds))
        });
        Self::from_now(clock, time)
    }

    /// # Safety
    /// `limit` is null or valid.
    pub unsafe fn of_timeval(limit: *const timeval) -> Self {
        // SAFETY: the caller's promise.
        let time = unsafe { limit.as_ref() }.and_then(|limit| {
            let seconds = u64::try_from(limit.tv_sec).ok()?;
            let microseconds = u64::try_from(limit.tv_usec).ok()?;
            Duration::from_secs(seconds).checked_add(Duration::from_micros(microseconds))
        });
        Self::from_now(libc::CLOCK_MONOTONIC, time)
    }

    /// Until the end; nothing once it is over.
    pub fn duration(&self) -> Option<Duration> {
        Some(self.ends?.saturating_sub(now(self.clock)?))
    }

    /// In milliseconds, rounded up; `first` where that stays what it was.
    pub fn milliseconds(&self, first: c_int) -> c_int {
        self.duration()
            .map_or(first, |left| left.as_micros().div_ceil(1000).min(c_int::MAX as u128) as c_int)
    }

    /// As a `timespec`; `None` where that stays what it was.
    pub fn timespec(&self) -> Option<timespec> {
        self.duration().map(to_timespec)
    }

    /// As a `timeval`, rounded up.
    pub fn timeval(&self) -> Option<timeval> {
        let microseconds = self.duration()?.as_nanos().div_ceil(1000);
        Some(timeval {
            tv_sec: (microseconds / 1_000_000) as i64,
            tv_usec: (microseconds % 1_000_000) as i64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_gets_less_and_is_never_negative() {
        let left = Left::of_milliseconds(50);
        assert!((1..=50).contains(&left.milliseconds(50)));
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!((left.milliseconds(50), left.duration()), (0, Some(Duration::ZERO)));
        for endless in [-1, 0, c_int::MIN] {
            assert_eq!(Left::of_milliseconds(endless).milliseconds(endless), endless);
        }
    }

    #[test]
    fn times_without_sense_are_left_to_libc() {
        let of = |tv_sec, tv_nsec| {
            // SAFETY: a structure of ours.
            unsafe { Left::of(&timespec { tv_sec, tv_nsec }) }.timespec().is_some()
        };
        assert!(of(1, 0) && of(0, 1) && of(0, 999_999_999));
        assert!(!of(-1, 0) && !of(0, -1) && !of(0, 1_000_000_000) && !of(0, 0));
        // SAFETY: null is allowed, and a structure of ours.
        unsafe {
            assert!(Left::of(core::ptr::null()).timespec().is_none());
            assert!(Left::of_clock(-77, &timespec { tv_sec: 1, tv_nsec: 0 }).timespec().is_none());
            let of = |tv_sec, tv_usec| Left::of_timeval(&timeval { tv_sec, tv_usec }).timeval();
            assert!(of(1, 0).is_some() && of(0, 2_000_000).is_some_and(|left| left.tv_sec >= 1));
            assert!(of(0, 0).is_none() && of(-1, 0).is_none() && of(0, -1).is_none());
        }
    }

    #[test]
    fn what_cannot_be_added_to_the_clock_has_no_end() {
        let most = timespec { tv_sec: i64::MAX, tv_nsec: 999_999_999 };
        // SAFETY: a structure of ours.
        let left = unsafe { Left::of(&most) };
        assert!(left.duration().is_some_and(|left| left.as_secs() > i64::MAX as u64 / 2));
    }
}
