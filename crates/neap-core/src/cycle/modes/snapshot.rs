//! What the cycles that mark a snapshot have in common, whoever marks it: what is so from the first stop on, and the last stop.
//!
//! Invariant `[cycle.inv.snapshot]`: an object that was unreachable in the snapshot stays so: what a mutator can reach it got from something reachable, or from memory handed out marked. Only
//! a weak reference or a pointer that the program hides brings such an object back; who reads one says so ([`HeapState::note_revealed`](crate::heap::state::HeapState::note_revealed)), and if then a weak reference leads, or led since ([`former`](crate::refs::former)),
//! to a dead object, or if the snapshot was not marked to the end, the last stop marks everything itself: an ordinary cycle. Used as the way that it is a part of.

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
use super::stopped::{Stop, mark_uncollectable, read_roots};
use crate::alloc::sweep;
use crate::heap::HEAP;
use crate::heap::state::Snapshot;
use crate::mark::drain::Marker;
use crate::mark::frozen::Inward;
use crate::mark::rescan;
use crate::mark::team::Team;
use crate::refs;
use crate::world::mutator::Mutator;

/// What such a cycle keeps between its steps.
#[derive(Default)]
pub struct Taken {
    /// What it did so far.
    pub record: CycleRecord,
    /// Whether everything that was reachable in the snapshot is marked.
    pub answered: bool,
    /// Markers of a stopped cycle, the driver included.
    markers: usize,
    /// Bytes allocated when objects began to be born marked.
    black_from: usize,
    /// Bytes allocated when the cycle began.
    began_at: usize,
    /// Bytes allocated while the last cycle ran.
    pub allocated_during_last: usize,
}

impl Taken {
    /// Begins a cycle: finishes the last sweep and clears marks. World running, on the collector's thread.
    pub fn begin(&mut self, kind: Kind) {
        self.record = CycleRecord {
            number: CYCLES.load(Relaxed) + 1,
            kind,
            live_before_bytes: HEAP.state.live_bytes.load(Relaxed),
            ..CycleRecord::default()
        };
        self.answered = false;
        self.began_at = HEAP.state.allocated_since_cycle.load(Relaxed);
        sweep::finish(&HEAP);
        HEAP.clear_marks();
    }

    /// This is the moment: from here on objects are born marked. In the first stop, before the roots are read.
    pub fn take(&mut self, collector: &Collector) {
        HEAP.state.marked_bytes.store(0, Relaxed);
        self.black_from = HEAP.state.allocated_since_cycle.load(Relaxed);
        HEAP.state.marking.store(true, Relaxed);
        HEAP.state.allocate_black.store(true, Relaxed);
        refs::former::forget();
        HEAP.state.set_snapshot(Snapshot::Taken);
        self.markers = collector.markers;
    }

    /// Helpers that the last stop would want if it has to mark. World running, on the collector's thread.
    pub fn expect_to_mark(&self) {
        markers::ensure(self.markers.saturating_sub(1));
    }

    /// The last stop; ends the cycle. `own` is the calling mutator, if it is one.
    pub fn remark(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        collector.step(Step::Stopped);
        let stop = Stop::begin(collector, own);
        let team = markers::team();
        team.alone();
        #[allow(unsafe_code)]
        // SAFETY: this thread drives the stop, under the collector's lock.
        let marker = unsafe { markers::driver() };
        let brought_back =
            HEAP.state.was_revealed() && refs::any_weak_dies(&Settling::new(team, &HEAP, marker));
        let allocated = HEAP.state.allocated_since_cycle.load(Relaxed);
        if self.answered && !brought_back {
            let born = allocated.saturating_sub(self.black_from);
            HEAP.state.born_marked_bytes.store(born, Relaxed);
            stop.registry.iter().for_each(|mutator| mutator.local.settle(&HEAP));
        } else {
            self.record.kind = Kind::Stopped;
            self.mark_stopped(collector, &stop, team, marker);
        }
        HEAP.state.set_snapshot(Snapshot::None);
        collector.step(Step::Drained);
        tell(CycleEvent::MarkEnd);
        let phase = Instant::now();
        refs::settle(&mut Settling::new(team, &HEAP, marker));
        marker.report();
        self.record.settle_ns = super::stopped::nanoseconds(phase);
        self.allocated_during_last = allocated.saturating_sub(self.began_at);
        stop.hand_to_sweep(collector, &mut self.record, false);
        let stopped_ns = stop.so_far_ns() + self.record.first_ns;
        conclude(collector, Generation::Full, &mut self.record, stopped_ns);
        self.record.pause_ns = stop.end();
        self.record.publish();
    }

    /// What was not marked before: everything is marked here, from the roots as they are now.
    fn mark_stopped(
        &mut self,
        collector: &mut Collector,
        stop: &Stop,
        team: &'static Team,
        marker: &mut Marker<'static>,
    ) {
        let helpers = markers::existing().min(self.markers.saturating_sub(1));
        HEAP.clear_marks();
        refs::process::forget_scanned();
        marker.forget_work();
        HEAP.state.marked_bytes.store(0, Relaxed);
        HEAP.state.born_marked_bytes.store(0, Relaxed);
        team.begin(1 + helpers, false);
        read_roots(collector, stop, team, marker);
        refs::trace_registered(&mut Settling::new(team, &HEAP, marker));
        marker.scan_frozen(Inward::Scanned);
        mark_uncollectable(marker);
        self.record.markers = 1 + markers::work(team, marker);
        team.alone();
        rescan::until_complete(team, marker);
    }
}
