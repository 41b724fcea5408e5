//! Atomics, and the one lock of the crate: a futex word that never calls malloc.
//!
//! Invariant: a thread takes locks in the order of [`Rank`], lowest first; debug builds assert it.
//! Called from any thread. Under `--cfg loom` the atomics are loom's, for the models in `tests/`.
//!
//! # Safety
//!
//! The lock gives its value to guards only, and there is one guard at a time: that makes it safe to
//! share, and the accesses to its cell are the only ones there are.

#![allow(unsafe_code)]

pub mod function;
mod owned_word;
pub mod set_once;
mod turns;

#[cfg(loom)]
pub use loom::sync::atomic;

#[cfg(not(loom))]
pub use core::sync::atomic;

/// Core's atomics always: files that name them so are modelled in copies of their own, in tests
/// that have loom's in this place.
pub mod modelled {
    pub use core::sync::atomic::*;
}

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::rank::{self, Rank};
use crate::sys::{print, thread};
use owned_word::OwnedWord;

/// A mutual-exclusion lock that spins briefly, then sleeps in the kernel. Not recursive.
pub struct Lock<T> {
    /// Holders are named by [`me`].
    word: OwnedWord,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and one guard exists at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// What tells the calling thread from all others that live. There is no thread pointer to read
/// under miri.
#[inline(always)]
pub fn me() -> usize {
    if cfg!(miri) { 1 } else { thread::control_block() }
}

/// A lock, whatever it protects, for who holds it over a `fork`.
pub trait ForkLock {
    /// Takes it.
    fn take(&self);

    /// Gives it back.
    ///
    /// # Safety
    /// The calling thread took it by [`ForkLock::take`].
    unsafe fn give_back(&self);

    /// Whether the calling thread has it, and could not take it again.
    fn is_mine(&self) -> bool;
}

impl<T: Send> ForkLock for Lock<T> {
    fn take(&self) {
        core::mem::forget(self.lock());
    }
    unsafe fn give_back(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.unlock_forgotten() };
    }
    fn is_mine(&self) -> bool {
        Lock::is_mine(self)
    }
}

/// Under loom a lock that is a static is made at its first use.
#[cfg(loom)]
impl<T: Send> ForkLock for std::sync::LazyLock<Lock<T>> {
    fn take(&self) {
        Lock::take(self)
    }
    unsafe fn give_back(&self) {
        // SAFETY: the caller's promise.
        unsafe { Lock::give_back(self) };
    }
    fn is_mine(&self) -> bool {
        Lock::is_mine(self)
    }
}

/// Access to what a [`Lock`] protects; unlocks when dropped.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// A free lock. `rank` says which locks may already be held when it is taken.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self {
            word: OwnedWord { holder: AtomicUsize::new(0), sleeper: AtomicU32::new(0) },
            rank,
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the lock is free and takes it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        #[cfg(debug_assertions)]
        if self.is_mine() {
            print::reentered();
        }
        rank::check(self.rank);
        if !self.word.try_take(me()) {
            self.lock_slow();
        }
        rank::acquire(self.rank);
        Guard(self)
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.word.try_take(me()).then(|| {
            rank::check(self.rank);
            rank::acquire(self.rank);
            Guard(self)
        })
    }

    /// Waits until the lock is free and takes it, or until `enough` says so, which is asked now and
    /// then, `look_ns` apart.
    pub fn lock_unless(&self, look_ns: u64, enough: impl Fn() -> bool) -> Option<Guard<'_, T>> {
        if self.is_mine() {
            print::reentered();
        }
        rank::check(self.rank);
        let is_taken = self.word.take_unless(me(), Some(look_ns), enough);
        is_taken.then(|| {
            rank::acquire(self.rank);
            Guard(self)
        })
    }

    #[cold]
    fn lock_slow(&self) {
        if self.is_mine() {
            print::reentered();
        }
        self.word.take(me());
    }

    /// Whether the calling thread holds it.
    pub fn is_mine(&self) -> bool {
        !cfg!(miri) && self.word.holder.load(Relaxed) == me()
    }

    /// What the lock protects, for a thread that holds it with a forgotten guard.
    ///
    /// # Safety
    /// The calling thread holds the lock, and no other reference to the value is in use.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn already_held(&self) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.value.get() }
    }

    /// The same beside other references of the thread that only read.
    ///
    /// # Safety
    /// The calling thread holds the lock, and no reference that may write is in use.
    pub unsafe fn read_held(&self) -> &T {
        // SAFETY: the caller's promise.
        unsafe { &*self.value.get() }
    }

    fn unlock(&self) {
        rank::release(self.rank);
        self.word.give_back();
    }

    /// Unlocks, for a thread that holds it with a forgotten guard.
    ///
    /// # Safety
    /// As for [`Lock::already_held`].
    pub unsafe fn unlock_forgotten(&self) {
        self.unlock();
    }

    /// Whether somebody sleeps until the lock is free, as far as that is known at this moment.
    pub fn is_waited_for(&self) -> bool {
        self.word.sleeper.load(Relaxed) != 0
    }
}

impl<T> Guard<'_, T> {
    /// Runs `f` while others may have the lock, and takes it again.
    pub fn without(&mut self, f: impl FnOnce()) {
        self.0.unlock();
        f();
        core::mem::forget(self.0.lock());
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only access there is.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the only access there is.
        unsafe { &mut *self.0.value.get() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_under_contention() {
        static COUNT: Lock<u64> = Lock::new(Rank::Test, 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *COUNT.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*COUNT.lock(), 40_000);
    }

    #[test]
    fn a_held_lock_is_not_taken_twice() {
        static LOCK: Lock<()> = Lock::new(Rank::Test, ());
        let held = LOCK.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(LOCK.try_lock().is_none()));
        });
        drop(held);
        drop(LOCK.try_lock().unwrap());
        assert!(LOCK.try_lock().is_some());
    }
}
