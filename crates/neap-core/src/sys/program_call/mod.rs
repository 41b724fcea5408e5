//! Functions of the program and of a host that the collector calls in the middle of its work. An
//! exception that leaves one ends here and is told; the collector goes on without what it lost.
//!
//! Invariant: where such a function was to name what stays alive, that it did not is on record
//! until the cycle under way has kept everything for it ([`take_lost_roots`]). Called on the thread
//! that drives a stop, and wherever a front end or a host is asked something.
//!
//! # Safety
//!
//! Calls functions with the words that they were registered for.

#![allow(unsafe_code)]

pub(crate) mod guard;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use super::print;

/// What is lost if a function does not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing that the collector needs.
    Nothing,
    /// Pointers that it would have named.
    Roots,
}

/// A function that was to name roots was left by an exception. Set by who called it.
static LOST_ROOTS: AtomicBool = AtomicBool::new(false);
/// Exceptions told of so far.
static MESSAGES: AtomicU32 = AtomicU32::new(0);
/// A program that throws in every cycle need not hear of each.
const MOST_MESSAGES: u32 = 10;

/// Calls `function`, which is the program's `what`, with the words; gives what it gave, as
/// [`guard::call`] does, and None if an exception left it.
///
/// # Safety
/// `function` is a function that can be called with so many words or fewer, in registers.
pub unsafe fn call(what: &str, lost: Lost, function: usize, words: [usize; 4]) -> Option<usize> {
    // SAFETY: the caller's promise.
    let result = unsafe { guard::call(function, words) };
    if result.is_none() {
        note_exception(what, lost);
    }
    result
}

#[cold]
fn note_exception(what: &str, lost: Lost) {
    if lost == Lost::Roots {
        LOST_ROOTS.store(true, Release);
    }
    if MESSAGES.fetch_add(1, Relaxed) < MOST_MESSAGES {
        let therefore = match lost {
            Lost::Nothing => "",
            Lost::Roots => ", and since it may not have named everything, this cycle frees nothing",
        };
        let dropped = "; it is dropped";
        print::pieces(["an exception left the program's ", what, dropped, therefore]);
    }
}

/// Whether roots were lost since this was asked last.
pub fn take_lost_roots() -> bool {
    LOST_ROOTS.load(Relaxed) && LOST_ROOTS.swap(false, Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_asked_once() {
        assert!(!take_lost_roots());
        note_exception("function", Lost::Nothing);
        assert!(!take_lost_roots());
        note_exception("root callback", Lost::Roots);
        assert!(take_lost_roots());
        assert!(!take_lost_roots());
    }
}
