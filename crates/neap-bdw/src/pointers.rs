//! Questions about pointers, and the checking pointer arithmetic of `gc.h`.
//!
//! Invariant: nothing is changed; `GC_base`, `GC_size` and `GC_is_heap_ptr` may be called in mark
//! procedures, world stopped. Called from any thread.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use crate::core_api::{self as api, functions::AtomicFunction};
use crate::failure::die;
use crate::settings::variables::{callback_accessors, variables};

type PrintPointer = extern "C" fn(*mut c_void);
type PrintTwoPointers = extern "C" fn(*mut c_void, *mut c_void);

variables! {
    GC_same_obj_print_proc: AtomicFunction<PrintTwoPointers> =
        AtomicFunction::new(die_not_same_object);
    GC_is_valid_displacement_print_proc: AtomicFunction<PrintPointer> =
        AtomicFunction::new(die_of_displacement);
    GC_is_visible_print_proc: AtomicFunction<PrintPointer> = AtomicFunction::new(die_of_invisible);
}

callback_accessors! {
    GC_set_same_obj_print_proc, GC_get_same_obj_print_proc:
        PrintTwoPointers => GC_same_obj_print_proc;
    GC_set_is_valid_displacement_print_proc, GC_get_is_valid_displacement_print_proc:
        PrintPointer => GC_is_valid_displacement_print_proc;
    GC_set_is_visible_print_proc, GC_get_is_visible_print_proc:
        PrintPointer => GC_is_visible_print_proc;
}

/// Start of the object that the pointer lies in, null outside.
#[unsafe(no_mangle)]
pub extern "C" fn GC_base(pointer: *mut c_void) -> *mut c_void {
    api::object_at(pointer as usize).map_or(null_mut(), |info| info.start.as_ptr().cast())
}

/// The same for a pointer to what is not to be changed.
#[unsafe(no_mangle)]
pub extern "C" fn GC_base_C(pointer: *const c_void) -> *const c_void {
    GC_base(pointer.cast_mut())
}

/// Bytes of the object, from its start to its end; 0 for what is none.
#[unsafe(no_mangle)]
pub extern "C" fn GC_size(object: *const c_void) -> usize {
    api::object_at(object as usize).map_or(0, |info| info.bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_is_heap_ptr(pointer: *const c_void) -> c_int {
    api::is_heap_address(pointer as usize).into()
}

/// All displacements are valid.
#[unsafe(no_mangle)]
pub extern "C" fn GC_register_displacement(_displacement: usize) {}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_register_displacement(_displacement: usize) {}

/// All displacements are valid: gives the pointer back.
#[unsafe(no_mangle)]
pub extern "C" fn GC_is_valid_displacement(pointer: *mut c_void) -> *mut c_void {
    pointer
}

/// All of stacks, registers and data is visible: gives the pointer back.
#[unsafe(no_mangle)]
pub extern "C" fn GC_is_visible(pointer: *mut c_void) -> *mut c_void {
    pointer
}

/// Checks that both pointers lie in one object (or both in none) and gives the first.
#[unsafe(no_mangle)]
pub extern "C" fn GC_same_obj(pointer: *mut c_void, other: *mut c_void) -> *mut c_void {
    let start = |pointer: *mut c_void| api::object_at(pointer as usize).map(|info| info.start);
    let expected = start(other);
    // One past the end of the other's object is as good.
    let at_end = expected.is_some() && start(pointer.wrapping_byte_sub(1)) == expected;
    if start(pointer) != expected
        && !at_end
        && let Some(callback) = GC_same_obj_print_proc.get()
    {
        callback(pointer, other);
    }
    pointer
}

pub extern "C" fn die_not_same_object(pointer: *mut c_void, other: *mut c_void) {
    die(format_args!("GC_same_obj: {pointer:p} and {other:p} are not in the same object"))
}

pub extern "C" fn die_of_displacement(pointer: *mut c_void) {
    die(format_args!("GC_is_valid_displacement: {pointer:p} has no valid displacement"))
}

pub extern "C" fn die_of_invisible(pointer: *mut c_void) {
    die(format_args!("GC_is_visible: {pointer:p} is not visible to the collector"))
}

/// Adds to the pointer variable, checks, and gives the new value.
#[unsafe(no_mangle)]
pub extern "C" fn GC_pre_incr(variable: *mut *mut c_void, bytes: isize) -> *mut c_void {
    // SAFETY: a pointer variable of the caller, says gc.h.
    unsafe {
        let old = *variable;
        *variable = GC_same_obj(old.wrapping_byte_offset(bytes), old);
        *variable
    }
}

/// Adds to the pointer variable, checks, and gives the old value.
#[unsafe(no_mangle)]
pub extern "C" fn GC_post_incr(variable: *mut *mut c_void, bytes: isize) -> *mut c_void {
    // SAFETY: a pointer variable of the caller, says gc.h.
    unsafe {
        let old = *variable;
        *variable = GC_same_obj(old.wrapping_byte_offset(bytes), old);
        old
    }
}

/// Does nothing with its argument, which so stays reachable up to the call.
#[unsafe(no_mangle)]
pub extern "C" fn GC_noop1(word: usize) {
    core::hint::black_box(word);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_noop1_ptr(pointer: *mut c_void) {
    core::hint::black_box(pointer);
}

/// Words are looked up as they are, as in a libgc that was not built for anything else: there, too,
/// it is an error to ask for another mask or shift.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_pointer_mask(mask: usize) {
    if mask != usize::MAX {
        die(format_args!(
            "GC_set_pointer_mask({mask:#x}): pointers are not masked; store them without tags, or \
             call GC_mark_and_push in a mark procedure"
        ));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_pointer_mask() -> usize {
    usize::MAX
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_pointer_shift(shift: u32) {
    if shift != 0 {
        die(format_args!(
            "GC_set_pointer_shift({shift}): pointers are not shifted; store them as they are, or \
             call GC_mark_and_push in a mark procedure"
        ));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_pointer_shift() -> u32 {
    0
}

/// Gives its argument back. Stale words below the caller's frame are outside what is scanned, so
/// nothing needs clearing.
#[unsafe(no_mangle)]
pub extern "C" fn GC_clear_stack(pointer: *mut c_void) -> *mut c_void {
    pointer
}

/// Stores a pointer. There is no write barrier to tell.
#[unsafe(no_mangle)]
pub extern "C" fn GC_ptr_store_and_dirty(to: *mut c_void, value: *const c_void) {
    // SAFETY: an aligned pointer variable, says gc.h.
    unsafe { to.cast::<*const c_void>().write(value) };
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_ptr_store_and_dirty(to: *mut c_void, value: *const c_void) {
    GC_ptr_store_and_dirty(to, value);
}

/// No write barrier: nothing to note.
#[unsafe(no_mangle)]
pub extern "C" fn GC_end_stubborn_change(_object: *const c_void) {}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_change_stubborn(_object: *const c_void) {}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_end_stubborn_change(_object: *const c_void) {}

/// The version of the ABI: 8.2.2, as 0xMMmmpp.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_version() -> u32 {
    0x08_02_02
}
