//! Finalizers, and who runs them: threads of the library, or the program when it says so.
//!
//! Invariant: no lock is held while one runs, and an exception that leaves one goes no further.
//! Called from any thread.

use core::ffi::{c_int, c_void};

use neap_core::api::{self, Finalizer, Order, finalizer};

use crate::misuse::misuse;
use crate::object_check::object_or_tell;
use crate::status::Status;

/// At load: finalizers are run by the library unless the option or the program says otherwise.
pub fn on_load() {
    finalizer::set_automatic(true);
    api::set_after_cycle(Some(after_cycle));
}

/// In a forked child nobody runs what was waiting until somebody registers more, or here.
unsafe extern "C" fn after_cycle() {
    finalizer::start_if_needed();
}

/// Removes the finalizer of an object that is about to be freed or moved.
pub fn take(object: *mut c_void) -> Option<Finalizer> {
    // Removing takes no memory.
    finalizer::set(object as usize, None).unwrap_or(None)
}

/// Gives an object the finalizer that [`take`] removed.
pub fn put_back(object: *mut c_void, finalizer: Option<Finalizer>) {
    if let Some(finalizer) = finalizer
        && finalizer::set(object as usize, Some(finalizer)).is_err()
    {
        misuse(
            Status::NoMemory,
            format_args!("no memory for the finalizer of {object:p}, which will not run"),
        );
    }
}

fn order_of(number: c_int) -> Option<Order> {
    match number {
        0 => Some(Order::Topological),
        1 => Some(Order::IgnoreSelf),
        2 => Some(Order::NoOrder),
        3 => Some(Order::Unreachable),
        _ => None,
    }
}

type Function = unsafe extern "C" fn(*mut c_void, *mut c_void);

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizer_set(
    object: *mut c_void,
    function: Option<Function>,
    data: *mut c_void,
    order: c_int,
) -> Status {
    api::initialize();
    if let Err(status) = object_or_tell(object, "neap_finalizer_set") {
        return status;
    }
    let Some(order) = order_of(order) else {
        return misuse(
            Status::BadArgument,
            format_args!("{order} is no order of finalizers: use one of enum neap_order"),
        );
    };
    let new = function.map(|function| Finalizer { function, data, order });
    match finalizer::set(object as usize, new) {
        Ok(_) => Status::Ok,
        Err(_) => Status::NoMemory,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizer_is_set(object: *const c_void) -> c_int {
    api::initialize();
    finalizer::get(object as usize).is_some().into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizers_set_automatic(on: c_int) {
    api::initialize();
    finalizer::set_automatic(on != 0);
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizers_ready() -> usize {
    finalizer::ready()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizers_run() -> usize {
    api::initialize();
    finalizer::run_all_found()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizers_run_all() -> usize {
    api::initialize();
    api::make_all_finalizers_ready();
    finalizer::run_all_found()
}
