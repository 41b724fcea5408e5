//! Models of the two lock-free parts of marking, every interleaving of which loom tries: the deque
//! gives out each word once, and the markers are not done while anybody holds work.
//!
//! Invariant: the models use the very files that the core is built of, with loom's atomics in place
//! of core's. Run by `make loom` with `--cfg loom`; without it there is nothing here.

#![cfg(loom)]

mod sync {
    //! What the files under test import as `crate::sync`.
    pub use loom::sync::atomic;
}

#[path = "../src/mark/deque.rs"]
#[allow(dead_code)]
mod deque;
#[path = "../src/mark/done.rs"]
#[allow(dead_code)]
mod done;

use deque::{Deque, Steal};
use done::Done;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::*};
use loom::thread;

/// Steals until there is nothing; what it got.
fn steal_all(deque: &Deque) -> Vec<usize> {
    let mut words = Vec::new();
    loop {
        match deque.steal() {
            Steal::Stolen(word) => words.push(word),
            Steal::Lost => thread::yield_now(),
            Steal::Empty => return words,
        }
    }
}

/// Pops until there is nothing; what it got.
fn pop_all(deque: &Deque) -> Vec<usize> {
    core::iter::from_fn(|| deque.pop()).collect()
}

fn assert_once(mut words: Vec<usize>, wanted: &[usize]) {
    words.sort_unstable();
    assert_eq!(words, wanted, "each word is given out exactly once");
}

#[test]
fn a_word_goes_to_the_owner_or_to_a_thief() {
    loom::model(|| {
        let deque = Arc::new(Deque::new());
        assert!(deque.push(1));
        let thief = {
            let deque = deque.clone();
            thread::spawn(move || steal_all(&deque))
        };
        let mut words = pop_all(&deque);
        words.extend(thief.join().unwrap());
        assert_once(words, &[1]);
    });
}

#[test]
fn two_thieves_and_the_owner_share_two_words() {
    loom::model(|| {
        let deque = Arc::new(Deque::new());
        assert!(deque.push(1) && deque.push(2));
        let thieves = [0, 1].map(|_| {
            let deque = deque.clone();
            thread::spawn(move || match deque.steal() {
                Steal::Stolen(word) => vec![word],
                _ => Vec::new(),
            })
        });
        let mut words = pop_all(&deque);
        thieves.into_iter().for_each(|thief| words.extend(thief.join().unwrap()));
        words.extend(pop_all(&deque));
        assert_once(words, &[1, 2]);
    });
}

/// The slots are used again: a thief must not get a word that was written over the one it wanted.
#[test]
fn slots_are_used_again() {
    loom::model(|| {
        let deque = Arc::new(Deque::new());
        assert!(deque.push(1) && deque.push(2) && !deque.push(3), "the model's capacity is 2");
        let thief = {
            let deque = deque.clone();
            thread::spawn(move || steal_all(&deque))
        };
        let mut words = Vec::new();
        let mut wanted = vec![1, 2];
        for word in 3..=4 {
            if deque.push(word) {
                wanted.push(word);
            } else {
                words.extend(deque.pop());
            }
        }
        words.extend(pop_all(&deque));
        words.extend(thief.join().unwrap());
        assert_once(words, &wanted);
    });
}

/// Words of work: handling word n makes n - 1 words of value 0.
fn work(deque: &Deque, handled: &AtomicUsize, first: Option<usize>) {
    let mut next = first.or_else(|| deque.pop());
    while let Some(word) = next {
        for _ in 0..word - 1 {
            if !deque.push(1) {
                handled.fetch_add(1, Relaxed);
            }
        }
        handled.fetch_add(1, Relaxed);
        next = deque.pop();
    }
}

/// What a marker does when it has nothing: as in `mark/markers.rs`, for one other deque. True when
/// the markers are done.
fn steal_or_done(own: &Deque, other: &Deque, done: &Done, handled: &AtomicUsize) -> bool {
    if !other.is_empty() {
        done.become_active();
        let stolen = match other.steal() {
            Steal::Stolen(word) => Some(word),
            _ => None,
        };
        if stolen.is_some() {
            work(own, handled, stolen);
        }
        done.become_idle();
    }
    done.is_done()
}

/// Whoever finds the markers done finds all work handled.
#[test]
fn done_means_that_all_work_is_handled() {
    loom::model(|| {
        let deques = Arc::new([Deque::new(), Deque::new()]);
        let done = Arc::new(Done::new());
        let handled = Arc::new(AtomicUsize::new(0));
        // The driver is active before its helper starts.
        done.become_active();
        assert!(deques[0].push(2) && deques[0].push(1));
        let helper = {
            let (deques, done, handled) = (deques.clone(), done.clone(), handled.clone());
            thread::spawn(move || {
                if steal_or_done(&deques[1], &deques[0], &done, &handled) {
                    assert_eq!(
                        handled.load(Relaxed),
                        3,
                        "[mark.inv.done] the helper left, and there was work"
                    );
                }
            })
        };
        work(&deques[0], &handled, None);
        done.become_idle();
        if steal_or_done(&deques[0], &deques[1], &done, &handled) {
            assert_eq!(handled.load(Relaxed), 3, "the driver left, and there was work");
        }
        helper.join().unwrap();
        assert!(done.is_done());
        assert!(deques.iter().all(Deque::is_empty));
        assert_eq!(handled.load(Relaxed), 3);
    });
}
