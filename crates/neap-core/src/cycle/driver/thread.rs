//! The collector's own thread: marks while the program runs, finishes sweeps, and gives memory back to the system when it has lain unused long enough.
//!
//! Invariant: it holds the heap's lock for a step at a time and is no mutator; the program is right without it, only larger and slower. Started by the first
//! cycle, and again by the first cycle of a forked child.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::time::Instant;

use super::idle::{Idle, Now, Verdict};
use super::report::CYCLES;
use super::{collector, limits, steps};
use crate::addr::GRANULE_BYTES;
use crate::heap::{HEAP, decay};
use crate::sys::{clock, futex, own_thread, thread};

/// Counts reasons to wake; the thread sleeps on it.
static WAKES: AtomicU32 = AtomicU32::new(0);
static RUNNING: AtomicBool = AtomicBool::new(false);
/// How long memory lies unused before it goes back, milliseconds.
static DECAY_MS: AtomicU64 = AtomicU64::new(4000);

/// How long a program is quiet before it is collected, milliseconds; 0 for never.
static IDLE_MS: AtomicU64 = AtomicU64::new(0);

/// Sets the time after which a quiet program is collected; 0 for never.
pub fn set_idle_ms(idle_ms: u64) {
    IDLE_MS.store(idle_ms, Relaxed);
}

/// Sets the time after which unused memory goes back.
pub fn set_decay_ms(decay_ms: u64) {
    DECAY_MS.store(decay_ms, Relaxed);
}

/// When the thread last went to sleep, by [`clock::now_ns`].
static SLEPT_AT_NS: AtomicU64 = AtomicU64::new(0);

/// Whether the thread has slept for so long, or was never started.
pub fn has_slept(ms: u64) -> bool {
    clock::now_ns().saturating_sub(SLEPT_AT_NS.load(Relaxed)) >= ms * 1_000_000
}

/// The processor on which the thread was woken last.
static WOKEN_ON: AtomicUsize = AtomicUsize::new(usize::MAX);

/// There is something to do. Outside stops, on a thread of the program. False if the thread cannot be started.
pub fn wake() -> bool {
    WOKEN_ON.store(thread::processor(), Relaxed);
    WAKES.fetch_add(1, Release);
    if RUNNING.load(Acquire) {
        futex::wake(&WAKES, 1);
        return true;
    }
    ensure()
}

/// Makes sure that there is the thread. False if it cannot be started: no memory, or no more threads for this user.
pub fn ensure() -> bool {
    if RUNNING.load(Acquire) || RUNNING.swap(true, AcqRel) {
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
    let mut idle = Idle::new();
    loop {
        let seen = WAKES.load(Acquire);
        own_thread::leave_processor(WOKEN_ON.swap(usize::MAX, Relaxed));
        now_ms();
        steps::drive();
        while !HEAP.inner().sweep_step(&HEAP) {}
        steps::swept();
        let over = limits::look_if_old(now_ms());
        let (collected, idle_ms) = look_idle(&mut idle, &now_ms);
        let decay_ms = if over || collected { 0 } else { DECAY_MS.load(Relaxed) };
        if let Some(before) = decay::due_before(now_ms(), decay_ms) {
            while HEAP.clean(&mut HEAP.inner(), before, decay::STEP_RANGES) == decay::STEP_RANGES {}
        }
        let dirty = HEAP.inner().granules.dirty_free();
        let sleep_ms = [decay::next_look_ms(decay_ms, dirty), idle_ms].into_iter().flatten().min();
        SLEPT_AT_NS.store(clock::now_ns(), Relaxed);
        futex::wait(&WAKES, seen, sleep_ms.map(|ms| ms * 1_000_000));
    }
}

/// Collects if the program is idle and it is time: whether it did, and when to look again.
fn look_idle(idle: &mut Idle, now_ms: &impl Fn() -> u64) -> (bool, Option<u64>) {
    let now = || Now {
        ms: now_ms(),
        cycles: CYCLES.load(Relaxed),
        allocated_bytes: HEAP.state.allocated_since_cycle.load(Relaxed),
        resident_bytes: HEAP.inner().granules.resident() * GRANULE_BYTES,
        program_ns: clock::others_processor_ns(),
    };
    match idle.look(&now(), IDLE_MS.load(Relaxed)) {
        Verdict::Sleep => (false, None),
        Verdict::Wait(ms) => (false, Some(ms)),
        Verdict::Collect => {
            let began_ns = clock::own_processor_ns();
            let collected = collector::collect_idle();
            while !HEAP.inner().sweep_step(&HEAP) {}
            steps::swept();
            let took_ms = (clock::own_processor_ns() - began_ns) / 1_000_000;
            (collected, Some(idle.collected(&now(), took_ms)))
        }
    }
}

/// In the child of a `fork`: the thread does not exist.
pub fn after_fork() {
    RUNNING.store(false, Relaxed);
}
