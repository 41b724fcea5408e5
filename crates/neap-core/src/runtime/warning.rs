//! What the program may want to know: a callback with a message and a number, standard error
//! without one.
//!
//! Called outside stops, on the thread that met the trouble.
//!
//! # Safety
//!
//! Calls the program's function by the type that it was stored with.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

use crate::sync::function::AtomicFunction;
use crate::sys::print;

/// Takes a NUL-terminated message and a number that belongs to it.
pub type WarningCallback = unsafe extern "C" fn(*const c_char, usize);

static CALLBACK: AtomicFunction<WarningCallback> = AtomicFunction::none();

/// Sets the callback.
pub fn set(callback: Option<WarningCallback>) {
    CALLBACK.set(callback);
}

/// Warns.
pub fn warn(message: &'static CStr, number: usize) {
    match CALLBACK.get() {
        None => {
            print::message(format_args!("{} ({number})", message.to_str().unwrap_or("warning")))
        }
        // SAFETY: the program's, for this.
        Some(callback) => unsafe { callback(message.as_ptr(), number) },
    }
}
