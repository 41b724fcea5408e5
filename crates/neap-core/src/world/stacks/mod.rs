//! Stacks that are no thread's own: fibers, coroutines, `makecontext`. Each knows where it was
//! left; a switch takes no lock.
//!
//! Invariant `[world.inv.stacks]`: every stack is scanned from where it was left last, and the one
//! that a thread stands on from where it was stopped as well. So the moment between [`switch`] and
//! the actual change needs no care.
//!
//! # Safety
//!
//! Makes and frees records of stacks. An address is 0 or that of a record which is in no list any
//! more only once it is retired, and who retires it has the only one.

#![allow(unsafe_code)]

pub mod stack;

use core::alloc::GlobalAlloc;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::sys::meta_alloc::MetaAllocator;
use crate::sys::thread;
use crate::world::mutator::Mutator;
use crate::world::registry;
use stack::{LAYOUT, Stack, at};

/// Declares a stack; None when there is no memory.
pub fn create(range: Range<usize>) -> Option<&'static Stack> {
    // SAFETY: the layout has a size.
    let memory = unsafe { MetaAllocator.alloc(LAYOUT) }.cast::<Stack>();
    if memory.is_null() || range.is_empty() {
        return None;
    }
    let mut registry = registry::lock();
    let first = registry.first_stack;
    // SAFETY: fresh memory for one stack, valid once written.
    let stack = unsafe {
        memory.write(Stack {
            low: range.start,
            high: range.end,
            position: AtomicUsize::new(range.end),
            registers: [const { AtomicUsize::new(0) }; 6],
            next: AtomicUsize::new(first),
            previous: AtomicUsize::new(0),
        });
        &*memory
    };
    if let Some(first) = at(first) {
        first.previous.store(memory as usize, Relaxed);
    }
    registry.first_stack = memory as usize;
    Some(stack)
}

/// The declared stack that the calling thread runs on; None for its own.
pub fn current(mutator: &Mutator) -> Option<Range<usize>> {
    at(mutator.stack.load(Relaxed)).map(Stack::range)
}

/// The calling thread is about to leave the stack that it runs on for `to` (None: its own). What
/// `to` remembers of where it was left stays: scanning from there finds at least what is live.
pub fn switch(mutator: &Mutator, to: Option<&'static Stack>) {
    let (position, registers) = match at(mutator.stack.load(Relaxed)) {
        Some(stack) => (&stack.position, &stack.registers),
        None => (&mutator.own_position, &mutator.own_registers),
    };
    let mut saved = thread::CalleeSaved::default();
    thread::store_callee_saved(&mut saved);
    for (kept, register) in registers.iter().zip(saved) {
        kept.store(register, Relaxed);
    }
    position.store(thread::stack_pointer(), Relaxed);
    mutator.stack.store(to.map_or(0, |stack| core::ptr::from_ref(stack) as usize), Relaxed);
}

/// Forgets a stack that nobody runs on.
///
/// # Safety
/// Nobody switches to it afterwards.
pub unsafe fn retire(stack: &'static Stack) {
    let mut registry = registry::lock();
    let (next, previous) = (stack.next.load(Relaxed), stack.previous.load(Relaxed));
    match at(previous) {
        Some(previous) => previous.next.store(next, Relaxed),
        None => registry.first_stack = next,
    }
    if let Some(next) = at(next) {
        next.previous.store(previous, Relaxed);
    }
    drop(registry);
    // SAFETY: allocated with this layout by `create`, and in no list.
    unsafe { MetaAllocator.dealloc(core::ptr::from_ref(stack).cast_mut().cast(), LAYOUT) };
}
