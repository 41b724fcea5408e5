//! A full cycle with the world stopped: the reference for every other way to collect.
//!
//! The steps: finish the last sweep and clear the mark bits, world running · stop · let each thread keep the cells of its runs · read roots · mark in parallel · settle
//! references · hand the blocks to the sweep · resume. What is allocated between clearing and stopping is unmarked like everything else.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::*;
use std::time::Instant;

use super::collector::Collector;
use super::conclude::conclude;
use super::events::{CycleEvent, tell};
use super::generation::Generation;
use super::markers;
use super::phase::Step;
use super::report::{CYCLES, CycleRecord, Kind};
use super::settle::Settling;
use super::stopped::{Stop, mark_uncollectable, nanoseconds, read_roots};
use crate::alloc::sweep;
use crate::heap::HEAP;
use crate::mark::drain::Marker;
use crate::mark::frozen::Inward;
use crate::mark::rescan;
use crate::mark::team::Team;
use crate::refs;
use crate::world::mutator::Mutator;

/// Marking that is expected to take less than helpers need to wake up is done alone.
const PARALLEL_ABOVE_BYTES: usize = 1 << 20;

/// Runs the cycle. The caller holds the collector's lock and no other, and `own`, its mutator if it is one, has its position on the stack noted.
pub fn run(collector: &mut Collector, own: Option<&Mutator>) {
    let mut record = CycleRecord {
        number: CYCLES.load(Relaxed) + 1,
        kind: Kind::Stopped,
        live_before_bytes: HEAP.state.live_bytes.load(Relaxed),
        ..CycleRecord::default()
    };
    tell(CycleEvent::CycleStart);
    collector.step(Step::Begin);
    let began = Instant::now();
    sweep::finish(&HEAP);
    HEAP.clear_marks();
    let wanted =
        HEAP.state.expected_scanned_bytes() > PARALLEL_ABOVE_BYTES && collector.markers > 1;
    let helpers = if wanted { markers::ensure(collector.markers - 1) } else { 0 };
    let team = markers::team();
    record.arm_ns = nanoseconds(began);
    record.markers = 1 + helpers;

    collector.step(Step::Armed);
    let stop = Stop::begin(collector, own);
    record.stopping_ns = stop.stopping_ns;
    let phase = Instant::now();
    tell(CycleEvent::MarkStart);
    team.begin(1 + helpers, false);
    HEAP.state.marked_bytes.store(0, Relaxed);
    HEAP.state.born_marked_bytes.store(0, Relaxed);
    // SAFETY: this thread drives the stop, under the collector's lock.
    let marker = unsafe { markers::driver() };
    read_roots(collector, &stop, team, marker);
    refs::trace_registered(&mut Settling::new(team, &HEAP, marker));
    marker.scan_frozen(Inward::Scanned);
    mark_uncollectable(marker);
    collector.step(Step::RootsRead);
    record.roots_ns = nanoseconds(phase);

    let phase = Instant::now();
    mark(team, marker, helpers);
    collector.step(Step::Drained);
    record.mark_ns = nanoseconds(phase);
    tell(CycleEvent::MarkEnd);

    let phase = Instant::now();
    refs::settle(&mut Settling::new(team, &HEAP, marker));
    marker.report();
    record.settle_ns = nanoseconds(phase);
    stop.hand_to_sweep(collector, &mut record, false);
    conclude(collector, Generation::Full, &mut record, stop.so_far_ns());
    record.pause_ns = stop.end();
    record.publish();
}

fn mark(team: &Team, marker: &mut Marker<'_>, helpers: usize) {
    team.done.become_active();
    if helpers > 0 {
        markers::open();
    }
    marker.work_as_driver();
    if helpers > 0 {
        markers::shut();
    }
    team.alone();
    rescan::until_complete(team, marker);
}
