//! A value that is set once, by whoever comes first, and read from then on.
//!
//! Invariant: the state is `SET` only behind a value that was written whole, and nobody writes it
//! again. Called from any thread, also in handlers of signals: nothing waits.
//!
//! # Safety
//! Who makes the state `BEING_SET` writes the value alone; readers look at it behind `SET`.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering::*};

const UNSET: u8 = 0;
const BEING_SET: u8 = 1;
const SET: u8 = 2;

/// The value, or none yet. Never dropped: for statics.
pub struct SetOnce<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written by one thread before any other sees it, and only read after that.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

impl<T> SetOnce<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self { state: AtomicU8::new(UNSET), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Sets it, unless somebody did, or does just now.
    pub fn set(&self, value: T) {
        if self.state.compare_exchange(UNSET, BEING_SET, Relaxed, Relaxed).is_ok() {
            // SAFETY: this thread alone changed the state from `UNSET`.
            unsafe { (*self.value.get()).write(value) };
            self.state.store(SET, Release);
        }
    }

    /// The value.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: it was written before the state said so, and stays.
        (self.state.load(Acquire) == SET).then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_stays() {
        let once = SetOnce::new();
        assert_eq!(once.get(), None);
        once.set(3);
        once.set(4);
        assert_eq!(once.get(), Some(&3));
    }

    #[test]
    fn who_sees_a_value_sees_all_of_it() {
        for _ in 0..200 {
            let once = SetOnce::new();
            std::thread::scope(|scope| {
                (0..3).for_each(|number: usize| {
                    let once = &once;
                    scope.spawn(move || once.set([number; 64]));
                });
                scope.spawn(|| {
                    let seen = once.get();
                    assert!(seen.is_none_or(|value| value.iter().all(|word| *word == value[0])));
                });
            });
            assert!(once.get().is_some());
        }
    }
}
