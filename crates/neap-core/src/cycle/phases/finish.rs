//! The end of every cycle: what it found is counted, the trigger is set anew, and blocks may be
//! swept.
//!
//! Invariant `[cycle.rule.conclude]`: references are processed, so every object that is to stay is
//! marked. The world is stopped, or it runs and everything is born marked until here. Called by who
//! drove the last pause.

use crate::sys::clock::Instant;
use core::sync::atomic::Ordering::*;

use super::pause::nanoseconds;
use crate::addr::FRAME_BYTES;
use crate::cycle::collector::Collector;
use crate::cycle::limits;
use crate::cycle::phase::Step;
use crate::cycle::policy::generation::{Generation, WRITTEN_PAGE_NS, Yield};
use crate::cycle::policy::pacer::Cycle;
use crate::cycle::policy::stop_time::{Mark, Measured, helpers_in_stop};
use crate::cycle::policy::trigger::{ROOTS_WEIGH, smoothed_share};
use crate::cycle::report::record::{CycleRecord, Kind};
use crate::cycle::schedule::set_due;
use crate::cycle::token::Driver;
use crate::heap::state::SURVIVING;
use crate::heap::{Heap, samples};
use crate::stats::sampler;
use crate::sys::process::resident;

/// Where the driver marked less beside the program, its speed is not known.
const LEAST_MARKED: usize = 64 << 10;
/// With more than so many bytes beside what is live it is looked, which takes 4 µs, whether they
/// are in memory: a program may never touch most of what it allocates.
const MUCH_SPARE: usize = 8 << 20;

/// Ends the cycle, in which the world stood for `stopped_ns` in all.
pub fn finish(
    driver: &mut Driver,
    collector: &mut Collector,
    generation: Generation,
    stopped_ns: u64,
) {
    let (heap, record) = (driver.heap, &mut driver.record);
    if sampler::mean() != 0 {
        samples::lock().drop_dead(heap);
    }
    let freed_by_program = count(heap, collector, record, generation);
    let measured = measured(heap, collector, record, stopped_ns);
    collector.stop_time.note(&measured);
    if matches!(measured.mark, Mark::Stopped { .. }) {
        collector.snapshot_stops.note_stopped_cycle();
    }
    let beside = record.kind.runs_beside();
    let running_ns = record.protect_ns + if beside { record.mark_ns } else { 0 };
    // Work in the background costs the program as much as a stop, on another processor.
    let work_ns = stopped_ns + if beside { running_ns } else { 0 };
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
            limit_bytes: heap.max_bytes(),
        });
    if limits::was_explicit() {
        collector.pacer.forget_strain();
    } else if refuse {
        limits::refuse_next();
    }
    collector.ended = Some(Instant::now());
    let held = record.live_before_bytes + record.allocated_bytes;
    let freed_bytes = held.saturating_sub(freed_by_program + record.live_bytes);
    let allocated_bytes = record.allocated_bytes.saturating_sub(freed_by_program);
    let yielded = Yield { allocated_bytes, freed_bytes, work_ns };
    heap.state.surviving.store(yielded.surviving(SURVIVING), Relaxed);
    collector.last = generation;
    match generation {
        Generation::Full => {
            collector.generations.after_full(yielded, record.live_bytes);
            let room = collector.room().until_full;
            collector.generations.give_room(record.live_bytes, room);
        }
        Generation::Minor => {
            let watching_ns = record.remembered_pages as u64 * WRITTEN_PAGE_NS;
            let yielded = Yield { work_ns: work_ns.saturating_add(watching_ns), ..yielded };
            collector.generations.after_minor(yielded, record.live_bytes);
        }
    }
    let due = set_due(collector);
    (record.next_bytes, record.room_bytes) = (due.begins, due.ends);
    collector.step(Step::Finished);
}

/// What the cycle says about how long a stop for a whole one takes.
fn measured(heap: &Heap, collector: &Collector, record: &CycleRecord, stopped_ns: u64) -> Measured {
    let scanned_bytes = collector.marked.min(heap.state.scanned_bytes.load(Relaxed));
    let scanned_bytes = scanned_bytes + collector.stack_bytes;
    if let Some(ns) = record.traced_processor_ns {
        let fixed_ns = stopped_ns.saturating_sub(record.roots_ns + record.mark_ns);
        let scanned_bytes = scanned_bytes + collector.root_bytes / ROOTS_WEIGH;
        let is_short = fixed_ns + ns <= collector.longest_stop_ns();
        return Measured { fixed_ns, mark: Mark::Stopped { ns, is_short }, scanned_bytes };
    }
    let references_ns = record.references_ns + record.references_running_ns;
    let fixed_ns = record.stopping_ns + references_ns;
    let is_of_all = matches!(record.kind, Kind::Concurrent | Kind::Fork);
    let is_known = is_of_all && record.beside_bytes >= LEAST_MARKED;
    let of_all = collector.marked as f64 / record.beside_bytes.max(1) as f64;
    let beside_ns = (record.beside_ns as f64 * of_all) as u64;
    // What the program's own functions mark was left to the last stop.
    let alone_ns = is_known.then_some(beside_ns + record.remark_ns);
    let helpers = helpers_in_stop(scanned_bytes, collector.markers);
    let mark = Mark::Beside { alone_ns, helpers };
    Measured { fixed_ns, mark, scanned_bytes }
}

/// Counts begin anew, objects are born as usual, and blocks may be swept. Gives the bytes that the
/// program freed itself since the cycle before.
fn count(
    heap: &Heap,
    collector: &mut Collector,
    record: &mut CycleRecord,
    generation: Generation,
) -> usize {
    let marked_before = collector.marked;
    collector.marked = heap.state.marked_bytes.load(Relaxed);
    let frozen = heap.state.frozen_bytes.load(Relaxed);
    record.live_bytes = collector.marked + frozen + heap.state.born_marked_bytes.load(Relaxed);
    heap.state.live_bytes.store(record.live_bytes, Relaxed);
    record.allocated_bytes = heap.state.allocated_since_cycle.swap(0, Relaxed);
    let gained_bytes = collector.marked.saturating_sub(marked_before);
    collector.gained = gained_bytes as f64 / record.allocated_bytes.max(1) as f64;
    heap.state.cycles.store(record.number, Relaxed);
    let counted = heap.inner();
    let freed = heap.state.take_freed();
    drop(counted);
    let mut held_bytes = 0;
    heap.end_marking(|inner| {
        inner.let_sweep();
        held_bytes = inner.frames.resident() * FRAME_BYTES;
    });
    heap.state.marks.store(record.number * 2, Release);
    if generation == Generation::Full {
        collector.frame_bytes = held_bytes;
    }
    collector.held_bytes = match held_bytes.saturating_sub(record.live_bytes) {
        ..MUCH_SPARE => held_bytes,
        _ => held_bytes.min(resident::in_memory().unwrap_or(0)),
    };
    freed
}
