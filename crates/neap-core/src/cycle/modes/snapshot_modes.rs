//! What the modes that mark a snapshot share, whoever marks it: the state that holds from the first
//! pause on, and the last pause.
//!
//! Invariant `[cycle.inv.snapshot]`: an object that was unreachable in the snapshot stays so: what
//! a mutator can reach it got from something reachable, or from memory handed out marked (snapshot
//! at the beginning, SATB: T. Yuasa, "Real-time garbage collection on general-purpose machines",
//! 1990). Only a weak reference or a pointer that the program hides brings such an object back. Who
//! reads one says so ([`HeapState::note_revealed`](crate::heap::state::HeapState::note_revealed)).
//! If then a weak reference leads, or led since (`retargeted`), to a dead object, or if the
//! snapshot was not marked to the end, the last pause marks everything itself: an ordinary cycle.
//! Used as the mode that it is a part of.

use super::marking_mode::Left;
use crate::cycle::collector::Collector;
use crate::cycle::phase::Step;
use crate::cycle::phases::finish::finish;
use crate::cycle::phases::pause::{Pause, begin_marking, clear_marks_beside};
use crate::cycle::phases::reference_processing::References;
use crate::cycle::policy::generation::Generation;
use crate::cycle::report::callbacks::{self, CycleEvent, tell};
use crate::cycle::report::line;
use crate::cycle::report::record::Kind;
use crate::cycle::report::spans::{SpanKind, Timed, timed};
use crate::cycle::token::Driver;
use crate::heap::Heap;
use crate::heap::state::Snapshot;
use crate::mark::frozen_roots::Closed;
use crate::mark::rescan;
use crate::refs;
use crate::world::mutator::Mutator;
use core::sync::atomic::Ordering::*;

/// What such a cycle keeps between its steps.
#[derive(Default)]
pub struct SnapshotCycle {
    /// Whether everything that was reachable in the snapshot is marked.
    pub answered: bool,
    /// Markers of a stopped cycle, the driver included.
    markers: usize,
    /// Bytes allocated when objects began to be born marked.
    black_from: usize,
    /// Bytes allocated when the cycle began.
    began_at: usize,
}

impl SnapshotCycle {
    /// Begins a cycle, with `began`: finishes the last sweep and clears marks. World running, on
    /// the collector's thread.
    pub fn begin(&mut self, driver: &mut Driver, kind: Kind, began: Timed) {
        let heap = driver.heap;
        driver.begin_record(kind, began);
        self.answered = false;
        self.began_at = heap.state.allocated_since_cycle.load(Relaxed);
        refs::begin_cycle(true);
        heap.finish_sweep(|| ());
        clear_marks_beside(heap);
    }

    /// This is the moment: from here on objects are born marked. In the first pause, before the
    /// roots are read.
    pub fn take(&mut self, heap: &Heap, collector: &Collector) {
        heap.state.marked_bytes.store(0, Relaxed);
        self.black_from = heap.state.allocated_since_cycle.load(Relaxed);
        begin_marking(heap);
        heap.state.allocate_black.store(true, Relaxed);
        refs::handles::retargeted::forget();
        heap.state.set_snapshot(Snapshot::Taken);
        self.markers = collector.markers;
    }

    /// Helpers that the last pause would want if it has to mark. World running, on the collector's
    /// thread.
    pub fn expect_to_mark(&self, driver: &Driver) {
        driver.workers.ensure(self.markers.saturating_sub(1));
    }

    /// The last pause; finishes the cycle. `own` is the calling mutator, if it is one.
    pub fn remark(
        &mut self,
        driver: &mut Driver,
        collector: &mut Collector,
        own: Option<&Mutator>,
    ) -> Left {
        let heap = driver.heap;
        collector.step(Step::Stopped);
        // This stop may have to read the roots.
        refs::links::toggle::ask();
        if !self.answered {
            callbacks::before_roots(false);
        }
        let Some(pause) = Pause::begin(driver, collector, own) else { return Left::All };
        driver.markers().alone();
        let brought_back =
            heap.state.was_revealed() && refs::any_weak_dies(&References::new(driver));
        let allocated = heap.state.allocated_since_cycle.load(Relaxed);
        let is_in_vain = !self.answered || brought_back;
        if !is_in_vain {
            let born = allocated.saturating_sub(self.black_from);
            heap.state.born_marked_bytes.store(born, Relaxed);
            pause.registry.iter().for_each(|mutator| mutator.local.keep_cells(heap));
        } else {
            driver.record.kind = Kind::Stopped;
            self.mark_stopped(driver, collector, &pause);
        }
        heap.state.set_snapshot(Snapshot::None);
        driver.ask_when_marked();
        collector.step(Step::Drained);
        tell(CycleEvent::MarkEnd);
        let phase = timed(SpanKind::StoppedReferences);
        refs::keep_toggles_once(&mut References::new(driver));
        driver.process_references();
        driver.record.references_ns = phase.over(driver.record.number);
        collector.allocated_during_last = allocated.saturating_sub(self.began_at);
        let is_over = !heap.inner().deferred_frees.are_many();
        pause.hand_to_sweep(driver, collector, !is_over);
        let stopped_ns = pause.so_far_ns() + driver.record.stopped_ns();
        collector.snapshot_stops.note(stopped_ns, is_in_vain);
        if !is_over {
            driver.record.note_stop(SpanKind::LastStop, pause.end());
            return Left::Conclusion;
        }
        finish(driver, collector, Generation::Full, stopped_ns);
        driver.record.note_stop(SpanKind::LastStop, pause.end());
        line::publish(&mut driver.record);
        Left::Nothing
    }

    /// Ends a cycle that left that, with the world running: until here everything is born marked.
    pub fn conclude(&mut self, driver: &mut Driver, collector: &mut Collector) {
        finish(driver, collector, Generation::Full, driver.record.stopped_ns());
        line::publish(&mut driver.record);
    }

    /// What was not marked before: everything is marked here, from the roots as they are now.
    fn mark_stopped(&mut self, driver: &mut Driver, collector: &mut Collector, pause: &Pause) {
        let (heap, markers) = (driver.heap, driver.markers());
        let helpers = driver.workers.existing().min(self.markers.saturating_sub(1));
        heap.clear_marks();
        refs::handles::process::forget_scanned();
        driver.marker.forget_work();
        heap.state.marked_bytes.store(0, Relaxed);
        heap.state.born_marked_bytes.store(0, Relaxed);
        markers.begin(driver.workers.places_for(helpers), false);
        let phase = timed(SpanKind::StoppedRoots);
        driver.read_roots(collector, pause);
        driver.trace_registered();
        phase.over(driver.record.number);
        let phase = timed(SpanKind::StoppedMark);
        driver.marker.scan_frozen(Closed::Scanned);
        driver.mark_uncollectable();
        driver.record.markers = driver.mark_with_workers(helpers);
        markers.alone();
        rescan::until_complete(markers, &mut driver.marker);
        phase.over(driver.record.number);
    }
}
