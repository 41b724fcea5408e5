//! Mark procedures of the program, and the doors through which they mark.
//!
//! `mark_stack_ptr`, opaque in `gc_mark.h`, is the address of the core's tracer: procedures pass it
//! through unread. The `push` functions of root callbacks have no such argument, so the tracer of
//! the root phase is also in a global. Invariant: the global is null outside a root callback.
//! Procedures run with the world stopped or on a marker thread.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use crate::collections::{walk, world_stopped};
use crate::core_api::program_call::{self, Lost};
use crate::core_api::{self as api, Tracer, functions::AtomicFunction};
use crate::failure::die;
use crate::kinds::disclaim;

/// Bits of a procedure's index in a descriptor.
pub const LOG_MAX_MARK_PROCS: u32 = 6;
const MAX_MARK_PROCS: usize = 1 << LOG_MAX_MARK_PROCS;
/// Indices below are given out by agreement (`gc_mark.h`).
const RESERVED_MARK_PROCS: u32 = 8;
/// The reserved index of our own bitmaps longer than a descriptor (`descriptors.rs`).
pub const LONG_BITMAP_PROC: usize = 1;

pub type MarkProcedure =
    unsafe extern "C" fn(*mut usize, *mut c_void, *mut c_void, usize) -> *mut c_void;

static PROCEDURES: [AtomicFunction<MarkProcedure>; MAX_MARK_PROCS] =
    [const { AtomicFunction::none() }; MAX_MARK_PROCS];
static NEXT_PROCEDURE: AtomicU32 = AtomicU32::new(RESERVED_MARK_PROCS);

/// The thread that a procedure runs on, by its control block; 0: none does. They run on one thread
/// at a time, the one that drives the stop, which writes it.
static RUNS_ON: AtomicUsize = AtomicUsize::new(0);

/// [`exist`].
static EXIST: AtomicBool = AtomicBool::new(false);

/// Whether the program has mark procedures.
#[cfg(not(test))]
pub fn exist() -> bool {
    EXIST.load(Relaxed)
}

/// Whether the caller is a mark procedure.
#[cfg(not(test))]
pub fn one_runs_here() -> bool {
    // SAFETY: has no conditions.
    RUNS_ON.load(Relaxed) == unsafe { libc::pthread_self() } as usize
}

/// Gives the procedure's index.
#[unsafe(no_mangle)]
pub extern "C" fn GC_new_proc(procedure: Option<MarkProcedure>) -> u32 {
    let index = NEXT_PROCEDURE.fetch_add(1, Relaxed);
    if index as usize >= MAX_MARK_PROCS {
        die(format_args!(
            "GC_new_proc: more than {} mark procedures; use the environment argument of \
             GC_MAKE_PROC to share one",
            MAX_MARK_PROCS - RESERVED_MARK_PROCS as usize
        ));
    }
    set_procedure(index as usize, procedure);
    index
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_new_proc_inner(procedure: Option<MarkProcedure>) -> u32 {
    GC_new_proc(procedure)
}

/// Installs a procedure under an index that the program chose.
pub fn set_procedure(index: usize, procedure: Option<MarkProcedure>) {
    EXIST.store(true, Relaxed);
    PROCEDURES[index].set(procedure);
}

/// Calls procedure `index` on an object; without one, scans the object conservatively, which
/// `gc_mark.h` says is always right.
///
/// # Safety
/// `object` is an object of `bytes` bytes that may be traced now.
pub unsafe fn call(
    index: usize,
    object: usize,
    bytes: usize,
    environment: usize,
    tracer: &mut Tracer<'_>,
) {
    let Some(procedure) = PROCEDURES[index].get() else {
        // SAFETY: the object's own extent.
        unsafe { tracer.range(object, object + bytes) };
        return;
    };
    let stack: *mut c_void = (&raw mut *tracer).cast();
    // The limit only has to look as if there were room: procedures may compare, and never store.
    let limit = stack.wrapping_byte_add(1 << 20);
    // SAFETY: the procedure was made for objects with this descriptor; the tracer outlives the
    // call.
    unsafe {
        let words = [object, stack as usize, limit as usize, environment];
        RUNS_ON.store(libc::pthread_self() as usize, Relaxed);
        program_call::call("mark procedure", Lost::Roots, procedure as usize, words)
    };
    RUNS_ON.store(0, Relaxed);
}

/// Marks the object that `word` points to, from a mark procedure.
#[unsafe(no_mangle)]
pub extern "C" fn GC_mark_and_push(
    word: *mut c_void,
    stack: *mut c_void,
    _limit: *mut c_void,
    _source: *mut *mut c_void,
) -> *mut c_void {
    // SAFETY: `stack` is what `call` handed to the procedure, and its tracer is used by nobody else
    // meanwhile.
    unsafe { (*stack.cast::<Tracer<'_>>()).word(word as usize) };
    stack
}

/// The tracer of the root phase, null outside.
static ROOT_TRACER: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Runs `f`, in which the `push` functions reach `tracer`.
pub fn with_root_tracer(tracer: &mut Tracer<'_>, f: impl FnOnce()) {
    ROOT_TRACER.store((&raw mut *tracer).cast(), Relaxed);
    f();
    ROOT_TRACER.store(null_mut(), Relaxed);
}

/// Runs `f` on the tracer of the root phase, if it is the root phase.
pub fn on_root_tracer<R>(f: impl FnOnce(&mut Tracer<'_>) -> R) -> Option<R> {
    let tracer = ROOT_TRACER.load(Relaxed);
    // SAFETY: non-null only during `with_root_tracer`, on the one thread that runs root callbacks,
    // and `f` does not nest.
    (!tracer.is_null()).then(|| f(unsafe { &mut *tracer.cast::<Tracer<'_>>() }))
}

/// Scans a range as a root. Means something in a root callback only; there are no roots to add to
/// at other times.
#[unsafe(no_mangle)]
pub extern "C" fn GC_push_all(bottom: *mut c_void, top: *mut c_void) {
    const WORD: usize = size_of::<usize>();
    let low = (bottom as usize).next_multiple_of(WORD);
    let high = top as usize / WORD * WORD;
    if low < high {
        // SAFETY: the callback names a range that is readable.
        on_root_tracer(|tracer| unsafe { tracer.range(low, high) });
    }
}

/// Scanned at once or a little later makes no difference: the world is stopped.
#[unsafe(no_mangle)]
pub extern "C" fn GC_push_all_eager(bottom: *mut c_void, top: *mut c_void) {
    GC_push_all(bottom, top);
}

/// Pages that were not written are scanned too: a full cycle needs all.
#[unsafe(no_mangle)]
pub extern "C" fn GC_push_conditional(bottom: *mut c_void, top: *mut c_void, _all: c_int) {
    GC_push_all(bottom, top);
}

/// The core marks what finalizers keep; a root callback need not.
#[unsafe(no_mangle)]
pub extern "C" fn GC_push_finalizer_structures() {}

/// In a root callback, what that callback marks itself may not show yet. While a collection runs
/// beside the program nothing is known to be dead, but for who is called in it.
#[unsafe(no_mangle)]
pub extern "C" fn GC_is_marked(object: *const c_void) -> c_int {
    on_root_tracer(|tracer| tracer.is_marked(object as usize))
        .or_else(|| disclaim::mark_of(object))
        .unwrap_or_else(|| {
            let before = walk::takes_unmarked();
            api::mark_bit(object as usize)
                || (before || walk::takes_unmarked()) && api::object_at(object as usize).is_some()
        })
        .into()
}

/// In a root callback also marks what the object reaches: more than asked, never less. With the
/// world running the bit stays as it is, for a marker would take the object for one that
/// was scanned: who names it has it on its stack, which keeps it, and what was found dead and is
/// not asked for yet is not asked for.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_mark_bit(object: *const c_void) {
    if on_root_tracer(|tracer| tracer.word(object as usize)).is_some() {
        return;
    }
    disclaim::keep(object);
    if world_stopped::get() {
        api::set_mark_bit(object as usize, true);
    }
}

/// In a root callback does nothing: there everything that is marked is reachable.
#[unsafe(no_mangle)]
pub extern "C" fn GC_clear_mark_bit(object: *const c_void) {
    if ROOT_TRACER.load(Relaxed).is_null() {
        api::set_mark_bit(object as usize, false);
    }
}
