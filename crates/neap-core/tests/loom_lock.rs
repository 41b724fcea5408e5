//! Models of the crate's one lock, every interleaving of which loom tries: one thread at a time has
//! it and sees what the last one did, and nobody sleeps while it is free.
//!
//! Invariant: the models use the very file that the core is built of, with loom's atomics, few
//! spins, and a futex made of loom's condition variables, which wakes nobody without a reason. A
//! thread that sleeps for ever fails a model. Run by `make loom` with `--cfg loom`; without it
//! there is nothing here.

#![cfg(loom)]

mod sys {
    //! What the file under test imports as `crate::sys`.
    pub mod futex {
        //! Sleeping on the word of the model's one lock.
        use loom::sync::atomic::{AtomicU32, Ordering::SeqCst};
        use loom::sync::{Arc, Condvar, Mutex};

        loom::lazy_static! {
            static ref SLEEPERS: Mutex<Vec<Arc<Condvar>>> = Mutex::new(Vec::new());
        }

        /// Sleeps while the word is `expected`.
        pub fn wait(word: &AtomicU32, expected: u32, _timeout_ns: Option<u64>) -> bool {
            let mut all = SLEEPERS.lock().unwrap();
            if word.load(SeqCst) == expected {
                let woken = Arc::new(Condvar::new());
                all.push(woken.clone());
                drop(woken.wait(all).unwrap());
            }
            true
        }

        /// Wakes the one that has slept longest.
        pub fn wake(_word: &AtomicU32, count: u32) {
            assert_eq!(count, 1);
            let mut all = SLEEPERS.lock().unwrap();
            if !all.is_empty() {
                all.remove(0).notify_one();
            }
        }
    }
}

mod sync {
    //! What it imports as `crate::sync`.
    pub mod modelled {
        pub use loom::sync::atomic::*;
    }
}

#[path = "../src/sync/owned_word.rs"]
mod owned_word;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicUsize};
use loom::thread;
use owned_word::OwnedWord;

/// The lock and what it protects.
struct Locked {
    word: OwnedWord,
    count: UnsafeCell<u32>,
}

// SAFETY: the cell is loom's, which fails the model where two threads use it at the same time.
unsafe impl Sync for Locked {}
// SAFETY: as above.
unsafe impl Send for Locked {}

impl Locked {
    fn new() -> Arc<Self> {
        let word = OwnedWord { holder: AtomicUsize::new(0), sleeper: AtomicU32::new(0) };
        Arc::new(Self { word, count: UnsafeCell::new(0) })
    }

    /// As `Lock::lock` and its guard.
    fn add_one(&self, name: usize) {
        if !self.word.try_take(name) {
            self.word.take(name);
        }
        // SAFETY: loom checks that nobody else uses it meanwhile.
        self.count.with_mut(|count| unsafe { *count += 1 });
        self.word.give_back();
    }
}

/// One who was woken and leaves without the lock has left word for the next.
#[test]
fn who_loses_patience_leaves_nobody_asleep() {
    loom::model(|| {
        let locked = Locked::new();
        let others = [
            thread::spawn({
                let locked = locked.clone();
                move || {
                    if locked.word.take_unless(2, Some(1), || true) {
                        locked.word.give_back();
                    }
                }
            }),
            thread::spawn({
                let locked = locked.clone();
                move || locked.add_one(3)
            }),
        ];
        locked.add_one(1);
        others.map(|thread| thread.join().unwrap());
        // SAFETY: loom checks that nobody else uses it meanwhile.
        locked.count.with(|count| assert_eq!(unsafe { *count }, 2));
    });
}

fn counts(threads: usize, times: u32) {
    loom::model(move || {
        let locked = Locked::new();
        let all: Vec<_> = (1..threads)
            .map(|other| {
                let locked = locked.clone();
                thread::spawn(move || (0..times).for_each(|_| locked.add_one(other + 1)))
            })
            .collect();
        (0..times).for_each(|_| locked.add_one(1));
        all.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: as above.
        locked.count.with(|count| assert_eq!(unsafe { *count }, threads as u32 * times));
    });
}

#[test]
fn two_threads_take_it_in_turn() {
    counts(2, 2);
}

#[test]
fn of_three_threads_none_sleeps_for_ever() {
    counts(3, 1);
}
