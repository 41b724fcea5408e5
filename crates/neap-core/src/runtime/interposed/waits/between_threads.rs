//! Waits for other threads of the program: semaphores, condition variables, and futex(2) called by
//! `syscall`, as the locks of Rust, GLib and C++'s atomics do.
//!
//! Invariant: `sem_wait` takes a semaphore that is free at once, outside blocked regions, which
//! cost several times as much; it asks first whether the thread was cancelled, as libc's does.
//! Called by program threads.
//!
//! # Safety
//! Each asks what libc's function of its name asks.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_long, c_void};

use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, sem_t, timespec};

use super::{error, real, set_error, undisturbed, waiting};
use crate::sys::libc_function::LibcFunction;

type OfSemaphore = unsafe extern "C" fn(*mut sem_t) -> c_int;
// SAFETY: libc's functions of these names have these types.
static SEM_TRYWAIT: LibcFunction<OfSemaphore> = unsafe { LibcFunction::named("sem_trywait\0") };
// SAFETY: as above.
static SEM_WAIT: LibcFunction<OfSemaphore> = unsafe { LibcFunction::named("sem_wait\0") };
static TESTCANCEL: LibcFunction<unsafe extern "C" fn()> =
    // SAFETY: as above.
    unsafe { LibcFunction::named("pthread_testcancel\0") };

type OfSystemCall =
    unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
// SAFETY: as above, called with all arguments that it can have.
static SYSCALL: LibcFunction<OfSystemCall> = unsafe { LibcFunction::named("syscall\0") };

/// Finds those that are not in the list of waits.
pub(super) fn find() {
    SYSCALL.find();
    SEM_TRYWAIT.find();
    SEM_WAIT.find();
    TESTCANCEL.find();
}

/// As sem_wait(3).
///
/// # Safety
/// As sem_wait(3); so for all that follow.
pub unsafe fn sem_wait(semaphore: *mut sem_t) -> c_int {
    let errno = error();
    // SAFETY: the caller's promise.
    unsafe {
        TESTCANCEL.get()();
        if SEM_TRYWAIT.get()(semaphore) == 0 {
            return 0;
        }
        set_error(errno);
        waiting([semaphore as usize], || undisturbed(|| SEM_WAIT.get()(semaphore)))
    }
}

/// As syscall(2) with the number of futex(2), which `number` is. A stop may end a wait with a time
/// early where no region is begun, with EINTR: who calls this looks again.
///
/// # Safety
/// As futex(2).
pub unsafe extern "C" fn futex(
    number: c_long,
    word: usize,
    operation: usize,
    value: usize,
    limit: usize,
    second: usize,
    bits: usize,
) -> c_long {
    // SAFETY: the caller's promise.
    let call = || unsafe { SYSCALL.get()(number, word, operation, value, limit, second, bits) };
    match operation as c_int & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => waiting([word, limit], call),
        _ => call(),
    }
}

/// libc's `syscall`, past the front end's.
///
/// # Safety
/// As libc's.
pub unsafe fn real_syscall(number: c_long, arguments: [usize; 5]) -> c_long {
    let [first, second, third, fourth, fifth] = arguments;
    // SAFETY: the caller's promise.
    unsafe { SYSCALL.get()(number, first, second, third, fourth, fifth, 0) }
}

/// What syscall(2) gives for what the kernel refused with the negative of an error number.
pub extern "C" fn refused(result: c_long) -> c_long {
    set_error(-result as c_int);
    -1
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

/// As pthread_cond_wait(3).
///
/// # Safety
/// As pthread_cond_wait(3).
pub unsafe fn pthread_cond_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { real::pthread_cond_wait(condition, mutex) }
}

/// As pthread_cond_timedwait(3).
///
/// # Safety
/// As pthread_cond_timedwait(3).
pub unsafe fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { real::pthread_cond_timedwait(condition, mutex, until) }
}

/// As pthread_cond_clockwait(3).
///
/// # Safety
/// As pthread_cond_clockwait(3).
pub unsafe fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { real::pthread_cond_clockwait(condition, mutex, clock, until) }
}

/// As cnd_wait(3).
///
/// # Safety
/// As cnd_wait(3).
pub unsafe fn cnd_wait(condition: *mut c_void, mutex: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { real::cnd_wait(condition, mutex) }
}

/// As cnd_timedwait(3).
///
/// # Safety
/// As cnd_timedwait(3).
pub unsafe fn cnd_timedwait(
    condition: *mut c_void,
    mutex: *mut c_void,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { real::cnd_timedwait(condition, mutex, until) }
}
