//! Finalizers, and who runs them: the library after a cycle, or the program when it says so.
//!
//! Invariant: at most one thread at a time runs finalizers unasked, and not from within one, so that finalizers which allocate do not pile up on its stack. No
//! lock is held while one runs. Called from any thread.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use neap_core::api::{self, Finalizer, Order, finalizer};

use crate::objects::object_or_tell;
use crate::status::{Status, misuse};

/// Whether any finalizer was ever set: programs without them pay nothing at free.
static USED: AtomicBool = AtomicBool::new(false);
static AUTOMATIC: AtomicBool = AtomicBool::new(true);
/// The thread that runs finalizers unasked, 0 if none does.
static RUNNER: AtomicUsize = AtomicUsize::new(0);

fn this_thread() -> usize {
    // SAFETY: always succeeds.
    unsafe { libc::pthread_self() as usize }
}

/// At load: has the library told of ends of cycles, and of forks, whose child has no other threads.
pub fn on_load() {
    api::set_after_cycle(Some(after_cycle));
    // SAFETY: a handler that may run at any fork; a refusal leaves forks as they are.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

unsafe extern "C" fn in_child() {
    if RUNNER.load(Relaxed) != this_thread() {
        RUNNER.store(0, Relaxed);
    }
}

unsafe extern "C" fn after_cycle() {
    if finalizer::ready() == 0 || !AUTOMATIC.load(Relaxed) {
        return;
    }
    if RUNNER.compare_exchange(0, this_thread(), Acquire, Relaxed).is_ok() {
        finalizer::run_ready();
        RUNNER.store(0, Release);
    }
}

/// Removes the finalizer of an object that is about to be freed or moved.
pub fn take(object: *mut c_void) -> Option<Finalizer> {
    if !USED.load(Relaxed) {
        return None;
    }
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
    USED.store(true, Relaxed);
    let new = function.map(|function| Finalizer { function, data, order });
    match finalizer::set(object as usize, new) {
        Ok(_) => Status::Ok,
        Err(_) => Status::NoMemory,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizers_set_automatic(on: c_int) {
    AUTOMATIC.store(on != 0, Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizers_ready() -> usize {
    finalizer::ready()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizers_run() -> usize {
    finalizer::run_ready()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finalizers_run_all() -> usize {
    api::initialize();
    finalizer::make_all_ready();
    finalizer::run_ready()
}
