//! `gc_disclaim.h`: a procedure per kind that is asked before an object of the kind is reclaimed.
//!
//! Each object of such a kind is registered with the core when it is allocated. Invariant:
//! procedures run after a collection, on the thread that caused it, with `GC_alloc_lock` held, on
//! objects that it found dead and that nobody has marked since. Objects allocated before the
//! procedure was registered are not asked for.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use crate::core_api::{self as api, disclaim, functions::AtomicFunction};
use crate::failure::{die, warn};
use crate::finalize::GC_finalization_proc;
use crate::kinds::{self, GC_generic_malloc, GC_new_kind};
use crate::lock;
use crate::variables::GC_find_leak;

type DisclaimProcedure = unsafe extern "C" fn(*mut c_void) -> c_int;

struct Asked {
    procedure: AtomicFunction<DisclaimProcedure>,
    /// Whether what an object reaches is kept until the object was asked for.
    mark_from_all: AtomicBool,
}

static KINDS: [Asked; 64] =
    [const { Asked { procedure: AtomicFunction::none(), mark_from_all: AtomicBool::new(false) } };
        64];
/// Whether any kind has a procedure, so that others do not pay for asking.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// A procedure is running: marks that are not there yet count as marks.
static ASKING: AtomicBool = AtomicBool::new(false);
/// Kind of `GC_finalized_malloc`, 0 until it is needed.
static FINALIZED_KIND: AtomicI32 = AtomicI32::new(0);

#[unsafe(no_mangle)]
pub extern "C" fn GC_register_disclaim_proc(
    kind: c_int,
    procedure: Option<DisclaimProcedure>,
    mark_from_all: c_int,
) {
    if !kinds::exists(kind) {
        die(format_args!("GC_register_disclaim_proc: there is no kind {kind}"));
    }
    if GC_find_leak.load(Relaxed) != 0 {
        return;
    }
    let asked = &KINDS[kind as usize];
    asked.mark_from_all.store(mark_from_all != 0, Relaxed);
    asked.procedure.set(procedure);
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
    let has_procedure = |asked: &&Asked| asked.procedure.is_set();
    if !object.is_null()
        && let Some(asked) = KINDS.get(kind as usize).filter(has_procedure)
        && disclaim::watch(object as usize, asked.mark_from_all.load(Relaxed), kind as usize)
            .is_err()
    {
        warn(
            c"Neap: no memory to watch object 0x%lx for its disclaim procedure\n".as_ptr(),
            object as usize,
        );
    }
    object
}

/// The object is about to be freed, or moved: its procedure is not asked. Gives its kind if it has
/// one.
#[inline]
pub fn forget(object: *mut c_void) -> Option<c_int> {
    if in_use() { disclaim::forget(object as usize).map(|kind| kind as c_int) } else { None }
}

/// The program marks an object: it is not asked for before it is found dead again.
#[inline]
pub fn keep(object: *const c_void) {
    if in_use() {
        disclaim::keep(object as usize);
    }
}

/// What is known of an object's mark beyond its bit: one that was found dead is not marked, though
/// it is still there, and while a procedure asks, what the next collection has not reached so far
/// is.
#[inline]
pub fn mark_of(object: *const c_void) -> Option<bool> {
    if in_use() { mark_of_slowly(object) } else { None }
}

#[cold]
fn mark_of_slowly(object: *const c_void) -> Option<bool> {
    if disclaim::is_found(object as usize) {
        return Some(false);
    }
    if !ASKING.load(Relaxed) || api::mark_bit(object as usize) {
        return None;
    }
    let marks_are_whole = api::hold_collections_if_idle();
    if marks_are_whole {
        api::release_collections();
    }
    (!marks_are_whole).then_some(true)
}

/// Asks for all that was found dead. After a collection.
pub fn ask_for_all() {
    while let Some(object) = disclaim::take() {
        lock::with_alloc_lock(|| ask(object));
        // It is here that the object was kept until now.
        core::hint::black_box(object);
    }
}

fn ask(object: usize) {
    // Nothing to ask where the program has marked, or freed it, since it was found.
    let Some(kind) = disclaim::ask(object) else { return };
    let Some(procedure) = KINDS[kind].procedure.get() else { return };
    let nested = ASKING.swap(true, Relaxed);
    // SAFETY: a procedure for objects of this kind, once after each time it was found unreachable.
    let keep = unsafe { procedure(object as *mut c_void) };
    ASKING.store(nested, Relaxed);
    if keep != 0 {
        disclaim::keep(object);
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
