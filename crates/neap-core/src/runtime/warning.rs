//! What the program may want to know: a callback with a message and a number, standard error without one.
//!
//! Called outside stops, on the thread that met the trouble.
//!
//! # Safety
//!
//! Calls the program's function by the type that it was stored with.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::sys::print;

/// Takes a NUL-terminated message and a number that belongs to it.
pub type WarningCallback = unsafe extern "C" fn(*const c_char, usize);

static CALLBACK: AtomicUsize = AtomicUsize::new(0);

/// Sets the callback.
pub fn set(callback: Option<WarningCallback>) {
    CALLBACK.store(callback.map_or(0, |callback| callback as usize), Release);
}

/// Warns.
pub fn warn(message: &'static CStr, number: usize) {
    match CALLBACK.load(Acquire) {
        0 => print::message(format_args!("{} ({number})", message.to_str().unwrap_or("warning"))),
        // SAFETY: stored from such a function.
        callback => unsafe {
            core::mem::transmute::<usize, WarningCallback>(callback)(message.as_ptr(), number)
        },
    }
}
