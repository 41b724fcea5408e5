//! Functions of libc that wait, for front ends to export in libc's stead: the thread is in a
//! blocked region meanwhile, so no stop of the world signals it or waits for it
//! (`world.rule.waiting`). Where it is in none (under a host's world, in a region of the program's
//! own, on the way into one), a stop interrupts it all the same. The kernel restarts most calls
//! that are interrupted; others it ends with EINTR, so that a program would see its sleeps, polls
//! and receives cut short. Here they go on until the moment at which they were to end when they
//! began, all but those that are given a mask of signals.
//!
//! Invariant `[world.inv.wait-ends]`: a wait with a time ends by that moment, however often it is
//! interrupted: a call that is made again is given what is left until then, counted when it is
//! made. None waits with the stop signal blocked, and none loses the signal that it is called with
//! a mask for. A stop that comes while the program's own handler returns is delivered where that
//! handler returned to: nothing tells then that a signal of the program's ended the wait as well.
//! To go on with a wait would lose that signal. Without a mask it could have come just before the
//! wait, and the program has to live with that; a mask is there to rule that out, so a wait with a
//! mask ends at a stop. Called by program threads, also in their signal handlers.
//!
//! # Safety
//! Each function asks of its arguments what libc's function of its name asks, and hands them on.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;

use libc::{
    aiocb, clockid_t, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, pollfd, pthread_cond_t,
    pthread_mutex_t, sem_t, sembuf, siginfo_t, sigset_t, sockaddr, socklen_t, timespec, timeval,
};

use super::errno::{error, set_error};
use crate::world::current;

mod between_threads;
mod exports;
mod files;
mod for_signals;
mod left;
mod queues;
mod sleeps;
mod sockets;

pub use crate::world::blocked::waiting;
pub use between_threads::{
    cnd_timedwait, cnd_wait, futex, pthread_cond_clockwait, pthread_cond_timedwait,
    pthread_cond_wait, real_syscall, refused, sem_clockwait, sem_timedwait, sem_wait,
};
pub use files::{
    __poll_chk, __ppoll_chk, epoll_pwait, epoll_pwait2, epoll_wait, poll, ppoll, pselect, select,
};
pub use for_signals::{
    __sigpause, __xpg_sigpause, pause, sigpause, sigsuspend, sigtimedwait, sigwaitinfo,
};
pub use queues::{aio_suspend, aio_suspend64, gai_suspend, msgrcv, msgsnd, semop, semtimedop};
pub use sleeps::{clock_nanosleep, nanosleep, sleep, thrd_sleep, usleep};
pub use sockets::{
    Direction, accept, accept4, connect, on_socket, send, sendmmsg, sendmsg, sendto, write, writev,
};

macro_rules! real_waits {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// libc's own.
        mod real {
            use super::*;

            $(pub unsafe fn $name($($argument: $type),*) -> $result {
                // SAFETY: it is called as the caller was.
                unsafe { found::$name.get()($($argument),*) }
            })*

            #[allow(non_upper_case_globals)]
            pub(super) mod found {
                use super::*;
                use crate::sys::libc_function::LibcFunction;

                $(pub static $name: LibcFunction<unsafe extern "C" fn($($type),*) -> $result> =
                    // SAFETY: libc's function of this name has this type.
                    unsafe { LibcFunction::named(concat!(stringify!($name), "\0")) };)*
            }

            /// Finds them all, so that the first call may be in a signal's handler.
            pub fn find() {
                $(found::$name.find();)*
            }
        }
    };
}
crate::each_wait!(real_waits);

/// Called when the library is loaded.
pub fn find() {
    real::find();
    between_threads::find();
}

/// How often the calling thread was interrupted for a stop, and for nothing else.
fn stops() -> u32 {
    current::get().map_or(0, |mutator| mutator.interruptions.load(Relaxed))
}

/// What libc's functions give for an error, with a number in errno.
pub trait Failed: PartialEq + Sized {
    /// That.
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl Failed for isize {
    const FAILED: Self = -1;
}

/// Calls once; the result, and whether a stop ended the call, with EINTR, and nothing else did.
fn tried<R: Failed>(call: impl FnOnce() -> R) -> (R, bool) {
    let before = stops();
    let result = call();
    let stopped = result == R::FAILED && error() == libc::EINTR && stops() != before;
    (result, stopped)
}

/// Calls again for as long as a stop ended the call.
fn undisturbed<R: Failed>(mut call: impl FnMut() -> R) -> R {
    loop {
        let (result, stopped) = tried(&mut call);
        if !stopped {
            return result;
        }
    }
}
