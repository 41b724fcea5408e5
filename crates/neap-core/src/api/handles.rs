//! Handles, ephemerons and domains as front ends see them.
//!
//! Threads: as in [`super`]. Nothing here takes a lock. A handle is a number that stays unique for
//! the life of the process: one that was freed, or never was one, gives an error.

use core::ffi::c_void;

use crate::refs::handles::process;
use crate::runtime;

pub use crate::refs::handles::domain::DomainId;
pub use crate::refs::handles::handle::{Handle, HandleError};
pub use crate::refs::handles::process::Error;
pub use crate::refs::handles::slot::Kind as HandleKind;

/// A new handle to an object's start, or to none.
#[inline]
pub fn allocate(
    domain: DomainId,
    kind: HandleKind,
    object: *const c_void,
) -> Result<Handle, Error> {
    runtime::initialize();
    process::allocate(domain, kind, object as usize)
}

/// Frees a handle or an ephemeron.
#[inline]
pub fn free(handle: Handle) -> Result<(), Error> {
    runtime::initialize();
    process::free(handle)
}

/// The object of a handle; null if it has none or the object died. What it gives is alive.
#[inline]
pub fn get(handle: Handle) -> Result<*mut c_void, Error> {
    process::get(handle).map(|object| object as *mut c_void)
}

/// Makes the handle refer to another object, or to none.
pub fn set(handle: Handle, object: *const c_void) -> Result<(), Error> {
    runtime::initialize();
    process::set(handle, object as usize)
}

/// The same if it refers to `expected`; whether it did.
pub fn compare_and_set(
    handle: Handle,
    expected: *const c_void,
    object: *const c_void,
) -> Result<bool, Error> {
    runtime::initialize();
    process::compare_and_set(handle, expected as usize, object as usize)
}

/// The kind of a handle.
pub fn kind(handle: Handle) -> Result<HandleKind, Error> {
    process::kind(handle)
}

/// A new ephemeron; `value` may be null.
pub fn allocate_ephemeron(
    domain: DomainId,
    key: *const c_void,
    value: *const c_void,
) -> Result<Handle, Error> {
    runtime::initialize();
    process::allocate_ephemeron(domain, key as usize, value as usize)
}

/// Key and value; both null if the key died.
pub fn get_ephemeron(handle: Handle) -> Result<(*mut c_void, *mut c_void), Error> {
    process::get_ephemeron(handle).map(|(key, value)| (key as *mut c_void, value as *mut c_void))
}

/// Gives an ephemeron another value; false if its key died.
pub fn set_ephemeron(handle: Handle, value: *const c_void) -> Result<bool, Error> {
    runtime::initialize();
    process::set_ephemeron(handle, value as usize)
}

/// The same if the value is `expected`; whether it was.
pub fn compare_and_set_ephemeron(
    handle: Handle,
    expected: *const c_void,
    value: *const c_void,
) -> Result<bool, Error> {
    runtime::initialize();
    process::compare_and_set_ephemeron(handle, expected as usize, value as usize)
}

/// Opens a domain; None without memory, or when 65,536 are open.
pub fn open_domain() -> Option<DomainId> {
    runtime::initialize();
    process::open_domain()
}

/// Closes a domain and frees all its handles; gives how many. None if it is not open, or the
/// default one.
pub fn close_domain(domain: DomainId) -> Option<usize> {
    runtime::initialize();
    process::close_domain(domain)
}
