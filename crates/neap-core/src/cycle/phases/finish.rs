//! The end of every cycle: what it found is counted, the trigger is set anew, and blocks may be swept.
//!
//! Invariant `[cycle.rule.conclude]`: references are settled, so every object that is to stay is marked. The world is stopped, or it runs and everything is born marked until here. Called by who drove the last stop.

use core::sync::atomic::Ordering::*;
use std::time::Instant;

use super::collector::Collector;
use super::due::{SETTLING_NS, set_due};
use super::generation::{Generation, Yield};
use super::limits;
use super::pacer::Cycle;
use super::phase::Step;
use super::report::{CycleRecord, Kind};
use super::stopped::nanoseconds;
use super::trigger::smoothed_share;
use crate::heap::{HEAP, samples};
use crate::stats::sampler;

/// Put-off objects freed in one hold of the heap's lock: some ten microseconds.
const FREED_AT_ONCE: usize = 256;

/// Ends the cycle, in which the world stood for `stopped_ns` in all.
pub fn conclude(
    collector: &mut Collector,
    generation: Generation,
    record: &mut CycleRecord,
    stopped_ns: u64,
) {
    if sampler::mean() != 0 {
        samples::lock().settle(&HEAP);
    }
    count(collector, record);
    SETTLING_NS.store(record.settle_ns, Relaxed);
    let running_ns = record.arm_ns
        + match record.kind {
            Kind::Stopped => 0,
            _ => record.mark_ns,
        };
    // Work in the background costs the program as much as a stop, on another processor.
    let work_ns = stopped_ns + if record.kind == Kind::Stopped { 0 } else { running_ns };
    let elapsed_ns = collector.ended.map_or(0, nanoseconds);
    collector.share = smoothed_share(collector.share, work_ns, elapsed_ns);
    let refuse = collector.ended.is_some()
        && collector.pacer.note(&Cycle {
            elapsed_ns: elapsed_ns.max(stopped_ns),
            stopped_ns,
            running_ns,
            workers: record.markers,
            processors: collector.processors,
            allocated_bytes: record.allocated_bytes,
            live_bytes: record.live_bytes,
            limit_bytes: HEAP.max_bytes(),
        });
    if limits::was_explicit() {
        collector.pacer.forget_strain();
    } else if refuse {
        limits::refuse_next();
    }
    collector.ended = Some(Instant::now());
    let held = record.live_before_bytes + record.allocated_bytes;
    let freed_bytes = held.saturating_sub(record.live_bytes);
    collector.yielded(
        generation,
        Yield { allocated_bytes: record.allocated_bytes, freed_bytes, work_ns },
    );
    let due = set_due(collector);
    (record.next_bytes, record.room_bytes) = (due.begins, due.ends);
    collector.step(Step::Finished);
}

/// Counts begin anew, objects are born as usual, and blocks may be swept.
fn count(collector: &mut Collector, record: &mut CycleRecord) {
    collector.marked_before = collector.marked;
    collector.marked = HEAP.state.marked_bytes.load(Relaxed);
    let frozen = HEAP.state.frozen_bytes.load(Relaxed);
    record.live_bytes = collector.marked + frozen + HEAP.state.born_marked_bytes.load(Relaxed);
    HEAP.state.live_bytes.store(record.live_bytes, Relaxed);
    record.allocated_bytes = HEAP.state.allocated_since_cycle.swap(0, Relaxed);
    HEAP.state.freed_since_cycle.store(0, Relaxed);
    HEAP.state.cycles.store(record.number, Relaxed);
    let mut inner = HEAP.inner();
    while !inner.put_off.free(&HEAP, FREED_AT_ONCE) {
        // Others wait for the lock.
        drop(inner);
        inner = HEAP.inner();
    }
    HEAP.state.marking.store(false, Relaxed);
    HEAP.state.allocate_black.store(false, Relaxed);
    inner.let_sweep();
    drop(inner);
    HEAP.state.marks.store(record.number * 2, Release);
}
