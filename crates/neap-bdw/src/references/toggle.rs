//! Toggle references of the ABI.
//!
//! Invariant: the callback is asked before every collection, world running (`events.rs`). Called
//! from any thread.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::core_api::toggle;
use crate::references::finalize::object_start;

const NO_MEMORY: c_int = 2;
static HAS_CALLBACK: AtomicBool = AtomicBool::new(false);

/// Whether the program is asked before each collection.
pub fn has_callback() -> bool {
    HAS_CALLBACK.load(Relaxed)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_toggleref_func(callback: Option<toggle::Callback>) {
    HAS_CALLBACK.store(callback.is_some(), Relaxed);
    toggle::set_callback(callback);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_toggleref_func() -> Option<toggle::Callback> {
    toggle::callback()
}

/// Does nothing before there is a callback, as gc.h says.
#[unsafe(no_mangle)]
pub extern "C" fn GC_toggleref_add(object: *mut c_void, is_strong: c_int) -> c_int {
    if toggle::callback().is_none() {
        return 0;
    }
    match toggle::add(object_start("GC_toggleref_add", object), is_strong != 0) {
        Ok(()) => 0,
        Err(_) => NO_MEMORY,
    }
}
