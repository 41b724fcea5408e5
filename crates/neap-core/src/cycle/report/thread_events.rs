//! What the program is told of single threads: that one stands for a collection, and that it is
//! about to go on.
//!
//! Invariant: who was told to stand is told to go on before the same pause ends, and nobody else
//! is. Threads in blocked regions are not told of: nobody stops them. Called between stop and
//! resume by the thread that drives the cycle, with the registry locked; the callback neither
//! allocates nor locks.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;

use super::callbacks;
use crate::sync::function::AtomicFunction;
use crate::sys::side_stack;
use crate::world::mutator::{Activity, Mutator};
use crate::world::registry::Registry;

/// Given a thread, as `pthread_t`, and whether it stands or is about to go on.
pub type ThreadCallback = unsafe extern "C" fn(*mut c_void, bool);

static CALLBACK: AtomicFunction<ThreadCallback> = AtomicFunction::none();

/// Sets the callback. A front end that does says that the program takes part in cycles.
pub fn set(callback: Option<ThreadCallback>) {
    CALLBACK.set(callback);
}

/// Whether there is one: then no thread is stopped alone.
pub fn is_set() -> bool {
    CALLBACK.is_set()
}

fn tell(callback: ThreadCallback, mutator: &Mutator, stands: bool) {
    // A thread's control block is its `pthread_t`.
    let thread = mutator.control_block.load(Relaxed) as *mut c_void;
    // SAFETY: the program's, for this.
    side_stack::off(|| unsafe { callback(thread, stands) });
}

/// The world stands, but for `own`.
pub fn stopped(registry: &Registry, own: Option<&Mutator>) {
    let Some(callback) = CALLBACK.get().filter(|_| callbacks::are_heard()) else { return };
    for mutator in registry.iter() {
        let is_own = own.is_some_and(|own| core::ptr::eq(own, mutator));
        if !is_own && mutator.activity() == Activity::Running {
            mutator.told_to_stand.store(true, Relaxed);
            tell(callback, mutator, true);
        }
    }
}

/// The world is about to go on.
pub fn resuming(registry: &Registry) {
    if let Some(callback) = CALLBACK.get() {
        for mutator in registry.iter() {
            if mutator.told_to_stand.load(Relaxed) {
                mutator.told_to_stand.store(false, Relaxed);
                tell(callback, mutator, false);
            }
        }
    }
}
