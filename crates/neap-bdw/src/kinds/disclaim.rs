//! A procedure per kind that is asked before an object of the kind is reclaimed.
//!
//! Each object of such a kind is registered with the core when it is allocated. Invariant:
//! procedures run after a collection, on the thread that caused it, with `GC_alloc_lock` held, on
//! objects that it found dead and that nobody has marked since. Objects allocated before the
//! procedure was registered are not asked for.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::*};

use crate::core_api::program_call::{self, Lost};
use crate::core_api::{disclaim, functions::AtomicFunction};
use crate::failure::warn;
use crate::lock;

/// Asked about an object; what is not 0 keeps it.
pub type DisclaimProcedure = unsafe extern "C" fn(*mut c_void) -> c_int;

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
/// The objects of a kind are asked for from now on.
pub fn set_procedure(kind: usize, procedure: Option<DisclaimProcedure>, mark_from_all: bool) {
    let asked = &KINDS[kind];
    asked.mark_from_all.store(mark_from_all, Relaxed);
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
            c"neap: no memory to watch object 0x%lx for its disclaim procedure\n".as_ptr(),
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
/// it is still there.
#[inline]
pub fn mark_of(object: *const c_void) -> Option<bool> {
    (in_use() && disclaim::is_found(object as usize)).then_some(false)
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
    // SAFETY: a procedure for objects of this kind, once after each time it was found unreachable.
    let keep = unsafe {
        let words = [object, 0, 0, 0];
        program_call::call("disclaim procedure", Lost::Nothing, procedure as usize, words)
    };
    if keep.is_none_or(|keep| keep as c_int != 0) {
        disclaim::keep(object);
    }
}
