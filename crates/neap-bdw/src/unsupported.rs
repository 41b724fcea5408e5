//! What the ABI has and Neap, or the system, has not. Each says so once, through the program's
//! warning procedure, when it is asked for.
//!
//! Invariant: a program that goes on regardless loses only what the message names. Called from any
//! thread, world running.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::failure::warn;

/// The features, in the order of their messages.
#[derive(Clone, Copy)]
pub enum Feature {
    ExecutableMemory,
    Trace,
}

const MESSAGES: [&CStr; 2] = [
    c"neap: GC_set_pages_executable: the system refuses memory that is writable and executable\n",
    c"neap: GC_TRACE: there is no tracing; heap snapshots say what keeps objects\n",
];
static SAID: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Warns, the first time.
pub fn say_once(feature: Feature) {
    if !SAID[feature as usize].swap(true, Relaxed) {
        warn(MESSAGES[feature as usize].as_ptr(), 0);
    }
}
