//! A full cycle with the world stopped: the reference for every other mode.
//!
//! The steps: finish the last sweep and clear the mark bits, world running · stop · let each thread
//! keep the cells of their buffers · read roots · mark in parallel · process references · hand the
//! blocks to the sweep · resume. What is allocated between clearing and stopping is unmarked like
//! everything else. Called by the thread that has the collector's lock and the driver token.

use core::sync::atomic::Ordering::*;

use crate::alloc::sweep;
use crate::cycle::collector::Collector;
use crate::cycle::phase::Step;
use crate::cycle::phases::finish::finish;
use crate::cycle::phases::pause::Pause;
use crate::cycle::policy::generation::Generation;
use crate::cycle::report::callbacks::{self, CycleEvent, tell};
use crate::cycle::report::record::{CycleRecord, Kind};
use crate::cycle::report::spans::{SpanKind, Stop, timed};
use crate::cycle::token::Driver;
use crate::mark::frozen_roots::Closed;
use crate::mark::markers::Until;
use crate::mark::rescan;
use crate::refs;
use crate::sys::clock;
use crate::world::mutator::{Activity, Mutator};
use crate::world::returning;

/// How such a cycle ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ended {
    /// What it found dead may be swept.
    Finished,
    /// The world could not be stopped: the cycle has to be given up.
    Unstopped,
    /// It was to stop nobody, and another thread wants to run: it has to be given up.
    Wanted,
}

/// Marking that is expected to take less than helpers need to wake up is done alone.
const PARALLEL_ABOVE_BYTES: usize = 1 << 20;

/// Runs the cycle. The caller holds the collector's lock and no other, and `own`, its mutator if it
/// is one, has its position on the stack noted. `kind` is [`Kind::Stopped`], or [`Kind::Alone`] for
/// a cycle that is to stop nobody `[cycle.why.alone]`.
pub fn run(
    driver: &mut Driver,
    collector: &mut Collector,
    own: Option<&Mutator>,
    kind: Kind,
) -> Ended {
    let (heap, began) = (driver.heap, timed(SpanKind::Protect));
    driver.record = CycleRecord::begin(kind, began, heap.state.live_bytes.load(Relaxed));
    tell(CycleEvent::CycleStart);
    collector.step(Step::Begin);
    refs::begin_cycle(true);
    sweep::finish(heap);
    heap.clear_marks();
    let wanted =
        heap.state.expected_scanned_bytes() > PARALLEL_ABOVE_BYTES && collector.markers > 1;
    let helpers = if wanted { driver.workers.ensure(collector.markers - 1) } else { 0 };
    driver.record.protect_ns = began.over(driver.record.number);
    driver.record.markers = 1 + helpers;

    collector.step(Step::Protected);
    returning::forget();
    let Some(pause) = Pause::begin(driver, collector, own) else { return Ended::Unstopped };
    driver.record.stopping_ns = pause.stopping_ns;
    if kind == Kind::Alone && runs_but(own, &pause) {
        returning::note();
        return give_way(driver, pause);
    }
    let phase = timed(SpanKind::StoppedRoots);
    tell(CycleEvent::MarkStart);
    // Who looks whether to give way shares the marks with somebody.
    let least = if kind == Kind::Alone { 2 } else { 1 };
    driver.markers().begin(least.max(1 + helpers), false);
    driver.markers().aside.begin_tracing();
    heap.state.marked_bytes.store(0, Relaxed);
    heap.state.born_marked_bytes.store(0, Relaxed);
    driver.read_roots(collector, &pause);
    driver.trace_registered();
    driver.marker.scan_frozen(Closed::Scanned);
    driver.mark_uncollectable();
    collector.step(Step::RootsRead);
    driver.record.roots_ns = phase.over(driver.record.number);

    let (phase, processor_ns) = (timed(SpanKind::StoppedMark), clock::own_processor_ns());
    if !mark(driver, helpers, kind) {
        // The end of marking is not told: not everything that is reachable is marked.
        return give_way(driver, pause);
    }
    driver.ask_when_marked();
    collector.step(Step::Drained);
    driver.record.mark_ns = phase.over(driver.record.number);
    driver.record.mark_processor_ns = Some(clock::own_processor_ns() - processor_ns);
    tell(CycleEvent::MarkEnd);

    let phase = timed(SpanKind::StoppedReferences);
    driver.process_references();
    driver.record.references_ns = phase.over(driver.record.number);
    pause.hand_to_sweep(driver, collector, false);
    finish(driver, collector, Generation::Full, pause.so_far_ns());
    end(driver, pause);
    driver.record.publish();
    Ended::Finished
}

/// Lets the world run, and counts how long threads stood: in a cycle that is to stop nobody, those
/// that wanted to run meanwhile.
fn end(driver: &mut Driver, pause: Pause) {
    let mut stop = pause.end();
    if driver.record.kind == Kind::Alone {
        let Some(since_ns) = returning::since_ns() else { return };
        stop = Stop::between(since_ns, stop.began_ns + stop.length_ns);
    }
    driver.record.note_stop(SpanKind::LastStop, stop);
}

/// Whether any mutator but `own` ran when the world was stopped.
fn runs_but(own: Option<&Mutator>, pause: &Pause) -> bool {
    let is_own = |mutator: &Mutator| own.is_some_and(|own| core::ptr::eq(own, mutator));
    pause.registry.iter().any(|mutator| !is_own(mutator) && mutator.activity() != Activity::Blocked)
}

/// Gives a cycle up that was to stop nobody: others may run.
fn give_way(driver: &mut Driver, pause: Pause) -> Ended {
    callbacks::begin_anew();
    end(driver, pause);
    Ended::Wanted
}

/// Marks what is grey and what that leads to; false if another thread wants to run, and the cycle
/// was to stop nobody.
fn mark(driver: &mut Driver, helpers: usize, kind: Kind) -> bool {
    let (markers, workers) = (driver.markers(), driver.workers);
    let until = match kind {
        Kind::Alone => Until::GivenUp(returning::wanted()),
        _ => Until::Done,
    };
    markers.done.become_active();
    if helpers > 0 {
        workers.open(helpers);
    }
    driver.marker.work_as_driver_until(until);
    // Not whether the markers are done: one that looks for work counts as active for a moment.
    let gives_way = until.is_over();
    if gives_way {
        markers.give_up();
    }
    if helpers > 0 {
        workers.shut();
    }
    if !gives_way {
        markers.alone();
        rescan::until_complete(markers, &mut driver.marker);
    }
    !gives_way
}
