//! Roots that the program names: ranges, and a callback that is asked in every cycle.
//!
//! Invariant: a range that is refused changes nothing. The callback runs with the world stopped;
//! the rest is called from any thread.

use core::ffi::{c_int, c_void};
use core::ops::Range;

use neap_core::api::program_call::{self, Lost};
use neap_core::api::{self, Tracer};

use crate::misuse::misuse;
use crate::references::callback::Slot;
use crate::status::Status;

fn range(low: *const c_void, high: *const c_void, what: &str) -> Option<Range<usize>> {
    if low > high {
        misuse(
            Status::BadArgument,
            format_args!(
                "{what} of {low:p} to {high:p}: the second address has to be one past the last, \
                 not below the first"
            ),
        );
        return None;
    }
    Some(low as usize..high as usize)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_roots_add(low: *const c_void, high: *const c_void) -> Status {
    let Some(range) = range(low, high, "neap_roots_add") else { return Status::BadArgument };
    if api::add_roots(range) { Status::Ok } else { Status::NoMemory }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_roots_remove(low: *const c_void, high: *const c_void) -> Status {
    match range(low, high, "neap_roots_remove") {
        Some(range) => {
            api::remove_roots(range);
            Status::Ok
        }
        None => Status::BadArgument,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_roots_clear() {
    api::clear_roots();
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_roots_exclude(low: *const c_void, high: *const c_void) -> Status {
    match range(low, high, "neap_roots_exclude") {
        Some(range) => {
            api::exclude_roots(range);
            Status::Ok
        }
        None => Status::BadArgument,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_set_static_roots(on: c_int) {
    api::set_static_roots(on != 0);
}

type RootCallback = unsafe extern "C" fn(*mut Tracer<'_>, *mut c_void);
static CALLBACK: Slot<RootCallback> = Slot::new();

unsafe extern "C" fn call(tracer: &mut Tracer<'_>) {
    if let Some((callback, environment)) = CALLBACK.get() {
        let words = [(&raw mut *tracer) as usize, environment as usize, 0, 0];
        // SAFETY: the program's, for this; neap.h says when it is called.
        unsafe { program_call::call("root callback", Lost::Roots, callback as usize, words) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_set_root_callback(
    callback: Option<RootCallback>,
    environment: *mut c_void,
) -> Status {
    let status = CALLBACK.set(callback, environment);
    api::set_root_callback(Some(call));
    status
}
