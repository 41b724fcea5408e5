//! Reading roots: in a pause all of them, beside the program those that can be read there, with one
//! mutator stopped at a time, or all for a moment where more run than there are processors.
//!
//! Invariant: `[world.inv.roots]`; what was read beside the program is read again in a pause, as
//! far as it was written since. Called by the driver of a cycle.
//!
//! # Safety
//! A range is read only while the world, or the list of loaded objects, promises that it is
//! readable; the program vouches for the ranges that it registered.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use core::time::Duration;

use super::pause::{Pause, rest};
use super::reference_processing::References;
use crate::addr::{CellIndex, WORD_BYTES, whole_words};
use crate::cycle::collector::{Collector, CollectorGuard};
use crate::cycle::phase::Phase;
use crate::cycle::report::spans::{SpanKind, Stop};
use crate::cycle::report::{callbacks, root_callback, thread_events};
use crate::cycle::token::Driver;
use crate::heap::lookup::Cell;
use crate::mark::drain::Marker;
use crate::mark::tracer::Tracer;
use crate::monitors::monitor;
use crate::refs;
use crate::sys::clock::{self, Instant};
use crate::sys::meta_vec::MetaVec;
use crate::sys::{futex, thread};
use crate::world::mutator::{Activity, Mutator};
use crate::world::registry::{self, Registry};
use crate::world::roots::Images;
use crate::world::roots::ranges::Span;
use crate::world::stop::One;
use crate::world::{World, correction, current, roots, stop};

/// What a range of roots is, that is read beside the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// A part of this piece of static data, or of a registered range.
    Data(Span),
    /// The part of a running thread's stack that rests.
    Stack,
    /// The same once more: the stack may have grown.
    StackAgain,
    /// What a thread has that stands.
    Standing,
}

/// Whether a pause reads what rests of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resting {
    /// It does.
    Read,
    /// No: a later pause does, and they are read beside the program before, where they can be.
    LeftOut,
}

/// A stack that grew by more is read once more before its thread stands for it; one with more on it
/// is not read in a stop of all. Larger: longer stops; smaller: more of them.
const MUCH_GROWN: usize = 128 << 10;
/// A stack that was deeper once counts for this part less after each stop. Larger: a program that
/// was deep once is taken for one that may be so again for longer.
const STACK_FORGOTTEN: usize = 8;
/// A stop of all threads reads until it has taken so long, and so does a hold of the locks under
/// which data is read. Larger: fewer of them; smaller: shorter ones.
const LONGEST_READING: Duration = Duration::from_micros(300);
/// With so many grey words on the mark stack they are followed before more roots are read: else it
/// came to be as large as these. Larger: more memory; smaller: helpers are woken more often.
const MANY_ENTRIES: usize = 1 << 20;
/// Counts readings beside the program; written by the collector's thread.
static READING: AtomicU32 = AtomicU32::new(0);
/// So many times at most: the program may call deeper faster than it is read.
const MOST_LOOKS: usize = 4;

/// Reads a range of roots, or what of it needs to be read.
pub type ReadRange<'r> = &'r mut dyn FnMut(&mut Marker<'static>, Range<usize>);

/// All of it: a [`ReadRange`].
///
/// # Safety
/// The range is one that a `ReadRange` was given: the world and the list of loaded objects promise
/// that what they name is readable while the reading goes on, and the program vouches for its own.
pub unsafe fn read_whole(marker: &mut Marker<'static>, range: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { marker.range(range.start, range.end) };
}

/// The same in a pause, once marks are cleared: where there are many grey words, `mark` is to
/// follow them.
///
/// # Safety
/// As [`read_whole`].
pub unsafe fn read_marking(
    marker: &mut Marker<'static>,
    range: Range<usize>,
    mut mark: impl FnMut(&mut Marker<'static>),
) {
    let mut range = whole_words(&range);
    while !range.is_empty() {
        let end = range.end.min(range.start.saturating_add(MANY_ENTRIES * WORD_BYTES));
        // SAFETY: the caller's promise.
        unsafe { read_whole(marker, range.start..end) };
        // The program's functions run when all is read, and its locks are free.
        if marker.pending() >= MANY_ENTRIES && !marker.heap().layouts.has_calls() {
            mark(marker);
        }
        range.start = end;
    }
}

impl Driver {
    /// Has the threads keep the cells of their buffers, and reads every root.
    pub fn read_roots(&mut self, collector: &mut Collector, pause: &Pause) {
        // SAFETY: it is given what roots there are, with the world stopped.
        let whole: ReadRange<'_> = &mut |marker, range| unsafe { read_whole(marker, range) };
        self.read_roots_by(collector, pause, Resting::Read, whole);
    }

    /// The same in a pause for a whole cycle, once marks are cleared, with so many helpers: what
    /// large roots lead to is marked while they are read.
    pub fn read_roots_marking(&mut self, collector: &mut Collector, pause: &Pause, helpers: usize) {
        let workers = self.workers;
        self.read_roots_by(collector, pause, Resting::Read, &mut |marker, range| {
            // SAFETY: it is given what roots there are, with the world stopped.
            unsafe { read_marking(marker, range, |marker| _ = workers.work(marker, helpers)) };
        });
    }

    /// The same, where `read` knows better which parts of a range need to be read.
    pub fn read_roots_by(
        &mut self,
        collector: &mut Collector,
        pause: &Pause,
        resting: Resting,
        read: ReadRange<'_>,
    ) {
        let Pause { registry, stopped, .. } = pause;
        let (heap, world, marker) = (self.heap, self.world, &mut self.marker);
        world.for_each_root(current::get(), stopped, &mut |range| read(marker, range));
        let mut stack_bytes = 0;
        let leaves_resting = resting == Resting::LeftOut && reads_stacks_running(world);
        registry.iter().for_each(|mutator| mutator.local.keep_cells(heap));
        // Before stacks are read: it may say where they begin.
        if callbacks::are_heard() {
            root_callback::call(&mut Tracer::new(marker));
        }
        for mutator in registry.iter() {
            if !world.names_roots_of(mutator, stopped) {
                let standing = stopped.standing();
                let left_out = roots::likely_resting_stack(mutator).filter(|_| leaves_resting);
                collector.images.of_mutator(registry.stacks(), mutator, standing, |mut range| {
                    stack_bytes += range.len();
                    if let Some(stack) = left_out.as_ref().filter(|stack| stack.end == range.end) {
                        range.end = stack.start.max(range.start);
                    }
                    read(marker, range);
                });
            }
        }
        read_stacks(registry, marker);
        let forgotten = collector.stack_bytes / STACK_FORGOTTEN;
        collector.stack_bytes = stack_bytes.max(collector.stack_bytes - forgotten);
        let mut bytes = 0;
        collector.images.for_each(stopped, |range| {
            bytes += range.len();
            read(marker, range);
        });
        collector.root_bytes = bytes;
        roots::note_read(stopped);
        refs::trace_roots(&mut References::new(self));
        monitor::trace_held(&mut References::new(self), stopped);
        // Where this process marks while the world runs, strong handles are read then.
        let runs = heap.state.marking.load(Relaxed) && !heap.state.has_snapshot();
        if !runs || !matches!(collector.phase, Phase::Roots | Phase::Mark) {
            refs::handles::process::trace_strong(&mut References::new(self));
        }
    }

    /// The same roots, but for those that the program names itself, with one mutator stopped at a
    /// time, as far as the world has such stops, or all of them for a moment where they are more
    /// than processors. On the collector's thread.
    pub fn read_roots_running(
        &mut self,
        collector: &mut CollectorGuard,
        read: &mut dyn FnMut(&mut Marker<'static>, Root, Range<usize>),
    ) {
        let world = self.world;
        self.read_data_running(collector, read);
        let number = READING.fetch_add(1, Relaxed) + 1;
        // A host is not asked for stops that it knows nothing of.
        if reads_stacks_running(world) && is_crowded() {
            self.read_shallow_stacks(collector, read, number);
        }
        self.read_stacks_one_by_one(collector, read, number);
        read_stacks(&registry::lock(), &mut self.marker);
        refs::trace_roots(&mut References::new(self));
    }

    /// Static data and registered ranges, a moment at a time: what is read then is neither unloaded
    /// nor taken out, and in between others have their turn.
    fn read_data_running(
        &mut self,
        collector: &mut CollectorGuard,
        read: &mut dyn FnMut(&mut Marker<'static>, Root, Range<usize>),
    ) {
        let mut from = self.world.has_images().then_some(0);
        while let Some(start) = from {
            let marker = &mut self.marker;
            let read = |piece, part| read(marker, Root::Data(piece), part);
            from = collector.images.visit_running(start, LONGEST_READING, read);
            if from.is_some() {
                collector.without(|| {
                    if self.marker.pending() >= MANY_ENTRIES {
                        self.mark_beside();
                    }
                    // The loader does not say whether somebody waits for its lock.
                    futex::let_woken_run();
                });
            }
        }
    }

    /// Those that were not read in reading `number` yet.
    fn read_stacks_one_by_one(
        &mut self,
        collector: &mut CollectorGuard,
        read: &mut dyn FnMut(&mut Marker<'static>, Root, Range<usize>),
        number: u32,
    ) {
        let (world, marker, record) = (self.world, &mut self.marker, &mut self.record);
        let mut read_stack = |images: &mut Images, registry: &mut Registry, mutator: &Mutator| {
            if !reads_stacks_running(world) || mutator.read_in.load(Relaxed) == number {
                return;
            }
            let mut rests = Root::Stack;
            for look in 1..=MOST_LOOKS {
                let position = mutator.position.load(Relaxed);
                if let Some(stack) = roots::resting_stack(mutator) {
                    read(marker, rests, stack);
                    rests = Root::StackAgain;
                }
                let runs = mutator.activity() != Activity::Blocked;
                let one = stop::stop_one(images, registry, mutator);
                let grown = position.saturating_sub(mutator.position.load(Relaxed));
                let is_gone = matches!(one, One::Gone);
                let enough = grown <= MUCH_GROWN || look == MOST_LOOKS || is_gone;
                match &one {
                    One::Stands(standing)
                        if enough
                            && images.stands_on_known_stacks(
                                registry.stacks(),
                                mutator,
                                standing,
                            ) =>
                    {
                        images.of_mutator(registry.stacks(), mutator, standing, |range| {
                            read(marker, Root::Standing, range);
                        });
                    }
                    One::Stands(_) | One::Gone => {}
                    // SAFETY: the copy is there until the next such stop.
                    One::Copied(words) => unsafe { marker.range(words.start, words.end) },
                }
                let copied = matches!(one, One::Copied(_));
                let (began_ns, length_ns) = stop::resume_one(one);
                let thread = mutator.thread.load(Relaxed) as i32;
                record.note_thread_stop(thread, Stop { began_ns, length_ns }, runs);
                if enough || copied {
                    break;
                }
            }
        };
        registry::begin_visit();
        loop {
            let images = &mut collector.images;
            let read_stack = |registry: &mut _, mutator| read_stack(images, registry, mutator);
            if !registry::visit(LONGEST_READING, read_stack) {
                return;
            }
            collector.let_others();
        }
    }

    /// Those of threads that run and are not deep, in stops of all: one that is to answer alone
    /// waits for its turn behind the others, who go on, and so does each after it.
    fn read_shallow_stacks(
        &mut self,
        collector: &mut CollectorGuard,
        read: &mut dyn FnMut(&mut Marker<'static>, Root, Range<usize>),
        number: u32,
    ) {
        registry::begin_visit();
        let mut is_last = false;
        while !is_last {
            let mut registry = registry::lock();
            let began_ns = clock::now_ns();
            let Some(stopped) = self.world.stop(&mut registry, None) else { return };
            let (images, marker) = (&collector.images, &mut self.marker);
            // Not from when the stop began: each gets on, however long stopping takes.
            let began = Instant::now();
            is_last = loop {
                // Asked with the world stopped: nobody changes it until the next stop.
                let reads = reads_stacks_running(self.world);
                let Some(mutator) = registry.visit_next().filter(|_| reads) else { break true };
                if mutator.activity() != Activity::Blocked && is_shallow(images, mutator) {
                    images.of_mutator(registry.stacks(), mutator, stopped.standing(), |range| {
                        read(marker, Root::Standing, range);
                    });
                    mutator.read_in.store(number, Relaxed);
                }
                if began.elapsed() >= LONGEST_READING {
                    break false;
                }
            };
            let stop = Stop::between(began_ns, self.world.resume(stopped));
            drop(registry);
            self.record.note_stop(SpanKind::ShortStop, stop);
            if !is_last {
                collector.without(|| rest(Instant::now(), stop.length_ns));
            }
        }
    }

    /// Only those that may be large: static data, registered ranges, what rests of stacks. World
    /// running, on the collector's thread.
    pub fn read_large_roots(
        &mut self,
        collector: &mut CollectorGuard,
        read: &mut dyn FnMut(&mut Marker<'static>, Root, Range<usize>),
    ) {
        self.read_data_running(collector, read);
        let (world, marker) = (self.world, &mut self.marker);
        let mut read_stack = |_: &mut _, mutator| {
            let reads = reads_stacks_running(world);
            if let Some(stack) = roots::resting_stack(mutator).filter(|_| reads) {
                read(marker, Root::StackAgain, stack);
            }
        };
        registry::begin_visit();
        while registry::visit(LONGEST_READING, &mut read_stack) {
            collector.let_others();
        }
    }

    /// Objects that live until freed are roots themselves. Those that are marked already were
    /// scanned, or were born marked.
    pub fn mark_uncollectable(&mut self) {
        let (heap, marker) = (self.heap, &mut self.marker);
        let mut blocks = MetaVec::new();
        heap.inner().for_each_uncollectable(heap, |block| blocks.push(block));
        blocks.iter().copied().for_each(|block| {
            let (header, bits) = (heap.header(block), heap.bits(block));
            heap.for_each_object(block, header, |index: CellIndex, start| {
                if bits.mark::<true>(index) {
                    heap.note_marked(block, header);
                    marker.count(header.cell_bytes());
                    marker.scan_object(&Cell { block, header, bits, index, start });
                }
            });
        });
    }
}

/// Whether more threads run than there are processors.
fn is_crowded() -> bool {
    let runs = |mutator: &&Mutator| mutator.activity() != Activity::Blocked;
    registry::lock().iter().filter(runs).nth(thread::processors()).is_some()
}

/// Whether a mutator that stands is on its own stack, with so little on it that a stop of all
/// threads reads it.
fn is_shallow(images: &Images, mutator: &Mutator) -> bool {
    let position = mutator.position.load(Relaxed);
    images.stands_on_own_stack(mutator)
        && mutator.stack_base.load(Relaxed).saturating_sub(position) <= MUCH_GROWN
}

/// Whether threads' stacks are read beside the program. The program's own say on where they begin
/// is asked in pauses only, and a program that is told of threads that stand is told there.
fn reads_stacks_running(world: &dyn World) -> bool {
    world.stops_one_by_one() && !correction::is_set() && !thread_events::is_set()
}

/// Reads the stacks that are no thread's own and that nobody runs on.
fn read_stacks(registry: &Registry, marker: &mut Marker<'static>) {
    for stack in registry.stacks() {
        let left = stack.left();
        // SAFETY: a declared stack is readable until it is retired, which needs the registry's
        // lock.
        unsafe { marker.range(left.start, left.end) };
        stack.registers().for_each(|register| marker.word(register));
    }
}
