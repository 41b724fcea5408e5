//! Functions of libc that the front ends export in its stead: `pthread_sigmask`, so that nobody
//! blocks the stop signal; `sigaction`, `signal` and its kin, so that handlers of ours, of faults
//! and of the stop signal, stay where they are, and handlers of the program's leave blocked regions
//! (`world.rule.handlers`).
//!
//! Invariant: each does what libc's does and no more than that is visible. Called by program
//! threads.
//!
//! # Safety
//!
//! Each function is libc's in type and promise, and passes the program's arguments on to libc's
//! own.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::{from_ref, null, null_mut};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::runtime::interposed::errno::set_error;
use crate::runtime::interposed::program_handlers;
use crate::sys::protection::fault;
use crate::sys::signal;
use crate::world::stop_signal::{self, is_in_child_of_vfork};

/// As sigaction(2); what the program wants done is kept beside a handler of our own, where there is
/// one, and a handler of the program's does not block the stop signal.
///
/// # Safety
/// `new` and `old` are null or valid.
pub unsafe fn sigaction(
    number: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's promise; the copies are ours.
    unsafe {
        let stubbed = new.as_ref().map(|new| libc::sigaction {
            sa_sigaction: program_handlers::installed_for(new.sa_sigaction),
            ..*new
        });
        let result = set_action(number, stubbed, old);
        if let (0, Some(old)) = (result, old.as_mut()) {
            old.sa_sigaction = program_handlers::wanted_for(old.sa_sigaction);
        }
        result
    }
}

/// # Safety
/// `old` is null or valid.
unsafe fn set_action(
    number: c_int,
    new: Option<libc::sigaction>,
    old: *mut libc::sigaction,
) -> c_int {
    let address = |new: &Option<libc::sigaction>| new.as_ref().map_or(null(), from_ref);
    // SAFETY: the caller's promise; the structures are ours.
    unsafe {
        let kept = match number {
            // What it writes to may be protected until it executes another program, which has the
            // default action in place of our handler.
            libc::SIGSEGV if is_in_child_of_vfork() => fault::set_program_action(null(), old),
            _ if is_in_child_of_vfork() => None,
            libc::SIGSEGV => fault::set_program_action(address(&new), old),
            _ => stop_signal::set_program_action(number, address(&new), old),
        };
        if let Some(result) = kept {
            return result;
        }
        let open =
            new.map(|new| libc::sigaction { sa_mask: without_open_ones(&new.sa_mask), ..new });
        signal::real_sigaction()(number, address(&open), old)
    }
}

/// The signals, by bit, whose handlers end what they interrupt where [`signal()`] sets them.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// The bit of a signal; none for what is no signal.
fn bit(number: c_int) -> u64 {
    u32::try_from(number.wrapping_sub(1))
        .ok()
        .and_then(|place| 1_u64.checked_shl(place))
        .unwrap_or(0)
}

/// As signal(2).
pub fn signal(number: c_int, wanted: libc::sighandler_t) -> libc::sighandler_t {
    let interrupts = INTERRUPTING.load(Relaxed) & bit(number) != 0;
    signal_with(number, wanted, if interrupts { 0 } else { libc::SA_RESTART })
}

/// As siginterrupt(3). Our own handlers keep their flags: a stop interrupts nothing.
pub fn siginterrupt(number: c_int, interrupts: c_int) -> c_int {
    // SAFETY: a structure of ours.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        if sigaction(number, null(), &mut action) != 0 {
            return -1;
        }
        if interrupts != 0 {
            INTERRUPTING.fetch_or(bit(number), Relaxed);
            action.sa_flags &= !libc::SA_RESTART;
        } else {
            INTERRUPTING.fetch_and(!bit(number), Relaxed);
            action.sa_flags |= libc::SA_RESTART;
        }
        sigaction(number, &action, null_mut())
    }
}

/// As sysv_signal(3): the handler is called once, may be interrupted by its own signal, and ends
/// what it interrupts.
pub fn sysv_signal(number: c_int, wanted: libc::sighandler_t) -> libc::sighandler_t {
    signal_with(number, wanted, libc::SA_RESETHAND | libc::SA_NODEFER)
}

fn signal_with(number: c_int, wanted: libc::sighandler_t, flags: c_int) -> libc::sighandler_t {
    if wanted == libc::SIG_ERR {
        set_error(libc::EINVAL);
        return libc::SIG_ERR;
    }
    // SAFETY: two structures of ours; the handler is the program's.
    unsafe {
        let mut new: libc::sigaction = core::mem::zeroed();
        let mut old: libc::sigaction = core::mem::zeroed();
        new.sa_sigaction = wanted;
        new.sa_flags = flags;
        if flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&mut new.sa_mask, number);
        }
        match sigaction(number, &new, &mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// As pthread_sigmask(3), but never blocks the stop signal, nor the one that our own handler of
/// faults is there for.
///
/// # Safety
/// `set` and `old` are null or valid.
pub unsafe fn pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    let unblocks = how == libc::SIG_UNBLOCK;
    // SAFETY: the caller's set, if it is one.
    match unsafe { set.as_ref() } {
        Some(set) if how == libc::SIG_SETMASK => fault::let_through_by(set),
        // SAFETY: as above.
        Some(set) if unblocks && unsafe { libc::sigismember(set, libc::SIGSEGV) } == 1 => {
            fault::let_through();
        }
        _ => {}
    }
    if set.is_null() || unblocks {
        // SAFETY: the caller's promise.
        return unsafe { signal::raw_sigmask(how, set, old) };
    }
    // SAFETY: the caller's sets.
    unsafe { signal::raw_sigmask(how, &without_open_ones(&*set), old) }
}

/// The signals that no thread may block: the stop signal, and the one that our own handler of
/// faults is there for.
pub(crate) fn open_ones() -> impl Iterator<Item = c_int> {
    let fault = fault::is_wanted().then_some(libc::SIGSEGV);
    core::iter::once(stop_signal::masked()).chain(fault)
}

/// Whether no thread may block it.
pub(crate) fn stays_open(signal: c_int) -> bool {
    open_ones().any(|open| open == signal)
}

/// The set without these.
pub(crate) fn without_open_ones(set: &libc::sigset_t) -> libc::sigset_t {
    let mut without = *set;
    for signal in open_ones() {
        // SAFETY: a copy of ours.
        unsafe { libc::sigdelset(&mut without, signal) };
    }
    without
}

/// Defines libc's functions by which handlers of signals are set, and the stack that they run on.
/// In a library that programs load before libc, once.
#[macro_export]
macro_rules! signal_actions {
    ($($action:ident)* ; $($restarting:ident)* ; $($once:ident)*) => {
        $(
            #[doc = concat!("As libc's `", stringify!($action), "`.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $action(
                number: core::ffi::c_int,
                new: *const libc::sigaction,
                old: *mut libc::sigaction,
            ) -> core::ffi::c_int {
                // SAFETY: the caller calls it as libc's.
                unsafe { $crate::api::sigaction(number, new, old) }
            }
        )*
        $(
            #[doc = concat!("As libc's `", stringify!($restarting), "`.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $restarting(
                number: core::ffi::c_int,
                wanted: libc::sighandler_t,
            ) -> libc::sighandler_t {
                $crate::api::signal(number, wanted)
            }
        )*
        $(
            #[doc = concat!("As libc's `", stringify!($once), "`.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $once(
                number: core::ffi::c_int,
                wanted: libc::sighandler_t,
            ) -> libc::sighandler_t {
                $crate::api::sysv_signal(number, wanted)
            }
        )*
    };
    () => {
        $crate::signal_actions! {
            sigaction __sigaction; signal bsd_signal ssignal; sysv_signal __sysv_signal
        }
        /// As libc's `siginterrupt`.
        #[unsafe(no_mangle)]
        pub extern "C" fn siginterrupt(
            number: core::ffi::c_int,
            interrupts: core::ffi::c_int,
        ) -> core::ffi::c_int {
            $crate::api::siginterrupt(number, interrupts)
        }
        $crate::kernel_stacks!();
    };
}
