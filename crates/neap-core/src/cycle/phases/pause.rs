//! What every stop of a cycle has in common: stopping under the loader's lock, reading roots, ending the cycle, resuming.
//!
//! Invariant `[cycle.rule.stop]`: between stop and resume nothing allocates from malloc, and no lock is taken but those that no mutator holds then. Called by the thread that drives the stop: a mutator, or the
//! collector's own thread when no mutator comes by.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::Ordering::*;
use std::time::Instant;

use super::collector::Collector;
use super::events::{CycleEvent, tell};
use super::phase::{Phase, Step};
use super::report::{CycleRecord, Kind};
use super::root_callback;
use super::settle::Settling;
use crate::addr::{CellIndex, GRANULE_BYTES};
use crate::heap::HEAP;
use crate::heap::lookup::Cell;
use crate::mark::drain::Marker;
use crate::mark::team::Team;
use crate::mark::tracer::Tracer;
use crate::mark::verify;
use crate::stats::live;
use crate::sync::Guard;
use crate::sys::meta_vec::MetaVec;
use crate::sys::print;
use crate::world::mutator::Mutator;
use crate::world::registry::{self, Registry};
use crate::world::roots;
use crate::world::stop::One;
use crate::world::{self, Stopped, current, stop};
use crate::{check, refs};

/// Nanoseconds that have passed.
pub fn nanoseconds(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// A stopped world and what holds it so.
pub struct Stop {
    /// The mutators.
    pub registry: Guard<'static, Registry>,
    /// The proof.
    pub token: Stopped,
    /// When the first signal was sent.
    pub began: Instant,
    /// How long it took until all stood.
    pub stopping_ns: u64,
}

impl Stop {
    /// Stops every mutator but `own`, and lists the loaded objects in the same moment.
    pub fn begin(collector: &mut Collector, own: Option<&Mutator>) -> Self {
        tell(CycleEvent::BeforeStop);
        let mut registry = registry::lock();
        let mut stopped = None;
        let world = world::the();
        let mut stop = || {
            let began = Instant::now();
            stopped = Some((world.stop(&mut registry, own), began));
        };
        // The signals are sent from within the loader's lock where the world allows it, and the clock of the stop starts there.
        if world.stops_under_loader_lock() {
            collector.images.list(stop);
        } else {
            collector.images.list(|| {});
            stop();
        }
        let Some((token, began)) = stopped else {
            print::fatal(format_args!("the loader listed no object"))
        };
        // Before marking everything is swept, so the structure is checked in its other state too.
        if collector.phase == Phase::Roots {
            verify_heap(2);
        }
        tell(CycleEvent::Stopped);
        Self { registry, token, began, stopping_ns: nanoseconds(began) }
    }

    /// Lets the world run; gives the length of the stop.
    pub fn end(self) -> u64 {
        tell(CycleEvent::BeforeResume);
        let over = world::the().resume(self.token);
        let pause_ns = over.saturating_duration_since(self.began).as_nanos() as u64;
        drop(self.registry);
        tell(CycleEvent::Resumed);
        pause_ns
    }

    /// Everything that is to stay is marked, but for what references keep if `held_back`: then blocks are swept only when [`conclude`](super::conclude::conclude) says so. `record` gets what is known now.
    pub fn hand_to_sweep(
        &self,
        collector: &mut Collector,
        record: &mut CycleRecord,
        held_back: bool,
    ) {
        verify_marks(&self.token, record.kind);
        record.mutators = self.registry.count();
        collector.mutators = record.mutators;
        let mut inner = HEAP.inner();
        inner.begin_sweep(held_back);
        record.committed_bytes = inner.granules.resident() * GRANULE_BYTES;
    }

    /// How long the world has stood.
    pub fn so_far_ns(&self) -> u64 {
        nanoseconds(self.began)
    }
}

/// Runs `f` with the world stopped, for something that needs no roots and calls nothing of the program's; gives the length of the stop. On the collector's thread, `collector` its lock.
pub fn briefly(_: &mut Collector, f: impl FnOnce(Instant)) -> u64 {
    let mut registry = registry::lock();
    let began = Instant::now();
    let token = world::the().stop(&mut registry, None);
    f(began);
    let over = world::the().resume(token);
    over.saturating_duration_since(began).as_nanos() as u64
}

/// Whether whoever stores to a range of roots stands while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No: it is read for a start, and again in a stop.
    Runs,
    /// It is a thread that stands.
    Stands,
}

/// Reads a range of roots, or what of it needs to be read.
pub type ReadRange<'r, 't> = &'r mut dyn FnMut(&mut Marker<'t>, Range<usize>);

/// All of it: a [`ReadRange`].
///
/// # Safety
/// The range is one that a `ReadRange` was given: the world and the list of loaded objects promise that what they name is readable while the reading goes on, and the program vouches for its own.
pub unsafe fn read_whole(marker: &mut Marker<'_>, range: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { marker.range(range.start, range.end) };
}

/// Settles the threads' runs and reads every root.
pub fn read_roots<'t>(
    collector: &mut Collector,
    stop: &Stop,
    team: &'t Team,
    marker: &mut Marker<'t>,
) {
    // SAFETY: it is given what roots there are, with the world stopped.
    let whole: ReadRange<'_, 't> = &mut |marker, range| unsafe { read_whole(marker, range) };
    read_roots_by(collector, stop, team, marker, whole);
}

/// The same, where `read` knows better which parts of a range need to be read.
pub fn read_roots_by<'t>(
    collector: &mut Collector,
    stop: &Stop,
    team: &'t Team,
    marker: &mut Marker<'t>,
    read: ReadRange<'_, 't>,
) {
    let Stop { registry, token: stopped, .. } = stop;
    let world = world::the();
    world.for_each_root(current::get(), stopped, &mut |range| read(marker, range));
    for mutator in registry.iter() {
        mutator.local.settle(&HEAP);
        if !world.names_roots_of(mutator, stopped) {
            let standing = stopped.standing();
            collector.images.of_mutator(registry.stacks(), mutator, standing, |range| {
                read(marker, range);
            });
        }
    }
    read_stacks(registry, marker);
    collector.images.for_each(stopped, |range| read(marker, range));
    let settling = &mut Settling::new(team, &HEAP, marker);
    refs::trace_roots(settling);
    refs::monitor::trace_held(settling, stopped);
    // Where this process marks while the world runs, strong handles are read then.
    let runs = HEAP.state.marking.load(Relaxed) && !HEAP.state.has_snapshot();
    if !runs || !matches!(collector.phase, Phase::Roots | Phase::Mark) {
        refs::process::trace_strong(settling);
    }
    root_callback::call(&mut Tracer::new(marker));
}

/// Reads the stacks that are no thread's own and that nobody runs on.
fn read_stacks(registry: &Registry, marker: &mut Marker<'_>) {
    for stack in registry.stacks() {
        let left = stack.left();
        // SAFETY: a declared stack is readable until it is retired, which needs the registry's lock.
        unsafe { marker.range(left.start, left.end) };
        stack.registers().for_each(|register| marker.word(register));
    }
}

/// The same roots, but for those that the program names itself, with one mutator stopped at a time, as far as the world has such stops; gives the longest of them. On the collector's thread.
pub fn read_roots_running<'t>(
    collector: &mut Collector,
    team: &'t Team,
    marker: &mut Marker<'t>,
    read: &mut dyn FnMut(&mut Marker<'t>, Owner, Range<usize>),
) -> u64 {
    let images = &mut collector.images;
    images.for_each_running(|range| read(marker, Owner::Runs, range));
    let mut registry = registry::lock();
    let mut longest_ns = 0;
    for mutator in registry.iter().filter(|_| world::the().stops_one_by_one()) {
        if let Some(stack) = roots::resting_stack(mutator) {
            read(marker, Owner::Runs, stack);
        }
        let one = stop::stop_one(images, &mut registry, mutator);
        match &one {
            One::Stands(standing) => {
                images.of_mutator(registry.stacks(), mutator, standing, |range| {
                    read(marker, Owner::Stands, range);
                });
            }
            // SAFETY: the copy is there until the next such stop.
            One::Copied(words) => unsafe { marker.range(words.start, words.end) },
        }
        longest_ns = longest_ns.max(stop::resume_one(one));
    }
    read_stacks(&registry, marker);
    drop(registry);
    refs::trace_roots(&mut Settling::new(team, &HEAP, marker));
    longest_ns
}

/// Only those that may be large: static data, registered ranges, what rests of stacks. World running, on the collector's thread.
pub fn read_large_roots<'t>(
    collector: &mut Collector,
    marker: &mut Marker<'t>,
    read: ReadRange<'_, 't>,
) {
    collector.images.for_each_running(|range| read(marker, range));
    let registry = registry::lock();
    for mutator in registry.iter().filter(|_| world::the().stops_one_by_one()) {
        if let Some(stack) = roots::resting_stack(mutator) {
            read(marker, stack);
        }
    }
}

/// Objects that live until freed are roots themselves. Those that are marked already were scanned, or were born marked.
pub fn mark_uncollectable(marker: &mut Marker<'_>) {
    let mut blocks = MetaVec::new();
    HEAP.inner().for_each_uncollectable(&HEAP, |block| blocks.push(block));
    blocks.iter().copied().for_each(|block| {
        let (header, bits) = (HEAP.header(block), HEAP.bits(block));
        HEAP.for_each_object(block, header, |index: CellIndex, start| {
            if bits.mark::<true>(index) {
                HEAP.note_marked(block, header);
                marker.count(header.cell_bytes());
                marker.scan_object(&Cell { block, header, bits, index, start });
            }
        });
    });
}

/// Ends the process if a rule of the heap's structure is broken; from `level` on.
fn verify_heap(level: u8) {
    if check::level() >= level
        && let Err(broken) = HEAP.verify()
    {
        print::fatal(format_args!("NEAP_CHECK: {broken}"));
    }
}

/// `NEAP_CHECK`: 1 checks the heap's structure, 3 also every marked object's pointers. Not after a snapshot was marked, which a child has checked itself: a word stored since may look like a pointer to
/// what was dead then.
fn verify_marks(_: &Stopped, kind: Kind) {
    verify_heap(1);
    if check::level() >= 3
        && !matches!(kind, Kind::Fork | Kind::Snapshot)
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
    pub fn step(&mut self, step: Step) {
        match self.phase.after(step) {
            Some(next) => {
                self.phase = next;
                live::set_phase(next as u64);
            }
            None => print::fatal(format_args!(
                "[cycle.inv.phases] {step:?} is not allowed in {:?}",
                self.phase
            )),
        }
    }
}
