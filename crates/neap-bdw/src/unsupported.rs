//! What the ABI has and Neap has not. Each says so once, through the program's warning procedure,
//! when it is asked for.
//!
//! Invariant: a program that goes on regardless loses only what the message names. Called from any
//! thread, world running.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::failure::warn;

/// The features, in the order of their messages.
#[derive(Clone, Copy)]
pub enum Feature {
    PagesExecutable,
    BackHeight,
}

const MESSAGES: [&CStr; 2] = [
    c"Neap: GC_set_pages_executable: the heap is never executable; map memory for code with mmap\n",
    c"Neap: GC_PRINT_BACK_HEIGHT: there are none; heap snapshots say what keeps objects\n",
];
static SAID: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Warns, the first time.
pub fn say_once(feature: Feature) {
    if !SAID[feature as usize].swap(true, Relaxed) {
        warn(MESSAGES[feature as usize].as_ptr(), 0);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_pages_executable(value: c_int) {
    if value != 0 {
        say_once(Feature::PagesExecutable);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_pages_executable() -> c_int {
    0
}
