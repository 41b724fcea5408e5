//! The program's own roots: a function that names them in every cycle.
//!
//! Invariant: called in each pause that reads all roots, of which a cycle may have several, with
//! the world stopped, on the thread that drives it.

#![allow(unsafe_code)]

use crate::mark::tracer::Tracer;
use crate::sync::function::AtomicFunction;
use crate::sys::side_stack;

/// Names roots to the tracer; must not allocate or lock.
pub type RootCallback = unsafe extern "C" fn(&mut Tracer<'_>);

static CALLBACK: AtomicFunction<RootCallback> = AtomicFunction::none();

/// Sets the function.
pub fn set(callback: Option<RootCallback>) {
    CALLBACK.set(callback);
}

/// Whether there is one.
pub fn is_set() -> bool {
    CALLBACK.is_set()
}

/// Calls it. Where callbacks of the program may run.
pub fn call(tracer: &mut Tracer<'_>) {
    if let Some(callback) = CALLBACK.get() {
        // SAFETY: its contract is the program's to keep.
        side_stack::off(|| unsafe { callback(tracer) });
    }
}
