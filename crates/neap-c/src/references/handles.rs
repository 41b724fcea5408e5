//! Handles, ephemerons and domains: alloc, get, set, free, and what is told of wrong use.
//!
//! Invariant: a handle that is no handle (any more) changes nothing, and is told. Called from any
//! thread; no lock is taken.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use neap_core::api::handles::{self, DomainId, Error, Handle, HandleError, HandleKind};

use crate::misuse::misuse;
use crate::object_check::object_or_tell;
use crate::status::{Status, set_errno};

/// The first of `enum neap_handle_kind`; the others follow in this order.
const KINDS: [HandleKind; 5] = [
    HandleKind::Strong,
    HandleKind::Pinned,
    HandleKind::Weak,
    HandleKind::WeakLong,
    HandleKind::Ephemeron,
];

/// Tells what is wrong with the use of `handle` in `function`.
#[cold]
fn tell(error: Error, function: &str, handle: u64, objects: &[*const c_void]) -> Status {
    match error {
        Error::Handle(HandleError::NoMemory) => Status::NoMemory,
        Error::Handle(HandleError::Stale) => misuse(
            Status::NotFound,
            format_args!(
                "{function}: {handle:#x} is no handle (any more): it was freed, its domain was \
                 closed, or it never was one"
            ),
        ),
        Error::Handle(HandleError::Closed) => misuse(
            Status::NotFound,
            format_args!(
                "{function}: the domain {handle:#x} is not open: it was closed, or it never was one"
            ),
        ),
        Error::Handle(HandleError::WrongKind) => misuse(
            Status::BadArgument,
            format_args!(
                "{function}: {handle:#x} is a handle of another kind: ephemerons have functions of \
                 their own, neap_ephemeron_*"
            ),
        ),
        Error::NotAnObject => objects
            .iter()
            .filter(|object| !object.is_null())
            .find_map(|&object| object_or_tell(object, function).err())
            .unwrap_or_else(|| {
                misuse(
                    Status::BadArgument,
                    format_args!("{function}: an object is needed where null was given"),
                )
            }),
    }
}

fn errno_of(status: Status) -> c_int {
    if status == Status::NoMemory { libc::ENOMEM } else { libc::EINVAL }
}

/// The handle, or 0 and errno.
#[inline(always)]
fn made(
    result: Result<Handle, Error>,
    function: &str,
    domain: u64,
    objects: &[*const c_void],
) -> u64 {
    match result {
        Ok(handle) => handle.0,
        Err(error) => {
            set_errno(errno_of(tell(error, function, domain, objects)));
            0
        }
    }
}

#[inline(always)]
fn status(
    result: Result<(), Error>,
    function: &str,
    handle: u64,
    objects: &[*const c_void],
) -> Status {
    match result {
        Ok(()) => Status::Ok,
        Err(error) => tell(error, function, handle, objects),
    }
}

/// What a yes or no says as a status: no is [`Status::Occupied`].
fn yes(
    result: Result<bool, Error>,
    function: &str,
    handle: u64,
    objects: &[*const c_void],
) -> Status {
    match result {
        Ok(true) => Status::Ok,
        Ok(false) => Status::Occupied,
        Err(error) => tell(error, function, handle, objects),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_handle_alloc(object: *const c_void, kind: c_int) -> u64 {
    neap_handle_alloc_in(0, object, kind)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_handle_alloc_in(domain: u64, object: *const c_void, kind: c_int) -> u64 {
    let known = KINDS.get((kind as usize).wrapping_sub(1)).copied();
    let Some(kind) = known.filter(|kind| *kind != HandleKind::Ephemeron) else {
        misuse(
            Status::BadArgument,
            format_args!(
                "neap_handle_alloc: {kind} is no kind of handle that it makes: use \
                 NEAP_HANDLE_STRONG, PINNED, WEAK or WEAK_LONG"
            ),
        );
        set_errno(libc::EINVAL);
        return 0;
    };
    made(handles::allocate(DomainId(domain), kind, object), "neap_handle_alloc", domain, &[object])
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_handle_get(handle: u64) -> *mut c_void {
    match handles::get(Handle(handle)) {
        Ok(object) => object,
        Err(error) => {
            set_errno(errno_of(tell(error, "neap_handle_get", handle, &[])));
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_handle_set(handle: u64, object: *const c_void) -> Status {
    status(handles::set(Handle(handle), object), "neap_handle_set", handle, &[object])
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_handle_compare_and_set(
    handle: u64,
    expected: *const c_void,
    object: *const c_void,
) -> Status {
    let result = handles::compare_and_set(Handle(handle), expected, object);
    yes(result, "neap_handle_compare_and_set", handle, &[expected, object])
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_handle_free(handle: u64) -> Status {
    if handle == 0 {
        return Status::Ok;
    }
    status(handles::free(Handle(handle)), "neap_handle_free", handle, &[])
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_handle_kind_of(handle: u64) -> c_int {
    let kind = handles::kind(Handle(handle)).ok();
    kind.and_then(|kind| KINDS.iter().position(|known| *known == kind))
        .map_or(0, |position| position as c_int + 1)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_ephemeron_alloc(key: *const c_void, value: *const c_void) -> u64 {
    neap_ephemeron_alloc_in(0, key, value)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_ephemeron_alloc_in(
    domain: u64,
    key: *const c_void,
    value: *const c_void,
) -> u64 {
    let result = handles::allocate_ephemeron(DomainId(domain), key, value);
    made(result, "neap_ephemeron_alloc", domain, &[key, value])
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_ephemeron_get(ephemeron: u64, key: Option<&mut *mut c_void>) -> *mut c_void {
    let pair = handles::get_ephemeron(Handle(ephemeron)).unwrap_or_else(|error| {
        set_errno(errno_of(tell(error, "neap_ephemeron_get", ephemeron, &[])));
        (null_mut(), null_mut())
    });
    if let Some(place) = key {
        *place = pair.0;
    }
    pair.1
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_ephemeron_set(ephemeron: u64, value: *const c_void) -> Status {
    match handles::set_ephemeron(Handle(ephemeron), value) {
        Ok(true) => Status::Ok,
        // The key died: there is nothing that a value could belong to.
        Ok(false) => Status::NotFound,
        Err(error) => tell(error, "neap_ephemeron_set", ephemeron, &[value]),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_ephemeron_compare_and_set(
    ephemeron: u64,
    expected: *const c_void,
    value: *const c_void,
) -> Status {
    let result = handles::compare_and_set_ephemeron(Handle(ephemeron), expected, value);
    yes(result, "neap_ephemeron_compare_and_set", ephemeron, &[expected, value])
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_ephemeron_free(ephemeron: u64) -> Status {
    neap_handle_free(ephemeron)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_domain_open() -> u64 {
    handles::open_domain().map_or_else(
        || {
            set_errno(libc::ENOMEM);
            0
        },
        |domain| domain.0,
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_domain_close(domain: u64, freed: Option<&mut usize>) -> Status {
    let closed = handles::close_domain(DomainId(domain));
    if let Some(freed) = freed {
        *freed = closed.unwrap_or(0);
    }
    if closed.is_some() {
        return Status::Ok;
    }
    misuse(
        Status::NotFound,
        format_args!(
            "neap_domain_close: the domain {domain:#x} is not open{}",
            if domain == 0 {
                " for closing: the default domain stays"
            } else {
                ": it was closed, or it never was one"
            }
        ),
    )
}
