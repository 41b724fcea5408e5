//! Permanent objects, and what to do before forking workers.
//!
//! Invariant: thin; the core does it all. Called from mutators, outside stops.

use core::ffi::c_int;

use neap_core::api;

#[unsafe(no_mangle)]
pub extern "C" fn neap_prefork() -> c_int {
    api::prefork().into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_freeze() -> c_int {
    api::freeze().into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_unfreeze() -> c_int {
    api::unfreeze().into()
}
