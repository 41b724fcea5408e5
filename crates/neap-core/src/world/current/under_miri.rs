//! Which mutator the calling thread is, where miri runs the tests, which knows no assembly: a
//! thread-local variable of Rust's.
//!
//! Invariant: as `world::current`'s, whose place this takes.
//!
//! # Safety
//! The word is 0 or the address of a mutator that lives as long as the thread is attached.

#![allow(unsafe_code)]

use core::cell::Cell;

use crate::world::mutator::Mutator;

thread_local! {
    static WORD: Cell<usize> = const { Cell::new(0) };
    static RUNS: Cell<usize> = const { Cell::new(0) };
}

fn mutator(word: usize) -> Option<&'static Mutator> {
    // SAFETY: 0 or a mutator that lives while its thread is attached.
    unsafe { core::ptr::with_exposed_provenance::<Mutator>(word).as_ref() }
}

/// The calling thread's mutator, if it is attached.
pub fn get() -> Option<&'static Mutator> {
    mutator(WORD.get())
}

/// The same, if it may hand out cells of its runs without telling anybody.
pub fn with_runs() -> Option<&'static Mutator> {
    mutator(RUNS.get())
}

/// Makes `mutator` (0: none) what [`with_runs`] gives the calling thread.
pub fn set_with_runs(mutator: usize) {
    RUNS.set(mutator);
}

/// Makes `mutator` (0: none) the calling thread's.
pub fn set(mutator: usize) {
    WORD.set(mutator);
}

/// There is no thread pointer.
pub fn runs_offset() -> isize {
    0
}
