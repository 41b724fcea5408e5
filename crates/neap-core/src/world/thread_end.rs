//! Detaching threads that end, after the last of the program's own destructors.
//!
//! Invariant `[world.rule.thread-end]`: a thread that is attached when its last destructor has
//! returned is detached then, and not before. Its values of pthread_setspecific(3) are roots until
//! their destructors have them, and what a destructor makes is kept for the next one.
//!
//! glibc calls destructors in rounds, four at most, as long as they leave values behind, and in
//! each in the order of the keys' numbers. Called by `attach.rs`, on the thread itself.
//!
//! # Safety
//!
//! Calls libc's functions for keys, with keys of ours. Their values are numbers, and the
//! destructors have the right type.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::sync::function::AtomicFunction;

type Destructor = unsafe extern "C" fn(*mut c_void);

/// The key of threads that are attached from their beginning, plus one; 0 until it is made. Its
/// value is the round that comes next. The last key whose values libc needs no memory for.
static KEY: AtomicU32 = AtomicU32::new(0);
const KEY_AT_MOST: u32 = 31;

/// The key of all other threads, plus one; 0 until there is one. It comes after all of the
/// program's, but for those that are made while it is. Larger: others who make keys at that moment
/// find fewer left.
static LATE_KEY: AtomicU32 = AtomicU32::new(0);
const LATE_KEY_AT_MOST: u32 = 1024 - 64;

/// Rounds, as many as limits.h promises (`PTHREAD_DESTRUCTOR_ITERATIONS`).
const ROUNDS: usize = 4;

/// Detaches the calling thread, if it is attached.
static DETACH: AtomicFunction<fn()> = AtomicFunction::none();

/// Makes the key that most threads need. Called once, at start-up.
pub(super) fn initialize(detach: fn()) {
    DETACH.set(Some(detach));
    if let Some(key) = make_key(KEY_AT_MOST, end_of_round) {
        KEY.store(key + 1, Relaxed);
    }
}

/// The key with the largest number up to `at_most`, or the largest number that is free. libc gives
/// the smallest one that is.
fn make_key(at_most: u32, destructor: Destructor) -> Option<u32> {
    let mut passed = [0_u64; 16];
    let mut last = None;
    let mut key = 0;
    // SAFETY: `key` is valid; keys that nobody knows are deleted.
    unsafe {
        while last.is_none_or(|last| last < at_most)
            && libc::pthread_key_create(&mut key, Some(destructor)) == 0
        {
            match last.replace(key) {
                Some(before) if key > at_most => {
                    libc::pthread_key_delete(key);
                    last = Some(before);
                    break;
                }
                Some(before) => passed[before as usize / 64] |= 1 << (before % 64),
                None => {}
            }
        }
        for (index, word) in passed.iter().enumerate() {
            for bit in (0..64).filter(|bit| word & 1 << bit != 0) {
                libc::pthread_key_delete(index as u32 * 64 + bit);
            }
        }
    }
    last
}

fn late_key() -> Option<u32> {
    if let Some(key) = LATE_KEY.load(Acquire).checked_sub(1) {
        return Some(key);
    }
    let key = make_key(LATE_KEY_AT_MOST, end_of_late)?;
    match LATE_KEY.compare_exchange(0, key + 1, AcqRel, Acquire) {
        Ok(_) => Some(key),
        Err(other) => {
            // SAFETY: nobody knows it.
            unsafe { libc::pthread_key_delete(key) };
            Some(other - 1)
        }
    }
}

/// When a thread was attached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Before anything of the program ran on it: it has all rounds before it.
    Beginning,
    /// Perhaps by one of its destructors, in whatever round.
    Unknown,
}

/// The calling thread was attached, and is to be detached when it ends.
pub(super) fn note_attached(since: Since) {
    let first = || KEY.load(Relaxed).checked_sub(1);
    match since {
        Since::Beginning => set(first(), 1),
        Since::Unknown => set(late_key(), 1),
    }
}

/// The calling thread was detached.
pub(super) fn note_detached() {
    set(KEY.load(Relaxed).checked_sub(1), 0);
    set(LATE_KEY.load(Acquire).checked_sub(1), 0);
}

fn set(key: Option<u32>, value: usize) {
    if let Some(key) = key {
        // SAFETY: the key exists; its value is a number.
        unsafe { libc::pthread_setspecific(key, value as *const c_void) };
    }
}

/// Between rounds the thread stays attached. After the last there may be destructors of later
/// keys; one that allocates attaches the thread as one of which nothing is known.
unsafe extern "C" fn end_of_round(round: *mut c_void) {
    let round = round as usize;
    if round < ROUNDS {
        set(KEY.load(Relaxed).checked_sub(1), round + 1);
    } else {
        detach();
    }
}

/// The round may be the last.
unsafe extern "C" fn end_of_late(_: *mut c_void) {
    detach();
}

fn detach() {
    if let Some(detach) = DETACH.get() {
        detach();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_last_ones_up_to_a_number() {
        let made = |at_most| make_key(at_most, end_of_late).unwrap();
        let (first, second, last) = (made(20), made(20), made(700));
        assert_eq!((first, last), (20, 700));
        assert!(second < 20, "{second}: the others were given back");
        for key in [first, second, last] {
            // SAFETY: made above, with no values.
            assert_eq!(unsafe { libc::pthread_key_delete(key) }, 0);
        }
    }
}
