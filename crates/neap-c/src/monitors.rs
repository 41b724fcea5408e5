//! Monitors: entering, leaving, waiting, notifying; what is told of wrong use.
//!
//! Invariant: an operation on what is no object, or on a monitor that the thread is not in, changes
//! nothing and is told. Called from any thread; no lock of the library is held while one waits.

use core::ffi::{c_int, c_void};

use neap_core::api::monitors::{self, MonitorError};

use crate::misuse::misuse;
use crate::object_check::object_or_tell;
use crate::status::Status;

/// At load: has what threads forgot to leave told like other wrong use.
pub fn on_load() {
    monitors::set_forgotten_callback(|object, thread| {
        misuse(
            Status::NotOwner,
            format_args!(
                "thread {thread} ended in the monitor of {object:#x}, which is left for it: every \
                 neap_monitor_enter needs its neap_monitor_exit"
            ),
        );
    });
}

#[cold]
fn tell(error: MonitorError, object: *const c_void, function: &str) -> Status {
    match error {
        MonitorError::NoMemory => Status::NoMemory,
        MonitorError::NotOwner => misuse(
            Status::NotOwner,
            format_args!(
                "{function}: this thread is not in the monitor of {object:p}: enter it first"
            ),
        ),
        MonitorError::NotAnObject => match object_or_tell(object, function) {
            Err(status) => status,
            Ok(_) => Status::NotAnObjectStart,
        },
    }
}

/// A yes or no as a status: no is [`Status::TimedOut`].
#[inline(always)]
fn status(result: Result<bool, MonitorError>, object: *const c_void, function: &str) -> Status {
    match result {
        Ok(true) => Status::Ok,
        Ok(false) => Status::TimedOut,
        Err(error) => tell(error, object, function),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_monitor_enter(object: *const c_void) -> Status {
    status(monitors::enter(object, None), object, "neap_monitor_enter")
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_monitor_try_enter(object: *const c_void) -> Status {
    status(monitors::enter(object, Some(0)), object, "neap_monitor_try_enter")
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_monitor_enter_timed(object: *const c_void, nanoseconds: u64) -> Status {
    status(monitors::enter(object, Some(nanoseconds)), object, "neap_monitor_enter_timed")
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_monitor_exit(object: *const c_void) -> Status {
    status(monitors::exit(object).map(|()| true), object, "neap_monitor_exit")
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_monitor_wait(object: *const c_void) -> Status {
    status(monitors::wait(object, None), object, "neap_monitor_wait")
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_monitor_wait_timed(object: *const c_void, nanoseconds: u64) -> Status {
    status(monitors::wait(object, Some(nanoseconds)), object, "neap_monitor_wait_timed")
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_monitor_notify(object: *const c_void, all: c_int) -> Status {
    status(monitors::notify(object, all != 0).map(|()| true), object, "neap_monitor_notify")
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_monitors_inflated() -> usize {
    monitors::inflated()
}
