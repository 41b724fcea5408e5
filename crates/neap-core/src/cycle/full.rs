//! A full cycle with the world stopped: the reference for every other way to collect.
//!
//! The steps: finish the last sweep and clear the mark bits, world running · stop · let each thread keep the cells of its runs · read roots · mark in parallel · settle
//! references · hand the blocks to the sweep · resume. What is allocated between clearing and stopping is unmarked like everything else.
//! Rule `[cycle.rule.stop]`: between stop and resume nothing allocates from malloc and no lock is taken but those that no mutator holds then.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::*;
use std::time::Instant;

use super::collector::{Collector, set_due};
use super::events::{CycleEvent, tell};
use super::phase::Step;
use super::report::{CYCLES, CycleRecord};
use super::settle::Settling;
use super::{markers, root_callback};
use crate::addr::CellIndex;
use crate::alloc::sweep;
use crate::heap::HEAP;
use crate::heap::lookup::Cell;
use crate::mark::drain::Marker;
use crate::mark::team::Team;
use crate::mark::tracer::Tracer;
use crate::mark::{rescan, verify};
use crate::sys::print;
use crate::world::mutator::Mutator;
use crate::world::registry::{self, Registry};
use crate::world::{Stopped, stop};
use crate::{check, refs};

/// Marking that is expected to take less than helpers need to wake up is done alone.
const PARALLEL_ABOVE_BYTES: usize = 1 << 20;

fn nanoseconds(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// Runs the cycle. The caller holds the collector's lock and no other, and `mutator`, the caller's own, has its position on the stack noted.
pub fn run(collector: &mut Collector, mutator: &Mutator) {
    let mut record = CycleRecord { number: CYCLES.load(Relaxed) + 1, ..CycleRecord::default() };
    tell(CycleEvent::CycleStart);
    collector.step(Step::Begin);
    let began = Instant::now();
    sweep::finish(&HEAP);
    HEAP.clear_marks();
    let wanted = HEAP.state.expected_live_bytes() > PARALLEL_ABOVE_BYTES && collector.markers > 1;
    let helpers = if wanted { markers::ensure(collector.markers - 1) } else { 0 };
    let team = markers::team();
    tell(CycleEvent::BeforeStop);
    let mut registry = registry::lock();
    record.arm_ns = nanoseconds(began);

    let stopping = Instant::now();
    let mut token = None;
    let mut pause = stopping;
    // The signals are sent from within the loader's lock, and the clock of the stop starts there.
    collector.images.list(|| {
        pause = Instant::now();
        token = Some(stop::stop(&mut registry, mutator));
    });
    let Some(stopped) = token else { return };
    collector.step(Step::Stopped);
    tell(CycleEvent::Stopped);
    record.stopping_ns = nanoseconds(pause);
    record.allocated_bytes = HEAP.state.allocated_since_cycle.load(Relaxed);
    record.markers = 1 + helpers;
    record.mutators = registry.count();

    let phase = Instant::now();
    tell(CycleEvent::MarkStart);
    team.begin(1 + helpers);
    HEAP.state.live_bytes.store(0, Relaxed);
    let mut marker = Marker::new(team, &HEAP, 0);
    read_roots(collector, &registry, &stopped, team, &mut marker);
    collector.step(Step::RootsRead);
    record.roots_ns = nanoseconds(phase);

    let phase = Instant::now();
    mark(team, &mut marker, helpers);
    collector.step(Step::Drained);
    record.mark_ns = nanoseconds(phase);
    tell(CycleEvent::MarkEnd);

    let phase = Instant::now();
    refs::settle(&mut Settling::new(team, &HEAP, &mut marker));
    marker.report();
    record.settle_ns = nanoseconds(phase);
    verify_marks(&stopped);

    record.live_bytes = HEAP.state.live_bytes.load(Relaxed);
    let mut inner = HEAP.inner();
    inner.begin_sweep();
    record.committed_bytes = inner.granules.resident() * crate::addr::GRANULE_BYTES;
    drop(inner);
    HEAP.state.allocated_since_cycle.store(0, Relaxed);
    HEAP.state.freed_since_cycle.store(0, Relaxed);
    HEAP.state.cycles.store(record.number, Relaxed);
    record.next_bytes = set_due(&collector.settings);
    tell(CycleEvent::BeforeResume);
    stop::resume(stopped);
    record.pause_ns = nanoseconds(pause);
    drop(registry);
    drop(marker);
    collector.step(Step::Finished);
    tell(CycleEvent::Resumed);
    record.publish();
}

/// Settles the threads' runs and reads every root.
fn read_roots<'t>(
    collector: &mut Collector,
    registry: &Registry,
    stopped: &Stopped,
    team: &'t Team,
    marker: &mut Marker<'t>,
) {
    for mutator in registry.iter() {
        mutator.local.settle(&HEAP);
        collector.images.of_mutator(registry, mutator, stopped, |range| {
            // SAFETY: a stopped thread's stack, registers and thread-local blocks are mapped and readable.
            unsafe { marker.range(range.start, range.end) };
        });
    }
    for stack in registry.stacks() {
        let left = stack.left();
        // SAFETY: a declared stack is readable until it is retired, which needs the registry's lock.
        unsafe { marker.range(left.start, left.end) };
        stack.registers().for_each(|register| marker.word(register));
    }
    collector.images.for_each(stopped, |range| {
        // SAFETY: writable segments of loaded objects, and ranges that the program vouches for.
        unsafe { marker.range(range.start, range.end) };
    });
    mark_uncollectable(marker);
    refs::trace_roots(&mut Settling::new(team, &HEAP, marker));
    root_callback::call(&mut Tracer::new(marker));
}

/// Objects that live until freed are roots themselves.
fn mark_uncollectable(marker: &mut Marker<'_>) {
    HEAP.inner().for_each_uncollectable(&HEAP, |block| {
        let header = HEAP.header(block);
        HEAP.for_each_object(block, header, |index: CellIndex, start| {
            if HEAP.bits(block).mark::<false>(index) {
                marker.count(header.cell_bytes());
                marker.scan_object(&Cell { block, header, index, start });
            }
        });
    });
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

/// `NEAP_CHECK`: 2 checks the heap's structure, 3 also every marked object's pointers.
fn verify_marks(_: &Stopped) {
    if check::level() >= 2
        && let Err(broken) = HEAP.verify()
    {
        print::fatal(format_args!("NEAP_CHECK: {broken}"));
    }
    if check::level() >= 3
        && let Some(lost) = verify::find_lost(&HEAP)
    {
        print::fatal(format_args!(
            "NEAP_CHECK: object {:#x} is marked, and its child {:#x} is not",
            lost.parent, lost.child
        ));
    }
}

impl Collector {
    /// Advances the phase machine.
    fn step(&mut self, step: Step) {
        match self.phase.after(step) {
            Some(next) => self.phase = next,
            None => print::fatal(format_args!(
                "[cycle.inv.phases] {step:?} is not allowed in {:?}",
                self.phase
            )),
        }
    }
}
