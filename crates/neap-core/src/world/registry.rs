//! The list of mutators and of stacks that are no thread's own.
//!
//! Invariant: who stops the world holds this lock from before the first signal until after the
//! resume, so no thread is attached or detached meanwhile. Waiting for it is allowed outside
//! critical sections only.
//!
//! # Safety
//!
//! Makes references to mutators and stacks in the list. They live until they are taken out, which
//! needs the lock that the caller holds.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::*;

use super::backoff::Backoff;
use super::mutator::Mutator;
use super::stacks::stack::Stack;
use crate::rank::Rank;
use crate::stats::live;
use crate::sync::{ForkLock, Guard, Lock};

/// The lists.
pub struct Registry {
    first: usize,
    count: usize,
    pub(super) first_stack: usize,
    pub(super) backoff: Backoff,
    /// Objects and bytes that detached threads allocated.
    pub retired: (u64, u64),
    /// Bytes that they freed.
    retired_freed_bytes: u64,
}

static REGISTRY: Lock<Registry> = Lock::new(
    Rank::Registry,
    Registry {
        first: 0,
        count: 0,
        first_stack: 0,
        backoff: Backoff::new(),
        retired: (0, 0),
        retired_freed_bytes: 0,
    },
);

/// Takes the lock.
pub fn lock() -> Guard<'static, Registry> {
    REGISTRY.lock()
}

/// Whether the calling thread has it, as who stops the world does until the resume.
pub fn is_mine() -> bool {
    REGISTRY.is_mine()
}

/// Runs `f` on the lists, in a callback of the program too, for which this thread has stopped the
/// world.
pub fn with<R>(f: impl FnOnce(&Registry) -> R) -> R {
    if is_mine() {
        // SAFETY: this thread has the lock, and who calls the program back only reads meanwhile.
        return f(unsafe { REGISTRY.read_held() });
    }
    f(&lock())
}

/// Unlocks what this thread holds with a forgotten guard.
///
/// # Safety
/// The calling thread took the lock and forgot its guard.
pub unsafe fn unlock_forgotten() {
    // SAFETY: the caller's promise.
    unsafe { REGISTRY.unlock_forgotten() };
}

/// The lock, for who holds it over a `fork`.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &REGISTRY
}

impl Registry {
    /// Adds a mutator.
    pub fn add(&mut self, mutator: &'static Mutator) {
        let address = core::ptr::from_ref(mutator) as usize;
        mutator.next.store(self.first, Relaxed);
        mutator.previous.store(0, Relaxed);
        if let Some(first) = at(self.first) {
            first.previous.store(address, Relaxed);
        }
        self.first = address;
        self.count += 1;
        live::set_threads(self.count);
    }

    /// Takes a mutator out.
    pub fn remove(&mut self, mutator: &Mutator) {
        let (next, previous) = (mutator.next.load(Relaxed), mutator.previous.load(Relaxed));
        match at(previous) {
            Some(previous) => previous.next.store(next, Relaxed),
            None => self.first = next,
        }
        if let Some(next) = at(next) {
            next.previous.store(previous, Relaxed);
        }
        self.count -= 1;
        live::set_threads(self.count);
        let (objects, bytes) = mutator.local.totals();
        self.retired = (self.retired.0 + objects, self.retired.1 + bytes);
        self.retired_freed_bytes += mutator.freed_bytes.load(Relaxed);
    }

    /// The mutators. One may be removed while it is the current item.
    pub fn iter(&self) -> impl Iterator<Item = &'static Mutator> + use<> {
        let mut next = self.first;
        core::iter::from_fn(move || {
            let mutator = at(next)?;
            next = mutator.next.load(Relaxed);
            Some(mutator)
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The stacks that are no thread's own.
    pub fn stacks(&self) -> impl Iterator<Item = &'static Stack> + use<> {
        let mut next = self.first_stack;
        core::iter::from_fn(move || {
            // SAFETY: 0 or a stack in the list, which lives until it is retired under this lock.
            let stack = unsafe { (next as *const Stack).as_ref() }?;
            next = stack.next();
            Some(stack)
        })
    }

    /// Objects and bytes allocated so far by all threads.
    pub fn totals(&self) -> (u64, u64) {
        self.iter()
            .map(|mutator| mutator.local.totals())
            .fold(self.retired, |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Bytes of the objects that all threads freed so far for the program.
    pub fn freed_bytes(&self) -> u64 {
        let by_threads: u64 = self.iter().map(|mutator| mutator.freed_bytes.load(Relaxed)).sum();
        self.retired_freed_bytes + by_threads
    }
}

fn at(address: usize) -> Option<&'static Mutator> {
    // SAFETY: 0 or a mutator in the list, which lives until it is taken out under this lock.
    unsafe { (address as *const Mutator).as_ref() }
}
