//! Blocked regions: the thread waits for something else and touches no heap, so a stop neither
//! signals it nor waits for it.
//!
//! Invariant `[world.inv.blocked]`: a mutator leaves its region only while no stop that is about it
//! is under way. It says *running* and then reads the epoch; who stops the world makes the epoch
//! odd and then reads what the mutator says. All four are sequentially consistent, so one of the
//! two sees the other: either the mutator goes back to waiting, or it is asked by signal like any
//! running thread. A [suspended](super::suspension) one leaves only when it is resumed, by the same
//! argument.

use core::sync::atomic::Ordering::*;

use super::mutator::{Activity, Mutator};
use super::stop;
use crate::sys::futex;
use crate::sys::thread::{self, CalleeSaved};

/// Runs `f` in a blocked region of the calling thread.
pub fn blocked<R>(mutator: &Mutator, f: impl FnOnce() -> R) -> R {
    thread::with_registers_spilled(|position| blocked_at(mutator, position, f))
}

/// The same for a mutator whose registers are spilled above `position`: what its stack holds below
/// is no root.
pub fn blocked_at<R>(mutator: &Mutator, position: usize, f: impl FnOnce() -> R) -> R {
    if mutator.activity() == Activity::Blocked {
        return f();
    }
    mutator.position.store(position, Relaxed);
    mutator.set_activity(Activity::Blocked);
    let result = f();
    leave(mutator);
    result
}

/// Inside a blocked region, runs `f` as an ordinary mutator; the part of the stack that the region
/// protected stays protected.
pub fn unblocked<R>(mutator: &Mutator, f: impl FnOnce() -> R) -> R {
    if mutator.activity() == Activity::Running {
        return f();
    }
    let position = mutator.position.load(Relaxed);
    leave(mutator);
    let result = f();
    mutator.position.store(position, Relaxed);
    mutator.set_activity(Activity::Blocked);
    result
}

/// Begins a region that [`end`] ends, for callers that cannot wrap it. What is live lies above
/// `position` or in `registers`, which nothing else keeps while the caller goes on. Inside another
/// region it changes nothing.
pub fn begin(mutator: &Mutator, position: usize, registers: &CalleeSaved) {
    if mutator.activity() == Activity::Blocked {
        return;
    }
    for (kept, register) in mutator.blocked_registers.iter().zip(registers) {
        kept.store(*register, Relaxed);
    }
    mutator.position.store(position, Relaxed);
    mutator.set_activity(Activity::Blocked);
}

/// Ends the region that the calling thread is in; outside it changes nothing.
pub fn end(mutator: &Mutator) {
    if mutator.activity() == Activity::Blocked {
        leave(mutator);
        mutator.blocked_registers.iter().for_each(|kept| kept.store(0, Relaxed));
    }
}

fn leave(mutator: &Mutator) {
    loop {
        mutator.set_activity(Activity::Running);
        if mutator.is_suspended() {
            mutator.set_activity(Activity::Blocked);
            futex::wait(&mutator.suspended, 1, None);
            continue;
        }
        let Some(epoch) =
            stop::under_way_for(mutator).filter(|epoch| mutator.obeyed.load(Relaxed) != *epoch)
        else {
            return;
        };
        mutator.set_activity(Activity::Blocked);
        stop::wait_for_resume(epoch);
    }
}
