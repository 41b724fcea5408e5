//! `GC_malloc` and its family: allocation, resizing, explicit deallocation.
//!
//! Invariant: `GC_malloc` does nothing but call the core, so that it is as quick as the core. A
//! wrong pointer is never freed: it ends the program with a message. Called from any thread.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use crate::collections::freed;
use crate::core_api::{self as api, FreeError, Kind, functions::AtomicFunction};
use crate::failure::die;
use crate::kinds::{cleared, disclaim};
use crate::settings::variables::{callback_accessors, variables};

/// Zeroed memory that is scanned for pointers.
#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc(bytes: usize) -> *mut c_void {
    api::allocate(bytes, Kind::Conservative).cast()
}

/// Memory that is not scanned, and not zeroed.
#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_atomic(bytes: usize) -> *mut c_void {
    api::allocate(bytes, Kind::Leaf).cast()
}

/// Zeroed memory that lives until `GC_free` and is scanned.
#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_uncollectable(bytes: usize) -> *mut c_void {
    freed::note_uncollectable(api::allocate(bytes, Kind::Uncollectable).cast())
}

/// Memory that lives until `GC_free` and is not scanned.
#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_atomic_uncollectable(bytes: usize) -> *mut c_void {
    freed::note_uncollectable(api::allocate(bytes, Kind::UncollectableLeaf).cast())
}

/// The promise that a pointer to the beginning is kept is not needed here: all interior pointers
/// count.
#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_ignore_off_page(bytes: usize) -> *mut c_void {
    GC_malloc(bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_atomic_ignore_off_page(bytes: usize) -> *mut c_void {
    GC_malloc_atomic(bytes)
}

/// Stubborn objects are ordinary ones since long.
#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_stubborn(bytes: usize) -> *mut c_void {
    GC_malloc(bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_change_stubborn(_object: *const c_void) {}

type OutOfMemoryFunction = extern "C" fn(usize) -> *mut c_void;

variables! {
    GC_oom_fn: AtomicFunction<OutOfMemoryFunction> = AtomicFunction::new(return_null);
}

callback_accessors! {
    GC_set_oom_fn, GC_get_oom_fn: OutOfMemoryFunction => GC_oom_fn;
}

/// What `GC_oom_fn` is at first.
pub extern "C" fn return_null(_bytes: usize) -> *mut c_void {
    null_mut()
}

/// The core's out-of-memory callback: the program's function, or null.
pub unsafe extern "C" fn out_of_memory(bytes: usize) -> *mut c_void {
    GC_oom_fn.get().map_or(null_mut(), |function| function(bytes))
}

/// `alignment`: a power of two up to 4096; the collector gives larger ones up as out of memory, as
/// Boehm's does.
#[unsafe(no_mangle)]
pub extern "C" fn GC_memalign(alignment: usize, bytes: usize) -> *mut c_void {
    if !alignment.is_power_of_two() || alignment > 4096 {
        // SAFETY: as the core would call it.
        return unsafe { out_of_memory(bytes) };
    }
    api::allocate_aligned(bytes, alignment, Kind::Conservative).cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_posix_memalign(
    result: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return libc::EINVAL;
    }
    let object = GC_memalign(alignment, bytes);
    // SAFETY: the caller's variable, says gc.h. libgc writes null there too.
    unsafe { *result = object };
    if object.is_null() { libc::ENOMEM } else { 0 }
}

fn page_bytes() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// At the start of a page.
#[unsafe(no_mangle)]
pub extern "C" fn GC_valloc(bytes: usize) -> *mut c_void {
    GC_memalign(page_bytes(), bytes)
}

/// At the start of a page, and whole pages, one at least.
#[unsafe(no_mangle)]
pub extern "C" fn GC_pvalloc(bytes: usize) -> *mut c_void {
    match bytes.max(1).checked_next_multiple_of(page_bytes()) {
        Some(pages) => GC_memalign(page_bytes(), pages),
        // SAFETY: as the core would call it.
        None => unsafe { out_of_memory(bytes) },
    }
}

/// Whether objects have no byte more than was asked for (`NEAP_PAST_END=0`).
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_dont_add_byte_at_end() -> c_int {
    (!api::embedding::keeps_past_end()).into()
}

/// Ends the program: it gave a pointer back that it may not.
pub fn die_of_pointer(function: &str, pointer: *const c_void, error: FreeError) -> ! {
    let (what, advice) = match error {
        FreeError::NotInHeap => {
            ("not memory of this collector", "free it with the allocator that it came from")
        }
        FreeError::NotAnObjectStart => {
            ("not the start of an object", "pass the pointer that the allocation returned")
        }
        FreeError::AlreadyFree => {
            ("no live object (freed twice?)", "free each object once, or leave it to the collector")
        }
    };
    die(format_args!("{function}({pointer:p}): {what}; {advice}"))
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_free(object: *mut c_void) {
    if object.is_null() {
        return;
    }
    disclaim::forget(object);
    let uncollectable = freed::uncollectable_bytes(object);
    // SAFETY: gc.h asks that nobody uses the object afterwards; the core refuses what is no object.
    match unsafe { api::free(object.cast()) } {
        Ok(_) => {}
        Err(error) => die_of_pointer("GC_free", object, error),
    }
    freed::forget_uncollectable(uncollectable);
}

/// Why `object` is not an object that may be resized, if it is not.
fn check_start(object: *const c_void) -> Result<(), FreeError> {
    match api::object_at(object as usize) {
        Some(info) if info.start.as_ptr().cast_const().cast() == object => Ok(()),
        Some(_) => Err(FreeError::NotAnObjectStart),
        None if api::is_heap_address(object as usize) => Err(FreeError::AlreadyFree),
        None => Err(FreeError::NotInHeap),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_realloc(object: *mut c_void, bytes: usize) -> *mut c_void {
    if object.is_null() {
        return GC_malloc(bytes);
    }
    if bytes == 0 {
        GC_free(object);
        return null_mut();
    }
    if let Err(error) = check_start(object) {
        die_of_pointer("GC_realloc", object, error);
    }
    let asked_for = disclaim::forget(object);
    let uncollectable = freed::uncollectable_bytes(object);
    // SAFETY: it is an object's start, and gc.h says that the old address is dead now.
    let resized = unsafe { cleared::reallocate(object, bytes) };
    if uncollectable != 0 && !resized.is_null() {
        freed::note_uncollectable(resized);
        freed::forget_uncollectable(uncollectable);
    }
    if let Some(kind) = asked_for {
        disclaim::watch_object(if resized.is_null() { object } else { resized }, kind);
    }
    resized
}

/// As `GC_realloc`, but an object for which there is no memory is freed.
#[unsafe(no_mangle)]
pub extern "C" fn GC_reallocf(object: *mut c_void, bytes: usize) -> *mut c_void {
    let resized = GC_realloc(object, bytes);
    if resized.is_null() && bytes != 0 {
        GC_free(object);
    }
    resized
}

/// Clears the object's first `bytes` bytes, all of it where it has no more, and frees it.
#[unsafe(no_mangle)]
pub extern "C" fn GC_freezero(object: *mut c_void, bytes: usize) {
    if object.is_null() {
        return;
    }
    if let Err(error) = check_start(object) {
        die_of_pointer("GC_freezero", object, error);
    }
    let all = api::object_at(object as usize).map_or(0, |info| info.bytes);
    // SAFETY: no more than the object has, and gc.h asks that nobody uses it any more.
    unsafe { object.cast::<u8>().write_bytes(0, bytes.min(all)) };
    GC_free(object);
}
