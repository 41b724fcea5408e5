//! The program's say on where a thread's stack begins: a function that is shown the stack position
//! of a mutator that stands, and may put another in its place. For programs with coroutines of
//! their own.
//!
//! Invariant: while a function is set it is called in pauses only, in which a thread of the program
//! has stopped the others; no thread's stack is read beside the program. Set by front ends from any
//! thread; called by the cycle, between stop and resume, with the registry locked.
//!
//! # Safety
//!
//! Calls a function of the program with a variable of its own and a number.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::Ordering::*;

use super::mutator::Mutator;
use crate::sync::function::AtomicFunction;
use crate::sys::program_call::{self, Lost};
use crate::sys::side_stack;

/// Given a variable that holds a stack position, and the thread as `pthread_t`.
pub type StackCorrector = unsafe extern "C" fn(*mut *mut c_void, *mut c_void);

static CORRECTOR: AtomicFunction<StackCorrector> = AtomicFunction::none();

/// Sets the function.
pub fn set(corrector: Option<StackCorrector>) {
    CORRECTOR.set(corrector);
}

/// Whether there is one.
pub fn is_set() -> bool {
    CORRECTOR.is_set()
}

/// The position that the mutator noted, as the program corrects it.
pub(super) fn of(mutator: &Mutator, noted: usize) -> usize {
    let Some(corrector) = CORRECTOR.get() else { return noted };
    let mut position = noted as *mut c_void;
    // A thread's control block is its `pthread_t`.
    let thread = mutator.control_block.load(Relaxed) as *mut c_void;
    let words = [(&raw mut position) as usize, thread as usize, 0, 0];
    // SAFETY: the program's, for this.
    side_stack::off(|| unsafe {
        program_call::call("stack corrector", Lost::Roots, corrector as usize, words)
    });
    position as usize
}
