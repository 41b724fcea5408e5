//! What the program is told of cycles: one callback for each step, one when a cycle is over and
//! anything may be done, one that may put a cycle off.
//!
//! Invariant: between `Stopped` and `BeforeResume` the callback runs with the world stopped and
//! must not allocate or lock; `CycleStart` and the callbacks before a pause and after a cycle run
//! with the world running. On the thread that drives the cycle.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

pub use neap_record::CycleEvent;

use super::root_callback;
use crate::stats::{events as rings, probes};
use crate::sync::function::AtomicFunction;
use crate::sys::{clock, side_stack};

/// Told of each step.
pub type EventCallback = unsafe extern "C" fn(CycleEvent);
/// Called after a cycle; may run any code.
pub type AfterCycle = unsafe extern "C" fn();
/// Called before a pause that reads roots, with whether it is the first of its cycle.
pub type BeforeRoots = fn(bool);
/// Asked before a cycle that the program did not ask for, and told whether memory was refused;
/// false puts it off.
pub type CycleGate = unsafe extern "C" fn(bool) -> bool;

static EVENT: AtomicFunction<EventCallback> = AtomicFunction::none();
static AFTER: AtomicFunction<AfterCycle> = AtomicFunction::none();
static BEFORE_ROOTS: AtomicFunction<BeforeRoots> = AtomicFunction::none();
static GATE: AtomicFunction<CycleGate> = AtomicFunction::none();
static TAKES_PART: AtomicFunction<TakesPart> = AtomicFunction::none();
/// The stop is driven by the collector's own thread, where nothing of the program's may run.
/// Written by who drives it.
static UNHEARD: AtomicBool = AtomicBool::new(false);

/// Sets the callback for steps.
pub fn set_event(callback: Option<EventCallback>) {
    EVENT.set(callback);
}

/// Sets the callback for the end of cycles.
pub fn set_after(callback: Option<AfterCycle>) {
    AFTER.set(callback);
}

/// Sets what is called before each pause that reads roots, in a program that takes part in cycles.
pub fn set_before_roots(callback: BeforeRoots) {
    BEFORE_ROOTS.set(Some(callback));
}

/// Sets the gate.
pub fn set_gate(gate: Option<CycleGate>) {
    GATE.set(gate);
}

/// Says whether the program itself takes part in cycles, where a front end has callbacks of its own
/// all the time. Called on any thread; neither allocates nor attaches.
pub type TakesPart = fn() -> bool;

/// Sets who says so.
pub fn set_takes_part(asked: TakesPart) {
    TAKES_PART.set(Some(asked));
}

/// Whether functions of the program are called in a cycle, which may rely on the thread that they
/// run on.
pub fn program_takes_part() -> bool {
    match TAKES_PART.get() {
        None => EVENT.is_set() || GATE.is_set() || root_callback::is_set(),
        Some(asked) => asked(),
    }
}

/// Who drives the stops from here on: a thread of the program, or not.
pub fn set_heard(heard: bool) {
    UNHEARD.store(!heard, Relaxed);
}

/// Whether callbacks of the program may run in this stop.
pub fn are_heard() -> bool {
    !UNHEARD.load(Relaxed)
}

/// Tells of a step.
pub fn tell(event: CycleEvent) {
    probes::step(event);
    if rings::are_wanted() {
        rings::note_step(event, clock::now_ns());
    }
    if let Some(callback) = EVENT.get()
        && are_heard()
    {
        // SAFETY: its contract is the program's to keep.
        side_stack::off(|| unsafe { callback(event) });
    }
}

/// A pause that reads roots is about to begin, the first of its cycle, or not.
pub fn before_roots(is_first: bool) {
    if is_first {
        BEGUN.store(true, Relaxed);
        tell(CycleEvent::CycleStart);
    }
    if let Some(callback) = BEFORE_ROOTS.get()
        && are_heard()
    {
        side_stack::off(|| callback(is_first));
    }
}

/// The cycle under way has begun for the program. Written by who drives it.
static BEGUN: AtomicBool = AtomicBool::new(false);
/// Cycles that are over and whose end was not told.
static ENDED: AtomicU32 = AtomicU32::new(0);
/// Callers of [`later`] that are at it.
static QUIET: AtomicU32 = AtomicU32::new(0);
/// The program was to be told of an end meanwhile.
static MISSED: AtomicBool = AtomicBool::new(false);

/// Runs `f`; the end of a cycle meanwhile is not told, since the program is not in a place where
/// anything may be done. True if there was one: whoever comes by an allocation next has to be told.
pub fn later(f: impl FnOnce()) -> bool {
    QUIET.fetch_add(1, AcqRel);
    f();
    QUIET.fetch_sub(1, AcqRel) == 1 && MISSED.swap(false, AcqRel)
}

/// In the child of a `fork`: a caller of [`later`] that is not there is at nothing.
pub fn after_fork() {
    QUIET.store(0, Relaxed);
}

/// The cycle is over: [`after_cycle`] is to follow if it had begun for the program.
pub fn note_end() {
    if BEGUN.swap(false, Relaxed) {
        ENDED.fetch_add(1, AcqRel);
    }
}

/// Tells of each cycle that is over, and once that anything may be done.
pub fn after_cycle() {
    if QUIET.load(Acquire) > 0 {
        return MISSED.store(true, Release);
    }
    (0..ENDED.swap(0, AcqRel)).for_each(|_| tell(CycleEvent::CycleEnd));
    if let Some(callback) = AFTER.get() {
        // SAFETY: as in `tell`.
        unsafe { callback() };
    }
}

/// Whether a cycle that the program did not ask for may begin; `for_memory`: memory was refused.
pub fn may_begin(for_memory: bool) -> bool {
    // SAFETY: as in `tell`.
    GATE.get().is_none_or(|gate| unsafe { gate(for_memory) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_fork_hears_of_cycles_although_another_thread_was_about_to_fork_too() {
        static ENDS: AtomicU32 = AtomicU32::new(0);
        unsafe extern "C" fn note() {
            ENDS.fetch_add(1, Relaxed);
        }
        set_after(Some(note));
        later(|| {
            after_cycle();
            assert_eq!(ENDS.load(Relaxed), 0);
            after_fork();
            after_cycle();
            assert_eq!(ENDS.load(Relaxed), 1);
            QUIET.store(1, Relaxed);
        });
    }
}
