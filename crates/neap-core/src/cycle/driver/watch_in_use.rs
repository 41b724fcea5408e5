//! The watch that cycles beside the program use: opened at the start, and again where that came to
//! nothing.
//!
//! Invariant: there is a mode for cycles beside the program exactly where
//! [`collector::watching`] says so. Opened at start-up, or by a mutator that wants a cycle.

use core::sync::atomic::{AtomicU32, Ordering::*};

use super::between_steps;
use crate::cycle::collector::{self, COLLECTOR};
use crate::cycle::modes::Mode;
use crate::heap::HEAP;
use crate::watch::choose::Watching;

const NONE: u32 = Watching::None as u32;

/// What [`reopen`] opens, as a number: what the parent of a forked child used, until the child's
/// first cycle; or what a program closed, until the next cycle.
static LATER: AtomicU32 = AtomicU32::new(NONE);

/// Cycles run beside the program from now on, if this way of watching has such. False if the system
/// does not allow it.
pub fn enable(watching: Watching) -> bool {
    let Some(mode) = Mode::open(watching, &HEAP) else { return watching == Watching::None };
    let collector = &mut *COLLECTOR.lock();
    if let Some(state) = between_steps::take(collector) {
        state.mode = Some(mode);
        between_steps::put_back(collector, state);
        collector::set_watching(watching);
    }
    true
}

/// What is in use, or will be from the first cycle on.
pub fn watching() -> Watching {
    match collector::watching() {
        Watching::None => Watching::from_number(LATER.load(Relaxed)),
        watching => watching,
    }
}

/// Has [`reopen`] open it.
pub fn open_later(watching: Watching) {
    LATER.store(watching as u32, Relaxed);
}

/// Opens what was left for later, now that there is to be a cycle: a child of `fork` that never
/// collects does without. One that is refused what its parent was allowed stops the world.
pub fn reopen() {
    if LATER.load(Relaxed) != NONE {
        let _ = enable(Watching::from_number(LATER.swap(NONE, AcqRel)));
    }
}
