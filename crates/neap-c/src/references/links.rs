//! Links: words that become null when an object dies, and how to read a hidden pointer from one.
//!
//! Invariant: a link is a word-aligned address, registered once for each length. Called from any
//! thread.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Acquire};

use neap_core::api::{self, link};

use crate::misuse::misuse;
use crate::object_check::object_or_tell;
use crate::status::Status;

fn length_of(number: c_int) -> Result<link::Length, Status> {
    match number {
        0 => Ok(link::Length::Short),
        1 => Ok(link::Length::Long),
        _ => Err(misuse(
            Status::BadArgument,
            format_args!("{number} is no length of links: use NEAP_LINK_SHORT or NEAP_LINK_LONG"),
        )),
    }
}

fn place_of(link: *mut *mut c_void) -> Result<usize, Status> {
    if link.is_null() || !link.is_aligned() {
        return Err(misuse(
            Status::BadArgument,
            format_args!(
                "{link:p} cannot be a link: it has to be the address of a pointer, a multiple of 8"
            ),
        ));
    }
    Ok(link as usize)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_link_register(
    link: *mut *mut c_void,
    object: *const c_void,
    length: c_int,
) -> Status {
    api::initialize();
    let (place, length) = match (place_of(link), length_of(length)) {
        (Ok(place), Ok(length)) => (place, length),
        (Err(status), _) | (_, Err(status)) => return status,
    };
    if let Err(status) = object_or_tell(object, "neap_link_register") {
        return status;
    }
    // SAFETY: neap.h asks that the word stays until it is unregistered or the object it lies in
    // dies.
    match unsafe { link::register(length, place, object as usize) } {
        Ok(_) => Status::Ok,
        Err(_) => Status::NoMemory,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_link_unregister(link: *mut *mut c_void, length: c_int) -> Status {
    match length_of(length) {
        Ok(length) if link::unregister(length, link as usize) => Status::Ok,
        Ok(_) => Status::NotFound,
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_link_move(
    from: *mut *mut c_void,
    to: *mut *mut c_void,
    length: c_int,
) -> Status {
    let (place, length) = match (place_of(to), length_of(length)) {
        (Ok(place), Ok(length)) => (place, length),
        (Err(status), _) | (_, Err(status)) => return status,
    };
    // SAFETY: as in `neap_link_register`.
    match unsafe { link::relocate(length, from as usize, place) } {
        Ok(link::Relocation::Moved) => Status::Ok,
        Ok(link::Relocation::Occupied) => Status::Occupied,
        Ok(link::Relocation::NotFound) => Status::NotFound,
        Err(_) => Status::NoMemory,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_link_read(link: &AtomicUsize) -> *mut c_void {
    api::hold_collections();
    let object = match link.load(Acquire) {
        0 => null_mut(),
        hidden => !hidden as *mut c_void,
    };
    api::release_collections();
    object
}
