//! Monitors as front ends see them.
//!
//! Threads: as in [`super`]. `object` is an object's start. Times are nanoseconds; None is for
//! ever.

use core::ffi::c_void;

use crate::monitors::monitor;
use crate::runtime;

pub use crate::monitors::monitor::{ForgottenCallback, MonitorError};

/// Enters, recursively; false if another thread was in it for all of the time.
#[inline]
pub fn enter(object: *const c_void, timeout_ns: Option<u64>) -> Result<bool, MonitorError> {
    runtime::initialize();
    monitor::enter(object as usize, timeout_ns)
}

/// Leaves.
#[inline]
pub fn exit(object: *const c_void) -> Result<(), MonitorError> {
    runtime::initialize();
    monitor::exit(object as usize)
}

/// Leaves, waits for a notification and enters again; false if the time went by.
pub fn wait(object: *const c_void, timeout_ns: Option<u64>) -> Result<bool, MonitorError> {
    runtime::initialize();
    monitor::wait(object as usize, timeout_ns)
}

/// Lets one thread that waits go on, or all.
pub fn notify(object: *const c_void, all: bool) -> Result<(), MonitorError> {
    runtime::initialize();
    monitor::notify(object as usize, all)
}

/// How many monitors have more than a lock word.
pub fn inflated() -> usize {
    monitor::inflated()
}

/// Sets who is told of a monitor that a thread was in when it ended.
pub fn set_forgotten_callback(callback: ForgottenCallback) {
    monitor::set_forgotten_callback(callback);
}
