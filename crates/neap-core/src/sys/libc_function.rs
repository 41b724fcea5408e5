//! Functions of libc's own, found behind those of the same name that front ends export.
//!
//! Invariant: what is found is libc's, whatever stands before it in the order of the search; it is
//! found once. Assumes: glibc is `libc.so.6`. Called from program threads, outside stops.
//!
//! # Safety
//! Callers say which type libc's function has.

#![allow(unsafe_code)]

use core::ffi::CStr;

use super::print;
use crate::sync::function::{AtomicFunction, Function};

/// A function of libc's, never our own of the same name; found once and kept in `known`.
///
/// # Safety
/// libc's function of this name has this type.
pub unsafe fn libc_function<F: Function>(name: &CStr, known: &AtomicFunction<F>) -> F {
    if let Some(real) = known.get() {
        return real;
    }
    // From libc itself: in the order of the search it may stand before this library as well as behind it.
    // SAFETY: looks a loaded library and a symbol up; the caller's promise.
    unsafe {
        let libc = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        let from = if libc.is_null() { libc::RTLD_NEXT } else { libc };
        known.set_address(libc::dlsym(from, name.as_ptr()));
    }
    known.get().unwrap_or_else(|| {
        print::fatal(format_args!(
            "no {} in libc.so.6; is the program linked statically against libc?",
            name.to_string_lossy()
        ))
    })
}
