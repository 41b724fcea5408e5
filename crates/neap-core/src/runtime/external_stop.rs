//! Stopping the world for the program itself, between two calls instead of around one.
//!
//! Invariant: between [`stop`] and [`resume`] the calling thread holds the collector off and has
//! the registry's lock.
//!
//! # Safety
//!
//! Keeps the token of a stop in a cell between two calls. Only the thread that has the registry's
//! lock touches the cell, and only `stop` leaves a guard that `resume` may end.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::mem::forget;

use crate::cycle::driver::holding;
use crate::world::{self, Stopped, registry};

struct Token(UnsafeCell<Option<Stopped>>);
// SAFETY: touched only by the thread that has the registry's lock.
unsafe impl Sync for Token {}
static TOKEN: Token = Token(UnsafeCell::new(None));

/// Stops every mutator but the caller; false if the world, a host's, cannot be stopped.
pub fn stop() -> bool {
    let mutator = super::mutator();
    holding::hold();
    let mut registry = registry::lock();
    let Some(stopped) = world::the().stop(&mut registry, Some(mutator)) else {
        drop(registry);
        holding::release();
        return false;
    };
    // SAFETY: this thread has the registry's lock.
    unsafe { *TOKEN.0.get() = Some(stopped) };
    forget(registry);
    true
}

/// Lets them go on; ignored if this thread holds nothing.
pub fn resume() {
    if super::mutator().holds.load(core::sync::atomic::Ordering::Relaxed) == 0 {
        return;
    }
    // SAFETY: this thread holds collections off, so if there is a token, it put it there and has
    // the registry's lock.
    if let Some(stopped) = unsafe { (*TOKEN.0.get()).take() } {
        world::the().resume(stopped);
        // SAFETY: `stop` forgot the guard on this thread.
        unsafe { registry::unlock_forgotten() };
        holding::release();
    }
}
