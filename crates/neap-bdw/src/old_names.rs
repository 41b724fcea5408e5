//! Functions of libgc before version 7.2 that programs still call or look for: allocation from
//! lists of the thread's own, and blocked regions of two calls.
//!
//! Invariant: each means what its declaration of then said; new programs have better ones. Called
//! from any thread.

use core::arch::naked_asm;
use core::ffi::c_void;

use crate::alloc::{GC_malloc, GC_malloc_atomic};
use crate::core_api::embedding::{self, CalleeSaved};
use crate::kinds::gcj::GC_gcj_malloc;

/// Every thread allocates from memory of its own.
#[unsafe(no_mangle)]
pub extern "C" fn GC_local_malloc(bytes: usize) -> *mut c_void {
    GC_malloc(bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_local_malloc_atomic(bytes: usize) -> *mut c_void {
    GC_malloc_atomic(bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_local_gcj_malloc(bytes: usize, type_: *mut c_void) -> *mut c_void {
    GC_gcj_malloc(bytes, type_)
}

/// Collections do not wait for this thread until `GC_end_blocking`, and it must not touch the heap.
/// The caller's registers are kept as they are here: what it has in them lies nowhere else, once it
/// calls on.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn GC_start_blocking() {
    naked_asm!(
        "sub rsp, 56",
        "mov [rsp], rbx",
        "mov [rsp + 8], rbp",
        "mov [rsp + 16], r12",
        "mov [rsp + 24], r13",
        "mov [rsp + 32], r14",
        "mov [rsp + 40], r15",
        "mov rdi, rsp",
        "lea rsi, [rsp + 64]",
        "call {}",
        "add rsp, 56",
        "ret",
        sym start_blocking,
    );
}

/// `position`: where the caller's frame begins.
unsafe extern "C" fn start_blocking(registers: *const CalleeSaved, position: usize) {
    // SAFETY: what `GC_start_blocking` has just written to its frame.
    embedding::begin_blocked(position, unsafe { &*registers });
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_end_blocking() {
    embedding::end_blocked();
}
