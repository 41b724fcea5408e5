//! `gc_disclaim.h`: kinds with a procedure, and objects with a closure that finalizes them.
//!
//! Invariant: the closure of an object is in the word before it since before the program was given
//! the object. Called by the program, on any thread.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, Ordering::*};

use crate::failure::die;
use crate::kinds::disclaim::{self, DisclaimProcedure};
use crate::kinds::kind::{self, GC_generic_malloc, GC_new_kind};
use crate::lock;
use crate::references::finalize::GC_finalization_proc;
use crate::settings::variables::GC_find_leak;

/// Kind of `GC_finalized_malloc`, 0 until it is needed.
static FINALIZED_KIND: AtomicI32 = AtomicI32::new(0);

#[unsafe(no_mangle)]
pub extern "C" fn GC_register_disclaim_proc(
    kind: c_int,
    procedure: Option<DisclaimProcedure>,
    mark_from_all: c_int,
) {
    if !kind::exists(kind) {
        die(format_args!("GC_register_disclaim_proc: there is no kind {kind}"));
    }
    if GC_find_leak.load(Relaxed) == 0 {
        disclaim::set_procedure(kind as usize, procedure, mark_from_all != 0);
    }
}

/// What `GC_finalized_malloc` is given: a procedure and its argument.
#[repr(C)]
pub struct GC_finalizer_closure {
    procedure: Option<GC_finalization_proc>,
    data: *mut c_void,
}

/// The kind of objects with a closure in the word before them.
#[unsafe(no_mangle)]
pub extern "C" fn GC_init_finalized_malloc() {
    lock::with_alloc_lock(|| {
        if FINALIZED_KIND.load(Acquire) == 0 {
            let kind = GC_new_kind(null_mut(), 0, 1, 1) as c_int;
            GC_register_disclaim_proc(kind, Some(run_closure), 1);
            FINALIZED_KIND.store(kind, Release);
        }
    });
}

/// Runs the closure of an object of `GC_finalized_malloc`.
unsafe extern "C" fn run_closure(base: *mut c_void) -> c_int {
    // SAFETY: the first word holds the closure since before the object was given out.
    let closure = unsafe { *base.cast::<*const GC_finalizer_closure>() };
    // SAFETY: closures outlive their objects, says gc_disclaim.h; null where allocation was not
    // finished.
    if let Some(closure) = unsafe { closure.as_ref() }
        && let Some(procedure) = closure.procedure
    {
        // SAFETY: the program's finalizer, once for its object.
        unsafe { procedure(base.wrapping_byte_add(size_of::<usize>()), closure.data) };
    }
    0
}

/// An object that is finalized by a closure, which `GC_base` of it holds in its first word.
#[unsafe(no_mangle)]
pub extern "C" fn GC_finalized_malloc(
    bytes: usize,
    closure: *const GC_finalizer_closure,
) -> *mut c_void {
    let kind = FINALIZED_KIND.load(Acquire);
    if kind == 0 {
        die(format_args!("GC_finalized_malloc: call GC_init_finalized_malloc first"));
    }
    let Some(total) = bytes.checked_add(size_of::<usize>()) else {
        return kind::no_memory(bytes);
    };
    let base = GC_generic_malloc(total, kind);
    if base.is_null() {
        return base;
    }
    // SAFETY: the object has a first word, which no finalizer reads before this frame lets the
    // object go.
    unsafe { base.cast::<*const GC_finalizer_closure>().write_volatile(closure) };
    base.wrapping_byte_add(size_of::<usize>())
}
