//! The collector's own thread: marks while the program runs, finishes sweeps, and gives memory back to the system when it has lain unused long enough.
//!
//! Invariant: it holds the heap's lock for a step at a time and is no mutator; the program is right without it, only larger and slower. Started by the first
//! cycle, and again by the first cycle of a forked child.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::time::Instant;

use super::{limits, steps};
use crate::heap::{HEAP, decay};
use crate::sys::{futex, own_thread};

/// Counts reasons to wake; the thread sleeps on it.
static WAKES: AtomicU32 = AtomicU32::new(0);
static RUNNING: AtomicBool = AtomicBool::new(false);
/// How long memory lies unused before it goes back, milliseconds.
static DECAY_MS: AtomicU64 = AtomicU64::new(4000);

/// Sets the time after which unused memory goes back.
pub fn set_decay_ms(decay_ms: u64) {
    DECAY_MS.store(decay_ms, Relaxed);
}

/// There is something to do. Outside stops, on a thread of the program. False if the thread cannot be started.
pub fn wake() -> bool {
    WAKES.fetch_add(1, Release);
    if RUNNING.swap(true, AcqRel) {
        futex::wake(&WAKES, 1);
        return true;
    }
    let started = own_thread::start(run, core::ptr::null_mut());
    RUNNING.store(started, Release);
    started
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let started = Instant::now();
    let now_ms = move || {
        // From 1: memory freed before the clock ran counts as old.
        let now = 1 + started.elapsed().as_millis() as u64;
        HEAP.state.set_now_ms(now);
        now
    };
    loop {
        let seen = WAKES.load(Acquire);
        now_ms();
        steps::drive();
        while !HEAP.inner().sweep_step(&HEAP) {}
        steps::swept();
        let over = limits::look_if_old(now_ms());
        let decay_ms = if over { 0 } else { DECAY_MS.load(Relaxed) };
        if let Some(before) = decay::due_before(now_ms(), decay_ms) {
            while HEAP.clean(&mut HEAP.inner(), before, decay::STEP_RANGES) == decay::STEP_RANGES {}
        }
        let dirty = HEAP.inner().granules.dirty_free();
        let sleep_ms = decay::next_look_ms(decay_ms, dirty);
        futex::wait(&WAKES, seen, sleep_ms.map(|ms| ms * 1_000_000));
    }
}

/// In the child of a `fork`: the thread does not exist.
pub fn after_fork() {
    RUNNING.store(false, Relaxed);
}
