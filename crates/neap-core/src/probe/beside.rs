//! Threads beside the one that measures.
//!
//! Invariant: what they borrow stays until all of them have ended. Called by a program that uses no
//! heap.
//!
//! # Safety
//! A thread is given the address of what its maker has on its stack, who waits for it.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::sys::{own_thread, thread};

/// What the threads wait for, and then do.
const WAIT: u32 = 0;
const WORK: u32 = 1;
const GIVE_UP: u32 = 2;

struct Shared<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    order: AtomicU32,
    /// How many have a number.
    numbered: AtomicUsize,
    /// How many have not ended.
    running: AtomicUsize,
}

/// Has `count` threads each do `work` with a number of its own, from 1 on, and the calling thread
/// `own` meanwhile; both are over on return. None where the system gives no thread.
pub fn beside<R>(count: usize, work: impl Fn(usize) + Sync, own: impl FnOnce() -> R) -> Option<R> {
    let shared = Shared {
        work: &work,
        order: AtomicU32::new(WAIT),
        numbered: AtomicUsize::new(0),
        running: AtomicUsize::new(0),
    };
    let all_started = (0..count).all(|_| {
        shared.running.fetch_add(1, Relaxed);
        let started = own_thread::start(run, (&raw const shared).cast_mut().cast());
        if !started {
            shared.running.fetch_sub(1, Relaxed);
        }
        started
    });
    shared.order.store(if all_started { WORK } else { GIVE_UP }, Release);
    let result = all_started.then(own);
    while shared.running.load(Acquire) > 0 {
        thread::yield_now();
    }
    result
}

extern "C" fn run(shared: *mut c_void) -> *mut c_void {
    // SAFETY: its maker waits for this thread, which does not touch it behind its last store.
    let shared = unsafe { &*shared.cast::<Shared<'_>>() };
    while shared.order.load(Acquire) == WAIT {
        thread::yield_now();
    }
    if shared.order.load(Acquire) == WORK {
        (shared.work)(1 + shared.numbered.fetch_add(1, Relaxed));
    }
    shared.running.fetch_sub(1, Release);
    core::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_works_once_beside_the_caller() {
        let seen = AtomicUsize::new(0);
        let own = beside(3, |number| _ = seen.fetch_add(1 << (8 * number), Relaxed), || 7);
        assert_eq!((own, seen.into_inner()), (Some(7), 0x01010100));
    }
}
