//! `GC_malloc` and its family: allocation, resizing, explicit deallocation, copies of strings.
//!
//! Invariant: `GC_malloc` does nothing but call the core, so that it is as quick as the core. A
//! wrong pointer is never freed: it ends the program with a message. Called from any thread.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{copy_nonoverlapping, null_mut};

use crate::core_api::{self as api, FreeError, Kind, functions::AtomicFunction};
use crate::failure::die;
use crate::kinds::disclaim;
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
    api::allocate(bytes, Kind::Uncollectable).cast()
}

/// Memory that lives until `GC_free` and is not scanned.
#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_atomic_uncollectable(bytes: usize) -> *mut c_void {
    api::allocate(bytes, Kind::UncollectableLeaf).cast()
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

fn set_errno(value: c_int) {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = value };
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
    if object.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's variable, says gc.h.
    unsafe { *result = object };
    0
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
    // SAFETY: gc.h asks that nobody uses the object afterwards; the core refuses what is no object.
    if let Err(error) = unsafe { api::free(object.cast()) } {
        die_of_pointer("GC_free", object, error);
    }
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
    // SAFETY: it is an object's start, and gc.h says that the old address is dead now.
    let resized: *mut c_void = unsafe { api::reallocate(object.cast(), bytes) }.cast();
    if let Some(kind) = asked_for {
        disclaim::watch_object(if resized.is_null() { object } else { resized }, kind);
    }
    resized
}

/// Copies `length` bytes and a NUL into what `allocate` gives.
pub fn copy_text(
    text: *const c_char,
    length: usize,
    allocate: impl FnOnce(usize) -> *mut c_void,
) -> *mut c_char {
    let copy: *mut c_char = match length.checked_add(1) {
        Some(bytes) => allocate(bytes).cast(),
        None => null_mut(),
    };
    if copy.is_null() {
        set_errno(libc::ENOMEM);
        return copy;
    }
    // SAFETY: `length` bytes are readable at `text`, and the copy has room for one more.
    unsafe {
        copy_nonoverlapping(text, copy, length);
        *copy.add(length) = 0;
    }
    copy
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_strdup(text: *const c_char) -> *mut c_char {
    if text.is_null() {
        return null_mut();
    }
    // SAFETY: a NUL-terminated text, says gc.h.
    copy_text(text, unsafe { libc::strlen(text) }, |bytes| GC_malloc_atomic(bytes))
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_strndup(text: *const c_char, limit: usize) -> *mut c_char {
    // SAFETY: readable up to a NUL or `limit` bytes, says gc.h.
    copy_text(text, unsafe { libc::strnlen(text, limit) }, |bytes| GC_malloc_atomic(bytes))
}
