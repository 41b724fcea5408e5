//! A bounded work-stealing deque of words: its owner pushes and pops at one end, other markers
//! steal at the other.
//!
//! Invariant: a word pushed is given out exactly once. The algorithm is Chase and Lev's (SPAA 2005)
//! with the memory orders of Lê, Pop, Cohen and Zappa Nardelli (PPoPP 2013), without growth: a push
//! into a full deque is refused and the owner keeps the word. Only the owner calls `push` and
//! `pop`; `steal` is anybody's. Model-checked in `tests/loom_marking.rs`.

use crate::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::*, fence};

/// Words it holds at most. Larger: coarser sharing; smaller: more of it.
#[cfg(not(loom))]
const CAPACITY: usize = 512;
#[cfg(loom)]
const CAPACITY: usize = 2;

/// The deque.
pub struct Deque {
    /// Where thieves take; grows only.
    top: AtomicIsize,
    /// Where the owner works.
    bottom: AtomicIsize,
    slots: [AtomicUsize; CAPACITY],
}

/// What came of trying to steal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steal {
    /// This word.
    Stolen(usize),
    /// There was nothing.
    Empty,
    /// Somebody else was quicker; there may be more.
    Lost,
}

impl Deque {
    /// An empty deque.
    pub fn new() -> Self {
        Self {
            top: AtomicIsize::new(0),
            bottom: AtomicIsize::new(0),
            slots: core::array::from_fn(|_| AtomicUsize::new(0)),
        }
    }

    /// Has it be empty, whatever it was in the middle of. Nobody uses it.
    pub fn forget(&self) {
        let top = self.top.load(Relaxed);
        if self.bottom.load(Relaxed) != top {
            self.bottom.store(top, Relaxed);
        }
    }

    fn slot(&self, index: isize) -> &AtomicUsize {
        &self.slots[index as usize % CAPACITY]
    }

    /// Adds a word; false if there is no room. Owner only.
    pub fn push(&self, word: usize) -> bool {
        let bottom = self.bottom.load(Relaxed);
        // Acquire: the slot that is about to be overwritten has been read by the thief that took
        // it.
        if bottom - self.top.load(Acquire) >= CAPACITY as isize {
            return false;
        }
        self.slot(bottom).store(word, Relaxed);
        // Release: a thief that sees the new bottom sees the word.
        self.bottom.store(bottom + 1, Release);
        true
    }

    /// Takes the word pushed last. Owner only.
    pub fn pop(&self) -> Option<usize> {
        let bottom = self.bottom.load(Relaxed) - 1;
        self.bottom.store(bottom, Relaxed);
        // The claim on the last word must be visible to thieves before we look at what they took.
        fence(SeqCst);
        let top = self.top.load(Relaxed);
        if top > bottom {
            self.bottom.store(bottom + 1, Relaxed);
            return None;
        }
        let word = self.slot(bottom).load(Relaxed);
        if top == bottom {
            // The last word: whoever moves the top has it.
            let won = self.top.compare_exchange(top, top + 1, SeqCst, Relaxed).is_ok();
            self.bottom.store(bottom + 1, Relaxed);
            return won.then_some(word);
        }
        Some(word)
    }

    /// Takes the word pushed first.
    pub fn steal(&self) -> Steal {
        let top = self.top.load(Acquire);
        // Our view of the top before our view of the bottom, against the owner's fence in `pop`.
        fence(SeqCst);
        if top >= self.bottom.load(Acquire) {
            return Steal::Empty;
        }
        let word = self.slot(top).load(Relaxed);
        match self.top.compare_exchange(top, top + 1, SeqCst, Relaxed) {
            Ok(_) => Steal::Stolen(word),
            Err(_) => Steal::Lost,
        }
    }

    /// Whether it looks empty now.
    pub fn is_empty(&self) -> bool {
        self.top.load(Relaxed) >= self.bottom.load(Relaxed)
    }
}

impl Default for Deque {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn owner_takes_newest_thief_oldest() {
        let deque = Deque::new();
        (1..=3).for_each(|word| assert!(deque.push(word)));
        assert_eq!(deque.steal(), Steal::Stolen(1));
        assert_eq!((deque.pop(), deque.pop(), deque.pop()), (Some(3), Some(2), None));
        assert_eq!(deque.steal(), Steal::Empty);
    }

    #[test]
    fn a_full_deque_refuses() {
        let deque = Deque::new();
        (0..CAPACITY).for_each(|word| assert!(deque.push(word + 1)));
        assert!(!deque.push(1));
        assert_eq!(deque.steal(), Steal::Stolen(1));
        assert!(deque.push(1));
    }

    #[test]
    fn every_word_is_given_out_once() {
        let (deque, sum) = (Deque::new(), AtomicU64::new(0));
        const WORDS: u64 = 50_000;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while sum.load(Relaxed) < WORDS * (WORDS + 1) / 2 {
                        match deque.steal() {
                            Steal::Stolen(word) => _ = sum.fetch_add(word as u64, Relaxed),
                            _ => std::thread::yield_now(),
                        }
                    }
                });
            }
            for word in 1..=WORDS {
                while !deque.push(word as usize) {
                    deque.pop().map(|word| sum.fetch_add(word as u64, Relaxed));
                }
            }
            while let Some(word) = deque.pop() {
                sum.fetch_add(word as u64, Relaxed);
            }
        });
        assert_eq!(sum.into_inner(), WORDS * (WORDS + 1) / 2);
    }
}
