//! Holding collections off: a thread has the collector's lock between two calls.
//!
//! Invariant: a thread that holds collections off has the lock, and never waits for it again; and
//! meanwhile no cycle is left for the collector's thread to conclude, for which others may
//! wait in critical sections `[cycle.inv.held]`. Called from any thread of the program, outside
//! critical sections.
//!
//! # Safety
//! The guard of the lock is forgotten. That the thread has it stands in its mutator, which only it
//! writes, so nobody else unlocks for it.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::*;

use super::handshake::{is_conclusion_left, process_left};
use crate::cycle::collector::COLLECTOR;
use crate::cycle::patience;
use crate::cycle::phase::Phase;
use crate::heap::HEAP;
use crate::refs::finalizers::finalizer;
use crate::world::{after_hold, attach, current};

/// From now until [`release`], no cycle runs. Nests. While this thread holds, its own requests for
/// cycles are refused.
pub fn hold() {
    take();
    // Hidden pointers are read while cycles are held off.
    HEAP.state.note_revealed();
}

fn take() {
    let mutator = attach::current();
    if mutator.holds.load(Relaxed) == 0 {
        let mut collector = COLLECTOR.lock();
        // Who stops threads now would wait for one that waits for memory until that is done.
        process_left(&mut collector);
        patience::note_hold();
        core::mem::forget(collector);
    }
    mutator.holds.store(mutator.holds.load(Relaxed) + 1, Relaxed);
}

/// Whether the calling thread holds collections off.
pub fn is_held_by_caller() -> bool {
    current::get().is_some_and(|mutator| mutator.holds.load(Relaxed) > 0)
}

/// Whether the calling thread holds collections off, no cycle is under way, and none was given up
/// and left marks. Not for who is called in a cycle.
pub fn is_held_idle() -> bool {
    // SAFETY: this thread has the lock; the reference ends here.
    is_held_by_caller()
        && unsafe { COLLECTOR.already_held() }.phase == Phase::Idle
        && HEAP.state.marks.load(Acquire).is_multiple_of(2)
}

/// As [`hold`], if no cycle is under way; false otherwise, and nothing is held. Mark bits then stay
/// as the last cycle left them: false also where it was given up, and left some.
pub fn hold_if_idle() -> bool {
    take();
    let idle = is_held_idle();
    if idle {
        HEAP.state.note_revealed();
    } else {
        release();
    }
    idle
}

/// Ends a [`hold`] of this thread; one that was never begun is ignored.
pub fn release() {
    let mutator = attach::current();
    let Some(holds) = mutator.holds.load(Relaxed).checked_sub(1) else { return };
    mutator.holds.store(holds, Relaxed);
    if holds == 0 {
        debug_assert!(
            !is_conclusion_left(),
            "[cycle.inv.held] a conclusion is left while held off"
        );
        if COLLECTOR.is_waited_for() {
            after_hold::note();
        }
        patience::note_hold();
        // SAFETY: `hold` took the lock on this thread and forgot its guard.
        unsafe { COLLECTOR.unlock_forgotten() };
    }
}

/// Makes every registered finalizer and cleaner ready, whether its object is dead or not; gives how
/// many. For the end of a program. A cycle that is under way marks what they keep; one that has
/// decided what is dead has handed its own over before, and marked what those keep.
pub fn make_all_finalizers_ready() -> usize {
    hold();
    let count = finalizer::make_all_ready();
    release();
    count
}
