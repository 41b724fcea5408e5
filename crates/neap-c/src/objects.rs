//! What is asked of objects that are there: free, realloc, size, base, kind, and all of them one
//! after the other.
//!
//! Invariant: a pointer is looked up before it is believed; a wrong one changes nothing, is told,
//! and gives an error. Called from any thread.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use neap_core::api::{self, Kind, link};

use crate::alloc::{neap_alloc, refused};
use crate::object_check::{object_or_tell, object_starting_at, tell};
use crate::references::{cleaners, finalizers};
use crate::status::{Status, set_errno};

#[unsafe(no_mangle)]
pub extern "C" fn neap_resize_in_place(object: *mut c_void, bytes: usize) -> usize {
    match object_or_tell(object, "neap_resize_in_place") {
        Ok(info) => api::objects::resize_in_place(info.start, bytes).unwrap_or(0),
        Err(_) => 0,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_free(object: *mut c_void) -> Status {
    if object.is_null() {
        return Status::Ok;
    }
    if let Ok(info) = object_starting_at(object) {
        if link::were_any() {
            link::unregister_within(object as usize, info.bytes);
        }
        finalizers::take(object);
        drop(cleaners::take(object));
    }
    // SAFETY: neap.h asks that nobody uses the object afterwards.
    match unsafe { api::free(object.cast()) } {
        Ok(_) => Status::Ok,
        Err(error) => tell(error.into(), format_args!("neap_free"), object),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_realloc(object: *mut c_void, bytes: usize) -> *mut c_void {
    if object.is_null() {
        return neap_alloc(bytes);
    }
    if object_or_tell(object, "neap_realloc").is_err() {
        set_errno(libc::EINVAL);
        return null_mut();
    }
    if bytes == 0 {
        neap_free(object);
        return null_mut();
    }
    let (finalizer, cleaners) = (finalizers::take(object), cleaners::take(object));
    // SAFETY: it is an object's start, and neap.h asks that nobody uses the old address after
    // success.
    let moved = unsafe { api::reallocate(object.cast(), bytes) };
    let place = if moved.is_null() { object } else { moved.cast() };
    finalizers::put_back(place, finalizer);
    cleaners.put_back(place);
    if moved.is_null() { refused(bytes) } else { moved.cast() }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_usable_size(object: *const c_void) -> usize {
    object_starting_at(object).map_or(0, |info| info.bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_base(address: *const c_void) -> *mut c_void {
    api::object_at(address as usize).map_or(null_mut(), |info| info.start.as_ptr().cast())
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_is_heap_address(address: *const c_void) -> c_int {
    api::is_heap_address(address as usize).into()
}

/// `neap_object_info`.
#[repr(C)]
pub struct Info {
    start: *mut c_void,
    bytes: usize,
    kind: c_int,
    layout: u32,
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_object_at(address: *const c_void, info: Option<&mut Info>) -> c_int {
    let Some(found) = api::object_at(address as usize) else { return 0 };
    if let Some(info) = info {
        *info = Info {
            start: found.start.as_ptr().cast(),
            bytes: found.bytes,
            kind: found.kind as c_int,
            layout: found.layout.map_or(u32::MAX, |layout| layout.0),
        };
    }
    1
}

type Visitor = unsafe extern "C" fn(*mut c_void, usize, c_int, *mut c_void);

#[unsafe(no_mangle)]
pub extern "C" fn neap_for_each_object(visitor: Visitor, environment: *mut c_void) {
    api::for_each_object(|start, bytes, kind: Kind, _| {
        // SAFETY: the caller's function, for which neap.h says when it is called.
        unsafe { visitor(start as *mut c_void, bytes, kind as c_int, environment) };
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_is_marked(address: *const c_void) -> c_int {
    api::mark_bit(address as usize).into()
}
