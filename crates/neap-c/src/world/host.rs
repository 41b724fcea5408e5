//! The world of a host: a language's runtime that stops its threads itself.
//!
//! Invariant: the functions of a host are copied where they stay for ever before the core learns of
//! them. `neap_world_may_stop` and `neap_world_go_on` are called from signal handlers,
//! `neap_set_world` while the host's other threads do not use the library yet.

use core::alloc::Layout;
use core::ffi::c_int;
use rust_alloc::alloc::alloc;

use neap_core::api::world::{self, Host};

use crate::misuse::misuse;
use crate::status::Status;

#[unsafe(no_mangle)]
pub extern "C" fn neap_set_world(host: *const Option<Host>) -> Status {
    // SAFETY: neap.h asks for null or a struct; one whose first function is null is none, and so
    // reads as None.
    let Some(host) = (unsafe { host.as_ref() }).copied().flatten() else {
        return misuse(
            Status::BadArgument,
            format_args!("neap_set_world needs a struct with all of its functions"),
        );
    };
    // SAFETY: the layout has a size.
    let kept = unsafe { alloc(Layout::new::<Host>()) }.cast::<Host>();
    if kept.is_null() {
        return Status::NoMemory;
    }
    // SAFETY: fresh memory for one, never freed.
    let kept = unsafe {
        kept.write(host);
        &*kept
    };
    if world::set_host(kept) {
        return Status::Ok;
    }
    misuse(
        Status::Occupied,
        format_args!("neap_set_world was called before: a process has one world"),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_world_may_stop() -> c_int {
    world::may_stop().unwrap_or(0).cast_signed()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_world_go_on(stopped: c_int) {
    world::go_on(stopped.cast_unsigned());
}
