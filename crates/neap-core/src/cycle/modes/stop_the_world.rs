//! A full cycle with the world stopped: the reference for every other mode.
//!
//! The steps: finish the last sweep and clear the mark bits, world running · stop · let each thread
//! keep the cells of their buffers · read roots · mark in parallel · process references · hand the
//! blocks to the sweep · resume. What is allocated between clearing and stopping is unmarked like
//! everything else. A stop that was to be no longer than planned may end in the midst of marking
//! `[cycle.why.ended-early]`: the caller begins the cycle anew. Called by the thread that has the
//! collector's lock and the driver token.

use core::sync::atomic::Ordering::*;

use crate::check;
use crate::cycle::collector::Collector;
use crate::cycle::phase::Step;
use crate::cycle::phases::finish::finish;
use crate::cycle::phases::pause::{Pause, clear_marks_beside};
use crate::cycle::policy::generation::Generation;
use crate::cycle::policy::stop_time::helpers_in_stop;
use crate::cycle::report::callbacks::{self, CycleEvent, tell};
use crate::cycle::report::line;
use crate::cycle::report::record::Kind;
use crate::cycle::report::spans::{SpanKind, timed};
use crate::cycle::schedule;
use crate::cycle::token::Driver;
use crate::mark::frozen_roots::Closed;
use crate::mark::markers::Until;
use crate::mark::rescan;
use crate::refs;
use crate::sys::clock;
use crate::world::mutator::Mutator;

/// How long the stop may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As long as it takes.
    Any,
    /// No longer than was planned: the cycle can run beside the program instead.
    Planned {
        /// Nor is there one if it turns out not to be due.
        if_due: bool,
    },
}

/// Why a cycle was not run: nothing was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRun {
    /// The world could not be stopped.
    Unstopped,
    /// There is so much static data, which nobody knew before, that the stop would be too long, or
    /// that the cycle is not due yet.
    MuchToRead,
    /// More is alive than was expected, or marking takes longer: the stop ended before it was too
    /// long.
    OutOfTime,
}

/// Runs the cycle. The caller holds the collector's lock and no other, and `own`, its mutator if it
/// is one, has its position on the stack noted. `kind` is [`Kind::Stopped`], or [`Kind::Alone`]
/// unless another thread has come meanwhile.
pub fn run(
    driver: &mut Driver,
    collector: &mut Collector,
    own: Option<&Mutator>,
    kind: Kind,
    length: Length,
) -> Result<(), NotRun> {
    let (heap, began) = (driver.heap, timed(SpanKind::Protect));
    driver.begin_record(kind, began);
    callbacks::before_roots(true);
    collector.step(Step::Begin);
    refs::begin_cycle(true);
    heap.finish_sweep(|| ());
    clear_marks_beside(heap);
    let wanted = helpers_in_stop(heap.state.expected_scanned_bytes(), collector.markers);
    let helpers = if wanted > 0 { driver.workers.ensure(wanted) } else { 0 };
    driver.record.protect_ns = began.over(driver.record.number);
    driver.record.markers = 1 + helpers;

    collector.step(Step::Protected);
    let pause = Pause::begin(driver, collector, own).ok_or(NotRun::Unstopped)?;
    // Who was told of the cycle is asked for its roots, too.
    if let Length::Planned { if_due } = length
        && !callbacks::program_takes_part()
        && !schedule::still_fits(collector, &pause.stopped, if_due)
    {
        driver.stood_before = Some(pause.end());
        return Err(NotRun::MuchToRead);
    }
    driver.record.stopping_ns = pause.stopping_ns;
    if pause.registry.count() > 1 {
        driver.record.kind = Kind::Stopped;
    }
    let (phase, processor_ns) = (timed(SpanKind::StoppedRoots), clock::own_processor_ns());
    tell(CycleEvent::MarkStart);
    driver.markers().begin(1 + helpers, false);
    driver.markers().aside.begin_tracing();
    heap.state.marked_bytes.store(0, Relaxed);
    heap.state.born_marked_bytes.store(0, Relaxed);
    let is_timed = length != Length::Any && helpers == 0;
    match is_timed {
        // With an eye on the clock all is marked below.
        true => driver.read_roots(collector, &pause),
        false => driver.read_roots_marking(collector, &pause, helpers),
    }
    driver.trace_registered();
    driver.marker.scan_frozen(Closed::Scanned);
    driver.mark_uncollectable();
    collector.step(Step::RootsRead);
    driver.record.roots_ns = phase.over(driver.record.number);

    let phase = timed(SpanKind::StoppedMark);
    if is_timed {
        let longest_ns = match check::ends_early(driver.record.number) {
            true => 0,
            false => collector.stop_time.marking_ends_ns(collector.longest_stop_ns()),
        };
        if !driver.marker.drain_until(Until::Clock(pause.ends_ns(longest_ns))) {
            phase.over(driver.record.number);
            schedule::note_ended_early(collector, clock::own_processor_ns() - processor_ns);
            driver.stood_before = Some(pause.end());
            return Err(NotRun::OutOfTime);
        }
    }
    mark(driver, helpers);
    driver.ask_when_marked();
    collector.step(Step::Drained);
    driver.record.mark_ns = phase.over(driver.record.number);
    driver.record.traced_processor_ns = Some(clock::own_processor_ns() - processor_ns);
    tell(CycleEvent::MarkEnd);

    let phase = timed(SpanKind::StoppedReferences);
    driver.process_references();
    driver.record.references_ns = phase.over(driver.record.number);
    pause.hand_to_sweep(driver, collector, false);
    finish(driver, collector, Generation::Full, pause.so_far_ns());
    let stop = pause.end();
    if driver.record.kind == Kind::Stopped {
        driver.record.note_stop(SpanKind::LastStop, stop);
    }
    // It protected nothing: pages that still are cost a fault each, once.
    heap.state.protects.store(false, Relaxed);
    line::publish(&mut driver.record);
    Ok(())
}

fn mark(driver: &mut Driver, helpers: usize) {
    let (markers, workers) = (driver.markers(), driver.workers);
    markers.done.become_active();
    if helpers > 0 {
        workers.open(helpers);
    }
    driver.marker.work_as_driver();
    if helpers > 0 {
        workers.shut();
    }
    markers.alone();
    rescan::until_complete(markers, &mut driver.marker);
}
