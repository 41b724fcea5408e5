//! Cycles that cannot go on: the world, a host's, could not be stopped; it would stand too long;
//! the system no longer watches pages; or the process was forked in the middle of one.
//!
//! Invariant: nothing was decided about any object, nothing is swept, and the next cycle is a full
//! one. With the driver token and the collector's lock; the counts are read by any thread.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::between_steps::{self, CycleState};
use super::disabling::is_disabled;
use crate::cycle::collector::Collector;
use crate::cycle::phase::Phase;
use crate::cycle::policy::generation::Generations;
use crate::cycle::report::callbacks;
use crate::cycle::report::record::CycleRecord;
use crate::cycle::schedule;
use crate::heap::state::Snapshot;
use crate::refs;
use crate::sys::print;

/// Cycles that ended so because the world could not be stopped.
static UNSTOPPED: AtomicU64 = AtomicU64::new(0);
/// Of these, told of.
static MESSAGES: AtomicU32 = AtomicU32::new(0);
/// A host that refuses each time need not be told of each.
const MOST_MESSAGES: u32 = 10;

/// How many cycles could not stop the world: who waits for one no longer needs to when this
/// changes.
pub fn unstopped() -> u64 {
    UNSTOPPED.load(Acquire)
}

/// Ends a cycle that could not stop the world `[world.rule.unstopped]`. The program is not asked
/// again until it has allocated some more.
pub fn end_unstopped(state: &mut CycleState, collector: &mut Collector) {
    if let Some(mode) = state.mode.as_mut() {
        mode.steps().give_up();
    }
    end(state, collector);
    schedule::postpone();
    callbacks::note_end();
    UNSTOPPED.fetch_add(1, AcqRel);
    // A host that is about to end disables cycles first.
    if !is_disabled() && MESSAGES.fetch_add(1, Relaxed) < MOST_MESSAGES {
        print::message(format_args!(
            "the program's runtime did not stop its threads: this collection is given up, and the \
             heap grows"
        ));
    }
}

/// In the child of a `fork`: ends the cycle that was under way in the parent.
pub fn in_child(collector: &mut Collector) {
    let Some(state) = between_steps::reclaim(collector) else { return };
    if let Some(mode) = state.mode.take() {
        mode.leave_to_parent();
    }
    // Stops before were the parent's.
    state.driver.stood_before = None;
    state.driver.record = CycleRecord::default();
    if collector.phase != Phase::Idle {
        // Another thread may have been between a mark and its note,
        state.driver.heap.state.unnoted_marks.store(true, Relaxed);
        // or moving the mark stack: it stays where it is.
        state.driver.leave_marker();
    }
    end(state, collector);
    callbacks::note_end();
    between_steps::put_back(collector, state);
}

/// Ends a cycle that cannot go on.
pub fn end(state: &mut CycleState, collector: &mut Collector) {
    let driver = &mut state.driver;
    let heap = driver.heap;
    heap.state.set_snapshot(Snapshot::None);
    heap.end_marking(|_| {});
    driver.marker.forget_work();
    driver.markers().alone();
    // The next cycle has this one's number.
    refs::handles::process::forget_scanned();
    collector.generations = Generations::new();
    collector.phase = Phase::Idle;
}
