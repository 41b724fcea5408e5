//! A function of the program together with its environment, replaced as one: whoever calls it
//! meanwhile gets the old pair or the new, never half of each.
//!
//! Invariant: a pair never changes and is never freed, so reading takes no lock, also with the
//! world stopped; the same pair is kept once, so that a program which switches between callbacks
//! does not grow. Called from any thread; `set` with the world running.

use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::*};
use rust_alloc::alloc::alloc;

use crate::status::Status;

struct Pair<F> {
    function: F,
    environment: *mut c_void,
    next: *mut Pair<F>,
}

/// Where one callback is kept.
pub struct Slot<F> {
    /// Null: no callback.
    now: AtomicPtr<Pair<F>>,
    /// All pairs ever set here, newest first.
    known: AtomicPtr<Pair<F>>,
}

impl<F: Copy + PartialEq> Slot<F> {
    /// No callback.
    pub const fn new() -> Self {
        Self { now: AtomicPtr::new(null_mut()), known: AtomicPtr::new(null_mut()) }
    }

    /// Sets the callback, or that there is none.
    pub fn set(&self, function: Option<F>, environment: *mut c_void) -> Status {
        let Some(function) = function else {
            self.now.store(null_mut(), Release);
            return Status::Ok;
        };
        let pair = self.intern(function, environment);
        if pair.is_null() {
            return Status::NoMemory;
        }
        self.now.store(pair, Release);
        Status::Ok
    }

    /// Function and environment, if a callback is set.
    pub fn get(&self) -> Option<(F, *mut c_void)> {
        // SAFETY: null or a pair, which lives for ever.
        let pair = unsafe { self.now.load(Acquire).as_ref() }?;
        Some((pair.function, pair.environment))
    }

    fn intern(&self, function: F, environment: *mut c_void) -> *mut Pair<F> {
        let mut first = self.known.load(Acquire);
        let mut pair = first;
        // SAFETY: null or a pair, which lives for ever; so are those it leads to.
        while let Some(known) = unsafe { pair.as_ref() } {
            if known.function == function && known.environment == environment {
                return pair;
            }
            pair = known.next;
        }
        // SAFETY: the layout has a size.
        let fresh = unsafe { alloc(Layout::new::<Pair<F>>()) }.cast::<Pair<F>>();
        if fresh.is_null() {
            return fresh;
        }
        loop {
            // SAFETY: memory for one pair that nobody else knows yet.
            unsafe { fresh.write(Pair { function, environment, next: first }) };
            match self.known.compare_exchange(first, fresh, AcqRel, Acquire) {
                Ok(_) => return fresh,
                Err(newer) => first = newer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_kept_once_and_replaced_as_one() {
        let slot = Slot::new();
        assert!(slot.get().is_none());
        for turn in 0..1000_usize {
            let (function, environment) = (1 + turn % 2, (8 * (turn % 2)) as *mut c_void);
            assert_eq!(slot.set(Some(function), environment), Status::Ok);
            assert_eq!(slot.get(), Some((function, environment)));
        }
        let (mut pairs, mut pair) = (0, slot.known.load(Acquire));
        // SAFETY: as in `intern`.
        while let Some(known) = unsafe { pair.as_ref() } {
            (pairs, pair) = (pairs + 1, known.next);
        }
        assert_eq!(pairs, 2);
        assert_eq!(slot.set(None, null_mut()), Status::Ok);
        assert!(slot.get().is_none());
    }
}
