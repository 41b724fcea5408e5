//! The allocation lock of the ABI: recursive, held over code of the program, and no collection
//! while it is held: it is what holds collections off.
//!
//! Invariant: allocation never takes it, so a program may hold it as long as it likes without
//! stopping that (memory grows instead). A `fork` takes it too. Called from any thread, world
//! running.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};

use crate::core_api as api;

/// Takes the lock; as often as taken it has to be given back.
#[unsafe(no_mangle)]
pub extern "C" fn GC_alloc_lock() {
    api::hold_collections();
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_alloc_unlock() {
    api::release_collections();
}

/// Runs `f` with the lock held.
pub fn with_alloc_lock<R>(f: impl FnOnce() -> R) -> R {
    GC_alloc_lock();
    let result = f();
    GC_alloc_unlock();
    result
}

/// What one thread at a time may use, whoever else forks meanwhile. Never used while the world is
/// stopped.
pub struct Locked<T>(UnsafeCell<T>);
// SAFETY: only the holder of the lock reaches what is in it.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Runs `f` with the lock held. It does not call the program, nor `with` of the same value.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the lock keeps other threads off, and `f` does not come back here.
        with_alloc_lock(|| f(unsafe { &mut *self.0.get() }))
    }
}

type LockedFunction = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

#[unsafe(no_mangle)]
pub extern "C" fn GC_call_with_alloc_lock(
    function: LockedFunction,
    data: *mut c_void,
) -> *mut c_void {
    // SAFETY: the program's function with the program's argument.
    with_alloc_lock(|| unsafe { function(data) })
}

/// There is one mode of the lock, which is as good as the reader's. What the function writes is
/// visible to whoever has the lock next, whether `release` asks for it or not.
#[unsafe(no_mangle)]
pub extern "C" fn GC_call_with_reader_lock(
    function: LockedFunction,
    data: *mut c_void,
    _release: c_int,
) -> *mut c_void {
    GC_call_with_alloc_lock(function, data)
}
