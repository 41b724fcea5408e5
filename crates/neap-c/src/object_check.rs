//! Whether a pointer of the program's is an object's start; if not, what it is, told to the
//! program.
//!
//! Invariant: a pointer is looked up before it is believed. Called from any thread.

use core::ffi::c_void;
use core::fmt;

use neap_core::api::{self, ObjectInfo};

use crate::misuse::misuse;
use crate::status::Status;

/// Why a pointer that is no object's start is none, and what the caller may have done.
pub fn tell(status: Status, what: fmt::Arguments<'_>, pointer: *const c_void) -> Status {
    match status {
        Status::NotInHeap => misuse(
            status,
            format_args!(
                "{what} of {pointer:p}, which is no address of the collected heap: memory from \
                 malloc or elsewhere goes back where it came from"
            ),
        ),
        Status::NotAnObjectStart => {
            let start =
                api::object_at(pointer as usize).map_or(0, |info| info.start.as_ptr() as usize);
            misuse(
                status,
                format_args!(
                    "{what} of {pointer:p}, which lies inside the object that starts at \
                     {start:#x}: pass its start (neap_base gives it)"
                ),
            )
        }
        _ => misuse(
            status,
            format_args!(
                "{what} of {pointer:p}, where there is no object (any more): it was freed before, \
                 or collected because nothing the collector sees pointed to it"
            ),
        ),
    }
}

/// The object that starts at `pointer`, or why there is none.
pub fn object_starting_at(pointer: *const c_void) -> Result<ObjectInfo, Status> {
    match api::object_at(pointer as usize) {
        Some(info) if core::ptr::eq(info.start.as_ptr().cast(), pointer) => Ok(info),
        Some(_) => Err(Status::NotAnObjectStart),
        None if api::is_heap_address(pointer as usize) => Err(Status::AlreadyFree),
        None => Err(Status::NotInHeap),
    }
}

/// The same, telling what is wrong.
pub fn object_or_tell(pointer: *const c_void, what: &str) -> Result<ObjectInfo, Status> {
    object_starting_at(pointer).map_err(|status| tell(status, format_args!("{what}"), pointer))
}
