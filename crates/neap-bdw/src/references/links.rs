//! Disappearing links of the ABI, short and long.
//!
//! Invariant: a link is an aligned word; registering, moving and unregistering answer with the
//! codes of `gc.h`. Called from any thread.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;

use crate::core_api::{
    self as api,
    link::{self, Length, Registration, Relocation},
};
use crate::failure::die;
use crate::references::finalize::object_start;
use crate::settings::variables::GC_find_leak;

const SUCCESS: c_int = 0;
const DUPLICATE: c_int = 1;
const NO_MEMORY: c_int = 2;
/// As libgc says where there are no links, which is in the leak-finding mode too.
const UNIMPLEMENTED: c_int = 3;
const NOT_FOUND: c_int = 4;

fn check(function: &str, link: *const c_void) {
    if link.is_null() || !(link as usize).is_multiple_of(size_of::<usize>()) {
        die(format_args!("{function}({link:p}): a link has to be an aligned word"));
    }
}

fn register(function: &str, length: Length, link: *mut c_void, object: *const c_void) -> c_int {
    check(function, link);
    if GC_find_leak.load(Relaxed) != 0 {
        return UNIMPLEMENTED;
    }
    // Programs link to static data too, which never dies.
    let start = api::object_at(object as usize).map(|info| info.start.as_ptr() as usize);
    let object = start.unwrap_or(link::IMMORTAL);
    // SAFETY: gc.h has the caller promise that the word stays until it is unregistered or its
    // object dies.
    match unsafe { link::register(length, link as usize, object) } {
        Ok(Registration::New) => SUCCESS,
        Ok(Registration::Updated) => DUPLICATE,
        Err(_) => NO_MEMORY,
    }
}

fn relocate(function: &str, length: Length, from: *mut c_void, to: *mut c_void) -> c_int {
    check(function, to);
    // SAFETY: as for `register`.
    match unsafe { link::relocate(length, from as usize, to as usize) } {
        Ok(Relocation::Moved) => SUCCESS,
        Ok(Relocation::Occupied) => DUPLICATE,
        Ok(Relocation::NotFound) => NOT_FOUND,
        Err(_) => NO_MEMORY,
    }
}

/// The link's own object is what it follows: the word is cleared when the object that holds it is
/// about to be finalized.
#[unsafe(no_mangle)]
pub extern "C" fn GC_register_disappearing_link(link: *mut c_void) -> c_int {
    object_start("GC_register_disappearing_link", link);
    register("GC_register_disappearing_link", Length::Short, link, link)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_general_register_disappearing_link(
    link: *mut c_void,
    object: *const c_void,
) -> c_int {
    register("GC_general_register_disappearing_link", Length::Short, link, object)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_move_disappearing_link(from: *mut c_void, to: *mut c_void) -> c_int {
    relocate("GC_move_disappearing_link", Length::Short, from, to)
}

/// Non-zero if it was registered.
#[unsafe(no_mangle)]
pub extern "C" fn GC_unregister_disappearing_link(link: *mut c_void) -> c_int {
    link::unregister(Length::Short, link as usize).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_register_long_link(link: *mut c_void, object: *const c_void) -> c_int {
    register("GC_register_long_link", Length::Long, link, object)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_move_long_link(from: *mut c_void, to: *mut c_void) -> c_int {
    relocate("GC_move_long_link", Length::Long, from, to)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_unregister_long_link(link: *mut c_void) -> c_int {
    link::unregister(Length::Long, link as usize).into()
}
