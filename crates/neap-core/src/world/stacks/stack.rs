//! A declared stack: its addresses, and where it was left.
//!
//! Invariant `[world.inv.stacks]`: its position is where it was left last, or its end while it is
//! fresh. Made, switched and retired by `stacks`; listed by the registry, read by the cycle.
//!
//! # Safety
//!
//! An address is 0 or that of a record in the registry's list, which lives until it is retired.

#![allow(unsafe_code)]

use core::alloc::Layout;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// One stack.
pub struct Stack {
    pub(super) low: usize,
    pub(super) high: usize,
    /// Where it was left; `high` while it is fresh. Written by the thread that switches.
    pub(super) position: AtomicUsize,
    /// Callee-saved registers when it was left: the program's switch may keep them where nothing is
    /// scanned.
    pub(super) registers: [AtomicUsize; 6],
    pub(super) next: AtomicUsize,
    pub(super) previous: AtomicUsize,
}

/// How much memory one takes.
pub(super) const LAYOUT: Layout = Layout::new::<Stack>();

impl Stack {
    /// Its addresses.
    pub fn range(&self) -> Range<usize> {
        self.low..self.high
    }

    /// The part that was in use when it was left.
    pub fn left(&self) -> Range<usize> {
        self.position.load(Relaxed)..self.high
    }

    /// The registers kept with it.
    pub fn registers(&self) -> impl Iterator<Item = usize> + '_ {
        self.registers.iter().map(|register| register.load(Relaxed))
    }

    /// Address of the next one in the registry; 0 for none.
    pub fn next(&self) -> usize {
        self.next.load(Relaxed)
    }
}

/// The stack at an address that is 0 or that of one which is not retired yet.
pub(super) fn at(address: usize) -> Option<&'static Stack> {
    // SAFETY: 0 or a stack that is not retired yet.
    unsafe { (address as *const Stack).as_ref() }
}
