//! Sleeps: functions of libc that wait for a time and for nothing else, on any of the clocks.
//!
//! Invariant: a sleep that a signal of the program's ends says what was left when the signal came,
//! as the kernel does, not when its handler was over. Called by program threads.
//!
//! # Safety
//! Each asks what libc's function of its name asks.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::{from_ref, null_mut};

use libc::{clockid_t, timespec};

use super::left::Left;
use super::{error, real, set_error, stops};

/// Sleeps by `call`, which is given for how long and where it puts what is left, and gives an error
/// number; again with what is left when it is called as long as a stop ends it.
///
/// # Safety
/// `wanted` is valid, `left` valid or null.
unsafe fn sleep_until(
    end: &Left,
    wanted: *const timespec,
    left: *mut timespec,
    mut call: impl FnMut(*const timespec, *mut timespec) -> c_int,
) -> c_int {
    let mut rest = timespec { tv_sec: 0, tv_nsec: 0 };
    let mut again: Option<timespec> = None;
    loop {
        let before = stops();
        let result = call(again.as_ref().map_or(wanted, from_ref), &mut rest);
        if result != libc::EINTR {
            return result;
        }
        if stops() == before {
            if !left.is_null() {
                // SAFETY: the caller's promise.
                unsafe { *left = rest };
            }
            return result;
        }
        again = Some(end.timespec().unwrap_or(rest));
    }
}

/// As nanosleep(2).
///
/// # Safety
/// As nanosleep(2); so for all that follow.
pub unsafe fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe {
        sleep_until(&Left::of(wanted), wanted, left, |wanted, left| {
            if real::nanosleep(wanted, left) == 0 { 0 } else { error() }
        })
    };
    if result == 0 { 0 } else { -1 }
}

/// What the kernel measures a sleep of a length by; to set that clock changes no such sleep.
fn measure(clock: clockid_t) -> clockid_t {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_TAI => libc::CLOCK_MONOTONIC,
        clock => clock,
    }
}

/// As clock_nanosleep(2).
///
/// # Safety
/// As clock_nanosleep(2).
pub unsafe fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    wanted: *const timespec,
    left: *mut timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if flags & libc::TIMER_ABSTIME != 0 {
            loop {
                let before = stops();
                let result = real::clock_nanosleep(clock, flags, wanted, left);
                if result != libc::EINTR || stops() == before {
                    return result;
                }
            }
        }
        let errno = error();
        let end = Left::of_clock(measure(clock), wanted);
        // It has none of its own.
        set_error(errno);
        sleep_until(&end, wanted, left, |wanted, left| {
            real::clock_nanosleep(clock, flags, wanted, left)
        })
    }
}

/// As thrd_sleep(3).
///
/// # Safety
/// As thrd_sleep(3).
pub unsafe fn thrd_sleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { clock_nanosleep(libc::CLOCK_REALTIME, 0, wanted, left) } {
        0 => 0,
        libc::EINTR => -1,
        _ => -2,
    }
}

/// As sleep(3): gives the seconds that are left.
pub fn sleep(seconds: u32) -> u32 {
    let errno = error();
    let mut left = timespec { tv_sec: seconds.into(), tv_nsec: 0 };
    // SAFETY: a structure of ours.
    if unsafe { nanosleep(&raw const left, &raw mut left) } != 0 {
        return left.tv_sec as u32;
    }
    set_error(errno);
    0
}

/// As usleep(3).
pub fn usleep(microseconds: u32) -> c_int {
    let wanted = timespec {
        tv_sec: (microseconds / 1_000_000).into(),
        tv_nsec: (microseconds % 1_000_000 * 1000).into(),
    };
    // SAFETY: a structure of ours.
    unsafe { nanosleep(&wanted, null_mut()) }
}
