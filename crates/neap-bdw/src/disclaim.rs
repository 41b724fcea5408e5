//! `gc_disclaim.h`: a procedure per kind that is asked before an object of the kind is reclaimed.
//!
//! Each object of such a kind gets an unordered finalizer when it is allocated, so what the procedure reaches is alive; a procedure that
//! refuses gets its object registered again. Invariant: procedures run with `GC_alloc_lock` held, and on an object that
//! nothing but finalizers reached. Objects allocated before the procedure was registered are not asked for.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use crate::core_api::{
    finalizer::{self, Finalizer, Order},
    functions::AtomicFunction,
};
use crate::failure::{die, warn};
use crate::finalize::GC_finalization_proc;
use crate::kinds::{self, GC_generic_malloc, GC_new_kind};
use crate::lock;

type DisclaimProcedure = unsafe extern "C" fn(*mut c_void) -> c_int;

static PROCEDURES: [AtomicFunction<DisclaimProcedure>; 64] = [const { AtomicFunction::none() }; 64];
/// Whether any kind has a procedure, so that others do not pay for asking.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// Kind of `GC_finalized_malloc`, 0 until it is needed.
static FINALIZED_KIND: AtomicI32 = AtomicI32::new(0);

/// `mark_from_all` asks that what the procedure reaches be alive: here it always is.
#[unsafe(no_mangle)]
pub extern "C" fn GC_register_disclaim_proc(
    kind: c_int,
    procedure: Option<DisclaimProcedure>,
    _mark_from_all: c_int,
) {
    if !kinds::exists(kind) {
        die(format_args!("GC_register_disclaim_proc: there is no kind {kind}"));
    }
    PROCEDURES[kind as usize].set(procedure);
    IN_USE.store(true, Release);
}

/// Whether any kind has a procedure.
#[inline]
pub fn in_use() -> bool {
    IN_USE.load(Relaxed)
}

/// Registers a new object with its kind's procedure, if it has one.
#[inline]
pub fn watch_object(object: *mut c_void, kind: c_int) -> *mut c_void {
    if in_use() { watch_object_slowly(object, kind) } else { object }
}

#[cold]
fn watch_object_slowly(object: *mut c_void, kind: c_int) -> *mut c_void {
    let has_procedure = PROCEDURES.get(kind as usize).is_some_and(AtomicFunction::is_set);
    if !object.is_null() && has_procedure {
        register(object, kind);
    }
    object
}

fn register(object: *mut c_void, kind: c_int) {
    let finalizer =
        Finalizer { function: ask, data: kind as usize as *mut c_void, order: Order::NoOrder };
    if finalizer::set(object as usize, Some(finalizer)).is_err() {
        warn(
            c"Neap: no memory to watch object 0x%lx for its disclaim procedure\n".as_ptr(),
            object as usize,
        );
    }
}

/// Asks the procedure of the object's kind whether the object may go.
unsafe extern "C" fn ask(object: *mut c_void, kind: *mut c_void) {
    let kind = kind as usize;
    let Some(procedure) = PROCEDURES[kind].get() else { return };
    // SAFETY: a procedure for objects of this kind, once after each time it was found unreachable.
    let keep = lock::with_alloc_lock(|| unsafe { procedure(object) });
    if keep != 0 {
        register(object, kind as c_int);
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
    // SAFETY: closures outlive their objects, says gc_disclaim.h; null where allocation was not finished.
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
        return kinds::no_memory(bytes);
    };
    let base = GC_generic_malloc(total, kind);
    if base.is_null() {
        return base;
    }
    // SAFETY: the object has a first word, which no finalizer reads before this frame lets the object go.
    unsafe { base.cast::<*const GC_finalizer_closure>().write_volatile(closure) };
    base.wrapping_byte_add(size_of::<usize>())
}
