//! The program's own roots: a function that names them in every cycle.
//!
//! Invariant: called once in each cycle with the world stopped, on the thread that drives it.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::mark::tracer::Tracer;
use crate::sys::side_stack;

/// Names roots to the tracer; must not allocate or lock.
pub type RootCallback = unsafe extern "C" fn(&mut Tracer<'_>);

static CALLBACK: AtomicUsize = AtomicUsize::new(0);

/// Sets the function.
pub fn set(callback: Option<RootCallback>) {
    CALLBACK.store(callback.map_or(0, |callback| callback as usize), Release);
}

/// Whether there is one.
pub fn is_set() -> bool {
    CALLBACK.load(Relaxed) != 0
}

/// Calls it. Where callbacks of the program may run.
pub fn call(tracer: &mut Tracer<'_>) {
    let callback = CALLBACK.load(Acquire);
    if callback != 0 {
        // SAFETY: stored from such a function; its contract is the program's to keep.
        side_stack::off(|| unsafe {
            core::mem::transmute::<usize, RootCallback>(callback)(tracer);
        });
    }
}
