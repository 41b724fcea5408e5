//! Marking by descriptor, and what the program has to say when nothing is left to mark.
//!
//! Invariant: all of this runs where a tracer is: in a root procedure, a mark procedure, or the
//! function that is asked when the mark stack is empty. There is no mark stack; what is pushed is
//! marked through the tracer, at once. World stopped.

use core::ffi::c_void;

use crate::core_api::program_call::{self, Lost};
use crate::core_api::{self as api, Tracer, embedding, functions::AtomicFunction};
use crate::kinds::descriptors::{self, TAG_PROC, TAGS};
use crate::kinds::mark_procs::{on_root_tracer, with_root_tracer};

/// Has the tracer scan an object as a descriptor says.
fn push(object: *mut c_void, descriptor: usize, tracer: &mut Tracer<'_>) {
    let start = object as usize;
    let bytes = match api::object_at(start) {
        Some(info) => info.start.as_ptr() as usize + info.bytes - start,
        // A procedure that is not there any more would have all of this scanned.
        None if descriptor & TAGS == TAG_PROC => 0,
        // Something of the program's own, which the descriptor knows the length of.
        None => isize::MAX as usize - start,
    };
    // SAFETY: the program's promise: the descriptor is the object's, and it may be read now.
    unsafe { descriptors::scan(start, bytes, descriptor, tracer) };
}

/// Means something where `GC_push_all` does.
#[unsafe(no_mangle)]
pub extern "C" fn GC_push_obj_descr(object: *mut c_void, descriptor: usize) {
    on_root_tracer(|tracer| push(object, descriptor, tracer));
}

/// The same in a mark procedure.
#[unsafe(no_mangle)]
pub extern "C" fn GC_ms_push_obj_descr(
    object: *mut c_void,
    descriptor: usize,
    stack: *mut c_void,
    _limit: *mut c_void,
) -> *mut c_void {
    // SAFETY: `stack` is what the procedure was given: a tracer that nobody else uses meanwhile.
    push(object, descriptor, unsafe { &mut *stack.cast::<Tracer<'_>>() });
    stack
}

/// Scans a range, in a mark procedure.
#[unsafe(no_mangle)]
pub extern "C" fn GC_ms_push_all(
    bottom: *mut c_void,
    top: *mut c_void,
    stack: *mut c_void,
    _limit: *mut c_void,
) -> *mut c_void {
    const WORD: usize = size_of::<usize>();
    let low = (bottom as usize).next_multiple_of(WORD);
    let high = top as usize / WORD * WORD;
    if low < high {
        // SAFETY: as above, and the procedure names a range that is readable.
        unsafe { (*stack.cast::<Tracer<'_>>()).range(low, high) };
    }
    stack
}

type EmptyFunction = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void;
static WHEN_EMPTY: AtomicFunction<EmptyFunction> = AtomicFunction::none();

/// The function is asked in the last stop of a collection when all that is reachable is marked, and
/// again as long as it marks something.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_on_mark_stack_empty(function: Option<EmptyFunction>) {
    WHEN_EMPTY.set(function);
    embedding::set_when_marked(function.map(|_| ask as embedding::RootCallback));
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_on_mark_stack_empty() -> Option<EmptyFunction> {
    WHEN_EMPTY.get()
}

/// Whether there is one.
pub fn has_callback() -> bool {
    WHEN_EMPTY.is_set()
}

/// The core's callback. The `push` functions without a stack reach the tracer too.
unsafe extern "C" fn ask(tracer: &mut Tracer<'_>) {
    let Some(function) = WHEN_EMPTY.get() else { return };
    let stack: *mut c_void = (&raw mut *tracer).cast();
    // The limit only has to look as if there were room, as for mark procedures.
    let limit = stack.wrapping_byte_add(1 << 20);
    let words = [stack as usize, limit as usize, 0, 0];
    let what = "function for an empty mark stack";
    with_root_tracer(tracer, || {
        // SAFETY: the program's, for this; the tracer outlives the call.
        unsafe { program_call::call(what, Lost::Roots, function as usize, words) };
    });
}
