//! What the program frees itself, as `gc.h` counts it, and the bytes of objects that are never
//! collected (`GC_non_gc_bytes`).
//!
//! Invariant: `since_collection` falls back to 0 only when the program is told of a collection's
//! end, not while one runs beside it. Called from any thread.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::core_api::{self as api, Kind};
use crate::settings::variables::GC_non_gc_bytes;

/// Bytes that the program says it took back, beside the objects that it freed.
static TAKEN_BACK: AtomicUsize = AtomicUsize::new(0);
/// Bytes freed before the last collection that the program was told of.
static FREED_BEFORE: AtomicUsize = AtomicUsize::new(0);
/// There has been an object that is never collected: from then on frees are looked at for them.
static ANY_UNCOLLECTABLE: AtomicBool = AtomicBool::new(false);

/// The program took back so many bytes of what it had handed out itself.
pub fn note_taken_back(bytes: usize) {
    TAKEN_BACK.fetch_add(bytes, Relaxed);
}

/// Bytes freed so far.
fn freed() -> usize {
    TAKEN_BACK.load(Relaxed).wrapping_add(api::freed_bytes() as usize)
}

/// Bytes freed since the program was told of a collection's end.
pub fn since_collection() -> usize {
    freed().wrapping_sub(FREED_BEFORE.load(Relaxed))
}

/// The program is told that a collection is over.
pub fn after_collection() {
    FREED_BEFORE.store(freed(), Relaxed);
}

/// An object that is never collected was made, or null.
pub fn note_uncollectable(object: *mut c_void) -> *mut c_void {
    if let Some(info) = api::object_at(object as usize) {
        ANY_UNCOLLECTABLE.store(true, Relaxed);
        GC_non_gc_bytes.fetch_add(info.bytes, Relaxed);
    }
    object
}

/// The bytes of the object if it is never collected, otherwise 0. To be asked before it is freed.
#[inline]
pub fn uncollectable_bytes(object: *mut c_void) -> usize {
    if !ANY_UNCOLLECTABLE.load(Relaxed) {
        return 0;
    }
    match api::object_at(object as usize) {
        Some(info) if matches!(info.kind, Kind::Uncollectable | Kind::UncollectableLeaf) => {
            info.bytes
        }
        _ => 0,
    }
}

/// Objects that are never collected have become fewer by so many bytes.
#[inline]
pub fn forget_uncollectable(bytes: usize) {
    if bytes != 0 {
        GC_non_gc_bytes.fetch_sub(bytes, Relaxed);
    }
}
