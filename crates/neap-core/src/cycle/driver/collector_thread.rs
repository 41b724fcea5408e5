//! The collector's own thread: drives cycles beside the program, finishes sweeps, collects an idle
//! program, and gives memory back to the system when it has lain unused long enough.
//!
//! Invariant: it holds the heap's lock for a step at a time and is no mutator; the program is right
//! without it, only larger and slower. Started by the first cycle that runs beside the program or
//! leaves a heap worth sweeping, and again by the first such cycle of a forked child.

use crate::sys::clock::Instant;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::disabling::is_disabled;
use super::{between_cycles, collect, handshake, wake};
use crate::addr::FRAME_BYTES;
use crate::cycle::collector::{self, COLLECTOR};
use crate::cycle::limits;
use crate::cycle::modes::stop_the_world::Length;
use crate::cycle::phase::Phase;
use crate::cycle::policy::idle::{Idle, Now, Verdict};
use crate::cycle::report::callbacks;
use crate::cycle::report::record::{CYCLES, Kind};
use crate::cycle::schedule;
use crate::heap::HEAP;
use crate::heap::frames::decay::Decay;
use crate::sys::{clock, own_thread};
use crate::world::last_thread;

/// How long memory lies unused before it goes back, milliseconds.
static DECAY_MS: AtomicU64 = AtomicU64::new(4000);
/// The same in cycles; 0 where time counts.
static DECAY_CYCLES: AtomicU64 = AtomicU64::new(0);
/// How long a program is quiet before it is collected, milliseconds; 0 for never.
static IDLE_MS: AtomicU64 = AtomicU64::new(0);

/// Sets the time after which a quiet program is collected; 0 for never.
pub fn set_idle_ms(idle_ms: u64) {
    IDLE_MS.store(idle_ms, Relaxed);
}

/// Sets the time after which unused memory goes back, or with `cycles` other than 0 how many of
/// them it takes.
pub fn set_decay(decay_ms: u64, cycles: u64) {
    DECAY_MS.store(decay_ms, Relaxed);
    DECAY_CYCLES.store(cycles, Relaxed);
    HEAP.state.set_stamps_cycles(cycles > 0);
}

fn decay() -> Decay {
    match DECAY_CYCLES.load(Relaxed) {
        0 => Decay::Milliseconds(DECAY_MS.load(Relaxed)),
        cycles => Decay::Cycles(cycles),
    }
}

/// Makes this what the collector's thread runs, and `answer` what it calls whenever it wakes; who
/// asks wakes it by the `word`. Once, at start-up.
pub fn prepare(answer: fn(), word: wake::MakeWord) {
    wake::install(run, word, answer);
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let started = Instant::now();
    // What is freed from now on gets the stamp.
    let now_ms = move || {
        // From 1: memory freed before the clock ran counts as old.
        let now = 1 + started.elapsed().as_millis() as u64;
        HEAP.state.note_time(now);
        now
    };
    let mut idle = Idle::new();
    loop {
        let seen = wake::reasons();
        own_thread::leave_processor(wake::take_woken_on());
        now_ms();
        handshake::drive();
        between_cycles::rest();
        sweep();
        wake::answer();
        let over = limits::look_if_old(now_ms());
        let (collected, idle_ms) = look_idle(&mut idle, &now_ms);
        let decay = if over || collected { Decay::Milliseconds(0) } else { decay() };
        if let Some(before) = decay.due_before(HEAP.state.freeing_stamp())
            && HEAP.give_back(before, || ()) > 0
        {
            schedule::note_given_back();
        }
        let freed = usize::from(wake::before_last_look());
        let dirty = HEAP.inner().frames.dirty_free().max(freed);
        let looks = [decay.next_look_ms(dirty), idle_ms, last_thread::look_again()];
        let sleep_ms = looks.into_iter().flatten().min();
        wake::sleep(seen, sleep_ms);
    }
}

/// In the child of a `fork`: the clock begins anew with the thread, and memory freed before that
/// counts as old. Before anything is freed there.
pub fn after_fork() {
    HEAP.state.note_time(0);
}

/// Sweeps all blocks.
fn sweep() {
    HEAP.finish_sweep(|| ());
    between_cycles::swept();
}

/// Collects if the program is idle and it is time: whether it did, and when to look again.
fn look_idle(idle: &mut Idle, now_ms: &impl Fn() -> u64) -> (bool, Option<u64>) {
    let now = || Now {
        ms: now_ms(),
        cycles: CYCLES.load(Relaxed),
        allocated_bytes: HEAP.state.allocated_since_cycle.load(Relaxed),
        resident_bytes: HEAP.inner().frames.resident() * FRAME_BYTES,
        program_ns: clock::others_processor_ns(),
    };
    match idle.look(&now(), IDLE_MS.load(Relaxed)) {
        Verdict::Sleep => (false, None),
        Verdict::Wait(ms) => (false, Some(ms)),
        Verdict::Collect => {
            let began_ns = clock::own_processor_ns();
            let collected = collect_idle();
            sweep();
            let took_ms = (clock::own_processor_ns() - began_ns) / 1_000_000;
            (collected, Some(idle.collected(&now(), took_ms)))
        }
    }
}

/// A cycle for a program that is idle, on the collector's thread: false if the program does not
/// want one, or has functions that are called in cycles and rely on its own threads.
fn collect_idle() -> bool {
    if is_disabled()
        || !collector::is_automatic()
        || handshake::program_takes_part()
        || !callbacks::may_begin(false)
    {
        return false;
    }
    if collector::runs_beside() {
        handshake::drive_unasked();
        between_cycles::rest();
        return true;
    }
    let mut collector = COLLECTOR.lock();
    if collector.phase != Phase::Idle || is_disabled() || !collector::is_automatic() {
        return false;
    }
    callbacks::set_heard(false);
    let collected = collect::stopped(&mut collector, None, Kind::Stopped, Length::Any).is_ok();
    callbacks::set_heard(true);
    handshake::tell_end();
    collected
}
