//! When the next cycle is due, and beyond what threads wait for it: the formulas of [`trigger`](super::trigger) over what the last cycle found.
//!
//! Invariant: the two marks are written under the collector's lock, or lowered by a thread that is about to pass them; read by every thread after a refill. A mark that is read late is a cycle that begins late.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::collector::Collector;
use super::generation::Generation;
use super::trigger::{
    FAIR_SHARE, Settings, WHILE_GROWING, WHILE_GROWING_BESIDE, after_floating, concurrent_start,
    is_growing, stall_at,
};
use super::{limits, steps};
use crate::heap::HEAP;
use crate::refs;

/// Bytes handed out since the last cycle at which the next one is due; written by the collector.
static DUE_AT: AtomicUsize = AtomicUsize::new(4 << 20);
/// Bytes handed out since the last cycle beyond which threads wait for the one under way; written by the collector.
static STALL_AT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Whether enough was allocated for a cycle. Read after every refill.
#[inline(always)]
pub fn is_due() -> bool {
    HEAP.state.allocated_since_cycle.load(Relaxed) >= DUE_AT.load(Relaxed)
}

/// Bytes handed out since the last cycle beyond which threads wait for the one under way.
pub fn stalls_at() -> usize {
    STALL_AT.load(Relaxed)
}

/// A large object of `bytes` bytes is about to be allocated: if that passes the trigger, the cycle is due before it.
pub fn note_coming(bytes: usize) {
    let allocated = HEAP.state.allocated_since_cycle.load(Relaxed);
    if allocated.saturating_add(bytes) > DUE_AT.load(Relaxed) {
        let _ = DUE_AT.fetch_min(allocated.max(1), Relaxed);
    }
}

/// The next cycle is due after as much again: the program does not want one now.
pub(super) fn postpone() {
    DUE_AT.store(HEAP.state.allocated_since_cycle.load(Relaxed) + (1 << 20), Relaxed);
}

/// Heaps that are expected to hold less live than this, or less that is scanned, are marked with the world stopped, unless there is much to settle: that takes less time than a second stop.
const SMALL_BYTES: usize = 256 << 10;
/// Where references took as long to settle in the last cycle, however small the heap is, as with cleaners of objects that all die. Larger: longer stops; smaller: more small programs have cycles with two threads.
const LONG_SETTLING_NS: u64 = 200_000;
/// How long settling references took in the last cycle.
pub(super) static SETTLING_NS: AtomicU64 = AtomicU64::new(0);

/// Whether the next cycle is to run beside the program, where that is possible: a short stop is cheaper where there is little to do.
pub(super) fn is_worth_running_beside() -> bool {
    steps::enabled()
        && (HEAP.state.expected_scanned_bytes() >= SMALL_BYTES
            || refs::are_many()
            || SETTLING_NS.load(Relaxed) >= LONG_SETTLING_NS)
}

/// A frozen byte counts for the trigger as this part of a live one: cycles read it, in the order of addresses, and neither mark nor sweep it. Larger: a child of a server collects sooner and has less memory of its own; smaller: fewer cycles.
const FROZEN_WEIGHS: usize = 4;

impl Collector {
    /// Whether the collector's thread can run without one of the program's having to wait.
    pub(super) fn has_processor_to_spare(&self) -> bool {
        self.mutators < self.processors
    }

    /// Bytes that may be allocated after a full cycle.
    pub(super) fn threshold(&self) -> usize {
        let frozen = HEAP.state.frozen_bytes.load(Relaxed);
        // They change as the program goes on, while the rest is only set; what is frozen takes of them in full.
        let beside = |limit: usize| match limit {
            usize::MAX => limit,
            limit => limit.saturating_sub(frozen - frozen / FROZEN_WEIGHS),
        };
        let settings = Settings {
            max_bytes: beside(HEAP.max_bytes()),
            soft_bytes: beside(limits::soft_bytes()),
            ..self.settings
        };
        // Where the program runs meanwhile it waits for no cycle, so there is nothing to buy with more memory; and if it leaves the cycle a processor, more cycles cost it little, while what it drops meanwhile takes
        // room of its own.
        let grew = is_growing(self.marked, self.marked_before);
        let (share, growing) = match (is_worth_running_beside(), self.has_processor_to_spare()) {
            (false, _) => (self.share, grew.then_some(WHILE_GROWING)),
            (true, false) => (self.share.min(FAIR_SHARE), grew.then_some(WHILE_GROWING)),
            (true, true) => (0.0, self.stays.then_some(WHILE_GROWING_BESIDE)),
        };
        let wanted = settings.threshold(
            self.marked + frozen / FROZEN_WEIGHS,
            share,
            growing,
            self.mutators,
            self.pacer.least_bytes(),
        );
        after_floating(wanted, HEAP.state.born_marked_bytes.load(Relaxed))
    }
}

/// Bytes that may be allocated before the next cycle begins, and before it ends.
pub(super) struct Due {
    pub(super) begins: usize,
    pub(super) ends: usize,
}

/// Sets the trigger after a cycle or a change of settings; gives it.
pub(super) fn set_due(collector: &Collector) -> Due {
    let live = HEAP.state.live_bytes.load(Relaxed);
    let threshold = match collector.last {
        Generation::Full => collector.threshold(),
        Generation::Minor => {
            let room = collector.generations.room_after_minor(live);
            room.max(collector.settings.min_trigger).min(collector.threshold())
        }
    };
    let due = if is_worth_running_beside() {
        concurrent_start(threshold, steps::allocated_during_last())
    } else {
        threshold
    };
    STALL_AT.store(stall_at(threshold, live, due, collector.marked), Relaxed);
    DUE_AT.store(due, Relaxed);
    Due { begins: due, ends: threshold }
}
