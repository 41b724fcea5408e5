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
    static BUFFERS: Cell<usize> = const { Cell::new(0) };
}

fn mutator(word: usize) -> Option<&'static Mutator> {
    // SAFETY: 0 or a mutator that lives while its thread is attached.
    unsafe { core::ptr::with_exposed_provenance::<Mutator>(word).as_ref() }
}

/// The calling thread's mutator, if it is attached.
pub fn get() -> Option<&'static Mutator> {
    mutator(WORD.get())
}

/// The same, if it may hand out cells of its buffers without telling anybody.
pub fn with_buffers() -> Option<&'static Mutator> {
    mutator(BUFFERS.get())
}

/// Makes `mutator` (0: none) what [`with_buffers`] gives the calling thread.
pub fn set_with_buffers(mutator: usize) {
    BUFFERS.set(mutator);
}

/// Makes `mutator` (0: none) the calling thread's.
pub fn set(mutator: usize) {
    WORD.set(mutator);
}

/// There is no thread pointer.
pub fn buffers_offset() -> isize {
    0
}
