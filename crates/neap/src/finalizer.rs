//! The end of objects: the destructor of a value runs on a thread of the collector after the object
//! has become unreachable.
//!
//! Invariant: a destructor runs once, when nothing that the program can get at leads to the object
//! any more, and what the object leads to is still there. It follows no `Gc`, as every type says
//! that is [`Trace`](crate::Trace), so the order does not matter. A panic in one goes no further.
//! Registered by any thread; run by the collector's threads, or by who calls [`run_finalizers`].
//!
//! # Safety
//!
//! A function that the core calls with the words that it was registered with: the address of a
//! value, and for slices their length. After that nobody uses the value.

#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};
use std::sync::Once;

use neap_core::api::finalizer;
use neap_core::api::{self, Finalizer, Order};

static START: Once = Once::new();

/// In a forked child nobody runs what was waiting until somebody registers more, or here.
unsafe extern "C" fn after_cycle() {
    finalizer::start_if_needed();
}

/// Has the object's value dropped when it has died, if that does anything. Under miri nothing dies.
#[inline]
pub fn register<T>(object: NonNull<T>) {
    if needs_drop::<T>() && !cfg!(miri) {
        set(object.cast(), drop_one::<T>, null_mut(), Layout::new::<T>());
    }
}

/// The same for so many values side by side.
pub fn register_slice<T>(first: NonNull<T>, length: usize) {
    if needs_drop::<T>() && length > 0 && !cfg!(miri) {
        let data = std::ptr::without_provenance_mut(length);
        set(first.cast(), drop_slice::<T>, data, Layout::new::<T>());
    }
}

type Function = unsafe extern "C" fn(*mut c_void, *mut c_void);

fn set(object: NonNull<u8>, function: Function, data: *mut c_void, layout: Layout) {
    START.call_once(|| {
        finalizer::set_automatic(true);
        api::set_after_cycle(Some(after_cycle));
    });
    let new = Finalizer { function, data, order: Order::NoOrder };
    if finalizer::set(object.as_ptr().addr(), Some(new)).is_err() {
        handle_alloc_error(layout);
    }
}

unsafe extern "C" fn drop_one<T>(object: *mut c_void, _: *mut c_void) {
    // SAFETY: the value of a dead object.
    contained(|| unsafe { object.cast::<T>().drop_in_place() });
}

unsafe extern "C" fn drop_slice<T>(first: *mut c_void, length: *mut c_void) {
    let slice = slice_from_raw_parts_mut(first.cast::<T>(), length.addr());
    // SAFETY: the values of a dead object.
    contained(|| unsafe { slice.drop_in_place() });
}

/// The panic's hook has told of it. What it was thrown with may panic when it is dropped.
fn contained(drop: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(drop)) {
        std::mem::forget(payload);
    }
}

/// Returns when every destructor has run whose object was found dead before the call.
///
/// ```
/// use neap::{Gc, Trace};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// static DROPPED: AtomicUsize = AtomicUsize::new(0);
///
/// #[derive(Trace)]
/// #[trace(drop)]
/// struct Counted;
/// impl Drop for Counted {
///     fn drop(&mut self) {
///         DROPPED.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// for _ in 0..1000 {
///     Gc::new(Counted);
/// }
/// neap::collect();
/// neap::run_finalizers();
/// // A stale word on the stack may keep a few.
/// assert!(DROPPED.load(Ordering::Relaxed) > 900);
/// ```
pub fn run_finalizers() {
    api::initialize();
    finalizer::run_all_found();
}
