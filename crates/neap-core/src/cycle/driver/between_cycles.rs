//! What the mode of cycles beside the program has to do while none is under way.
//!
//! Invariant: under the collector's lock, so that nobody who wants a cycle meanwhile misses the
//! state. Called on the collector's thread.

use super::between_steps;
use crate::cycle::collector::{self, COLLECTOR, Collector};
use crate::cycle::modes::marking_mode::MarkingMode;
use crate::cycle::phase::Phase;
use crate::cycle::policy::generation::Generation;

/// A cycle has ended: what the program writes before the next one need not be known if that will be
/// a full one.
pub fn rest() {
    with_mode(|collector, mode| {
        if mode.has_minor_cycles() && collector.next_generation(true) == Generation::Full {
            mode.stop_watching();
        }
    });
}

/// All blocks are swept.
pub fn swept() {
    with_mode(|_, mode| mode.swept());
}

fn with_mode(f: impl FnOnce(&Collector, &mut dyn MarkingMode)) {
    if !collector::runs_beside() {
        return;
    }
    let collector = &mut *COLLECTOR.lock();
    if collector.phase == Phase::Idle
        && let Some(state) = between_steps::take(collector)
    {
        if let Some(mode) = state.mode.as_mut() {
            f(collector, mode.steps());
        }
        between_steps::put_back(collector, state);
    }
}
