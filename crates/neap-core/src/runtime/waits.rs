//! Functions of libc that wait, for front ends to export in libc's stead. The kernel restarts most calls that a stop of the world interrupts; these it ends with EINTR, so that a program would see its sleeps and polls cut short. Here they go on
//! with the time that is left, all but those that are given a mask of signals.
//!
//! Invariant: none waits with the stop signal blocked, and none loses the signal that it is called with a mask for. A stop that comes while the program's own handler returns is delivered where that handler returned to: nothing tells then that a signal of the program's ended the wait as well.
//! To go on with a wait would lose that signal. Without a mask it could have come just before the wait, and the program has to live with that; a mask is there to rule that out, so a wait with a mask ends at a stop. Called by program threads, also in their signal handlers.
//!
//! # Safety
//!
//! Each function is libc's in type and promise, and passes the program's arguments on. Times that
//! are changed are copies of our own; what is left of a sleep is written only where libc would.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_long};
use core::ptr::{null, null_mut};
use core::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use libc::{clockid_t, epoll_event, fd_set, nfds_t, pollfd, sem_t, siginfo_t, sigset_t, timespec};

use super::interpose::without_stop_signal;
use crate::world::current;

/// Calls a macro with the functions of libc that are stood before here, but for `sleep` and `usleep`.
#[doc(hidden)]
#[macro_export]
macro_rules! each_wait {
    ($($then:tt)*) => { $($then)*! {
        nanosleep(wanted: *const timespec, left: *mut timespec);
        clock_nanosleep(clock: clockid_t, flags: c_int, wanted: *const timespec, left: *mut timespec);
        poll(files: *mut pollfd, count: nfds_t, milliseconds: c_int);
        ppoll(files: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t);
        select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, limit: *mut timeval);
        pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, limit: *const timespec, mask: *const sigset_t);
        epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, milliseconds: c_int);
        epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, milliseconds: c_int, mask: *const sigset_t);
        pause();
        sigsuspend(mask: *const sigset_t);
        sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t);
        sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, limit: *const timespec);
        sem_timedwait(semaphore: *mut sem_t, until: *const timespec);
        sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, until: *const timespec);
    } };
}

macro_rules! real_waits {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        /// libc's own.
        mod real {
            use core::ffi::c_int;
            use libc::*;

            $(pub unsafe fn $name($($argument: $type),*) -> c_int {
                // SAFETY: libc's function of this name has this type, and is called as the caller was.
                unsafe {
                    found::$name()($($argument),*)
                }
            })*

            mod found {
                use core::ffi::{CStr, c_int};
                use libc::*;
                use crate::sync::function::AtomicFunction;
                use crate::sys::libc_function::libc_function;

                $(pub fn $name() -> unsafe extern "C" fn($($type),*) -> c_int {
                    type Real = unsafe extern "C" fn($($type),*) -> c_int;
                    static KNOWN: AtomicFunction<Real> = AtomicFunction::none();
                    const NAME: &str = concat!(stringify!($name), "\0");
                    // SAFETY: it ends in its only zero; libc's function of this name has this type.
                    unsafe {
                        libc_function(CStr::from_bytes_with_nul_unchecked(NAME.as_bytes()), &KNOWN)
                    }
                })*
            }

            /// Finds them all, so that the first call may be in a signal's handler.
            pub fn find() {
                $(found::$name();)*
            }
        }
    };
}
each_wait!(real_waits);

/// Called at start-up.
pub fn initialize() {
    real::find();
}

/// How often the calling thread was interrupted for a stop, and for nothing else.
fn stops() -> u32 {
    current::get().map_or(0, |mutator| mutator.interruptions.load(Relaxed))
}

fn error() -> c_int {
    // SAFETY: errno is this thread's.
    unsafe { *libc::__errno_location() }
}

/// Calls again for as long as a stop ended the call.
fn undisturbed(mut call: impl FnMut() -> c_int) -> c_int {
    loop {
        let before = stops();
        let result = call();
        if result != -1 || error() != libc::EINTR || stops() == before {
            return result;
        }
    }
}

/// What is left of a time to wait.
struct Left {
    /// When it is over; `None` where there is no end, or no sense in what was asked for.
    ends: Option<Instant>,
}

impl Left {
    fn of_milliseconds(milliseconds: c_int) -> Self {
        let time = u64::try_from(milliseconds).ok().filter(|time| *time > 0);
        Self { ends: time.and_then(|time| Instant::now().checked_add(Duration::from_millis(time))) }
    }

    /// # Safety
    /// `limit` is null or valid.
    unsafe fn of(limit: *const timespec) -> Self {
        // SAFETY: the caller's promise.
        let time = unsafe { limit.as_ref() }.and_then(|limit| {
            let seconds = u64::try_from(limit.tv_sec).ok()?;
            let nanoseconds =
                u32::try_from(limit.tv_nsec).ok().filter(|part| *part < 1_000_000_000)?;
            Some(Duration::new(seconds, nanoseconds))
        });
        let time = time.filter(|time| !time.is_zero());
        Self { ends: time.and_then(|time| Instant::now().checked_add(time)) }
    }

    fn duration(&self) -> Option<Duration> {
        Some(self.ends?.saturating_duration_since(Instant::now()))
    }

    /// In milliseconds, rounded up; `first` where that stays what it was.
    fn milliseconds(&self, first: c_int) -> c_int {
        self.duration()
            .map_or(first, |left| left.as_micros().div_ceil(1000).min(c_int::MAX as u128) as c_int)
    }

    fn timespec(&self) -> Option<timespec> {
        let left = self.duration()?;
        Some(timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: c_long::from(left.subsec_nanos() as i32),
        })
    }
}

/// The same for a function that takes its time as a `timespec` that it does not change.
///
/// # Safety
/// `limit` is null or valid.
unsafe fn undisturbed_for(
    limit: *const timespec,
    call: impl Fn(*const timespec) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let left = unsafe { Left::of(limit) };
    let mut first = true;
    undisturbed(|| {
        let rest = if core::mem::take(&mut first) { None } else { left.timespec() };
        call(rest.as_ref().map_or(limit, core::ptr::from_ref))
    })
}

/// As nanosleep(2).
///
/// # Safety
/// As nanosleep(2); so for all that follow.
pub unsafe fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    let mut rest = timespec { tv_sec: 0, tv_nsec: 0 };
    let mut next = None;
    // SAFETY: the caller's promise; `rest` is written only where a signal ended the sleep.
    unsafe {
        let result = undisturbed(|| {
            let result =
                real::nanosleep(next.as_ref().map_or(wanted, core::ptr::from_ref), &mut rest);
            next = Some(rest);
            result
        });
        if result == -1 && error() == libc::EINTR && !left.is_null() {
            *left = rest;
        }
        result
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
    let relative = flags & libc::TIMER_ABSTIME == 0;
    let mut rest = timespec { tv_sec: 0, tv_nsec: 0 };
    let mut next = None;
    loop {
        let before = stops();
        // SAFETY: the caller's promise, as above.
        let result = unsafe {
            real::clock_nanosleep(
                clock,
                flags,
                next.as_ref().map_or(wanted, core::ptr::from_ref),
                &mut rest,
            )
        };
        if result == libc::EINTR && stops() != before {
            next = relative.then_some(rest);
            continue;
        }
        if result == libc::EINTR && relative && !left.is_null() {
            // SAFETY: the caller's promise.
            unsafe { *left = rest };
        }
        return result;
    }
}

/// As sleep(3): gives the seconds that are left.
pub fn sleep(seconds: u32) -> u32 {
    let errno = error();
    let mut left = timespec { tv_sec: seconds.into(), tv_nsec: 0 };
    // SAFETY: structures of ours; errno is this thread's.
    unsafe {
        if nanosleep(&raw const left, &raw mut left) != 0 {
            return left.tv_sec as u32;
        }
        *libc::__errno_location() = errno;
    }
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

/// As poll(2).
///
/// # Safety
/// As poll(2).
pub unsafe fn poll(files: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
    let left = Left::of_milliseconds(milliseconds);
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe { real::poll(files, count, left.milliseconds(milliseconds)) })
}

/// As ppoll(2).
///
/// # Safety
/// As ppoll(2).
pub unsafe fn ppoll(
    files: *mut pollfd,
    count: nfds_t,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => real::ppoll(files, count, limit, &without_stop_signal(mask)),
            None => undisturbed_for(limit, |limit| real::ppoll(files, count, limit, null())),
        }
    }
}

/// As select(2): the kernel takes what was waited off the time itself.
///
/// # Safety
/// As select(2).
pub unsafe fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *mut libc::timeval,
) -> c_int {
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe { real::select(count, read, write, except, limit) })
}

/// As pselect(2).
///
/// # Safety
/// As pselect(2).
pub unsafe fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => {
                real::pselect(count, read, write, except, limit, &without_stop_signal(mask))
            }
            None => undisturbed_for(limit, |limit| {
                real::pselect(count, read, write, except, limit, null())
            }),
        }
    }
}

/// As epoll_wait(2).
///
/// # Safety
/// As epoll_wait(2).
pub unsafe fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    milliseconds: c_int,
) -> c_int {
    let left = Left::of_milliseconds(milliseconds);
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe {
        real::epoll_wait(epoll, events, most, left.milliseconds(milliseconds))
    })
}

/// As epoll_pwait(2).
///
/// # Safety
/// As epoll_pwait(2).
pub unsafe fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    milliseconds: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => {
                real::epoll_pwait(epoll, events, most, milliseconds, &without_stop_signal(mask))
            }
            None => epoll_wait(epoll, events, most, milliseconds),
        }
    }
}

/// As pause(2).
///
/// # Safety
/// None is needed.
pub unsafe fn pause() -> c_int {
    // SAFETY: takes nothing.
    undisturbed(|| unsafe { real::pause() })
}

/// As sigsuspend(2).
///
/// # Safety
/// As sigsuspend(2).
pub unsafe fn sigsuspend(mask: *const sigset_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match mask.as_ref() {
            Some(mask) => real::sigsuspend(&without_stop_signal(mask)),
            None => real::sigsuspend(mask),
        }
    }
}

/// As sigwaitinfo(2).
///
/// # Safety
/// As sigwaitinfo(2).
pub unsafe fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let set = without_stop_signal(&*set);
        undisturbed(|| real::sigwaitinfo(&set, info))
    }
}

/// As sigtimedwait(2).
///
/// # Safety
/// As sigtimedwait(2).
pub unsafe fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    limit: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let set = without_stop_signal(&*set);
        undisturbed_for(limit, |limit| real::sigtimedwait(&set, info, limit))
    }
}

/// As sem_timedwait(3).
///
/// # Safety
/// As sem_timedwait(3).
pub unsafe fn sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int {
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe { real::sem_timedwait(semaphore, until) })
}

/// As sem_clockwait(3).
///
/// # Safety
/// As sem_clockwait(3).
pub unsafe fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    undisturbed(|| unsafe { real::sem_clockwait(semaphore, clock, until) })
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_waits {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("As libc's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::waits::$name($($argument),*) }
        }
    )*};
}

/// Defines libc's functions that wait (see the module `runtime::waits` of the core). In a library that programs load before libc, once.
#[macro_export]
macro_rules! waits {
    () => {
        use core::ffi::c_int;
        use libc::{
            clockid_t, epoll_event, fd_set, nfds_t, pollfd, sem_t, siginfo_t, sigset_t, timespec,
            timeval,
        };

        $crate::each_wait!($crate::export_waits);

        /// As libc's `sleep`.
        #[unsafe(no_mangle)]
        pub extern "C" fn sleep(seconds: u32) -> u32 {
            $crate::api::waits::sleep(seconds)
        }

        /// As libc's `usleep`.
        #[unsafe(no_mangle)]
        pub extern "C" fn usleep(microseconds: u32) -> c_int {
            $crate::api::waits::usleep(microseconds)
        }
    };
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
        // SAFETY: null is allowed.
        assert!(unsafe { Left::of(core::ptr::null()) }.timespec().is_none());
    }
}
