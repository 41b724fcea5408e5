//! A snapshot of the live graph in a file, or for another process that asks for it: the world is
//! stopped for as long as the process takes to be copied, and the copy reads its heap and writes
//! while the program runs on.
//!
//! Invariant: as for any child of `sys::child`: in it only memory of its own is taken, no lock but
//! those that stand still with the world, and it ends with `exit`. What only the program's own root
//! callback or trace functions know is not followed. On the thread that asks, which waits for the
//! file, no cycle running meanwhile; for another process on the collector's thread, which waits for
//! nothing but the copy.
//!
//! # Safety
//!
//! Runs in a child that has a copy of a stopped world, so roots and objects are readable and stand
//! still. What it shares with the parent is zeroed memory that stays mapped until it has ended.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::*};

use rustix::io::Errno;

use crate::addr::PAGE_BYTES;
use crate::cycle::collector::COLLECTOR;
use crate::cycle::driver::holding;
use crate::cycle::report::record;
use crate::cycle::report::spans::{SpanKind, Stop};
use crate::heap::{HEAP, Heap, samples};
use crate::observe::ask_page::{self, Asked};
use crate::observe::heap_snapshot::{Context, Failed, Snapshot, Source};
use crate::observe::named_file;
use crate::refs::{self, Marking};
use crate::stats::sampler;
use crate::sys::files::quiet_write;
use crate::sys::process::child::{self, Child};
use crate::sys::process::modules::{Module, Modules};
use crate::sys::{clock, map, side_stack, thread};
use crate::world::mutator::Mutator;
use crate::world::registry::{self, Registry};
use crate::world::roots::Images;
use crate::world::{self, Stopped, current, host};

/// What a host names that is no thread's and no loaded object's.
const HOST: Source = Source::Other("(roots of the host)");
const STACKS: Source = Source::Other("(stacks that nobody stands on)");
const REGISTERED: Source = Source::Other("(registered ranges)");
const UNCOLLECTABLE: Source = Source::Other("(uncollectable objects)");
const REFERENCES: Source = Source::Other("(finalizers, links and queues)");
const HANDLES: Source = Source::Other("(handles)");

/// What the child says: nothing yet, done, or an error number.
const NOT_DONE: u32 = 0;
const DONE: u32 = 1;
const FAILED: u32 = 2;

/// Writes the snapshot to `path`, over what is there.
pub fn write(path: &CStr) -> Result<(), Errno> {
    let mutator = super::mutator();
    let shared = map::allocate_shared(PAGE_BYTES)?;
    // SAFETY: zeroed memory that stays mapped until after the last use.
    let answer = unsafe { &*shared.pointer::<AtomicU32>() };
    holding::hold();
    let result = thread::with_registers_spilled(|position| {
        mutator.position.store(position, Relaxed);
        side_stack::on(|| copy(To::File(path), answer))
    });
    holding::release();
    let result = result.and_then(|child| {
        child.wait();
        match answer.load(Acquire) {
            DONE => Ok(()),
            // Killed, or out of memory beyond telling.
            NOT_DONE => Err(Errno::NOMEM),
            number => Err(Errno::from_raw_os_error((number - FAILED) as i32)),
        }
    });
    map::release(shared, PAGE_BYTES);
    result
}

/// Where a snapshot goes.
#[derive(Clone, Copy)]
enum To<'a> {
    File(&'a CStr),
    Asker(Asked),
}

/// The child that answers another process.
struct Answering(Cell<Option<Child>>);
// SAFETY: touched by the collector's thread, and by the one thread of a forked child.
unsafe impl Sync for Answering {}
static ANSWERING: Answering = Answering(Cell::new(None));

/// Answers another process that asks for a snapshot, and reaps the child that answered the last. On
/// the collector's thread, which does not wait for the child.
pub fn answer() {
    if let Some(child) = ANSWERING.0.take() {
        match child.has_ended() {
            true => child.wait(),
            false => return ANSWERING.0.set(Some(child)),
        }
    }
    let Some(asked) = ask_page::take() else { return };
    // The child says all there is to say to the asker.
    let unread = AtomicU32::new(NOT_DONE);
    let made = match host::get().is_some() && !world::the().stops_for_collector() {
        // Such a program relies on its own threads to stop it.
        true => Err(Errno::OPNOTSUPP),
        false => {
            let _collector = COLLECTOR.lock();
            copy(To::Asker(asked), &unread)
        }
    };
    match made {
        Ok(child) => ANSWERING.0.set(Some(child)),
        Err(error) => asked.end(Err(error.raw_os_error() as u32)),
    }
}

/// In the child of a `fork`, which is not the parent of what answers.
pub fn after_fork() {
    drop(ANSWERING.0.take());
}

/// Stops the world and copies the process.
fn copy(to: To<'_>, answer: &AtomicU32) -> Result<Child, Errno> {
    let mut images = Images::new();
    if !images.reserve() {
        return Err(Errno::NOMEM);
    }
    // What is loaded from here on to the stop has no name in the snapshot.
    let mut modules = Modules::new();
    modules.look();
    let world = world::the();
    let mut registry = registry::lock();
    let mut stopped = None;
    let mut stop = || {
        let began_ns = clock::now_ns();
        stopped = world.stop(&mut registry, current::get()).map(|stopped| (stopped, began_ns));
    };
    if world.stops_under_loader_lock() {
        images.list(stop);
    } else {
        images.list(|| {});
        stop();
    }
    let Some((stopped, began_ns)) = stopped else { return Err(Errno::AGAIN) };
    // Held over the copy, so that the child finds the heap's lists in order whatever the library's
    // own threads do.
    let inner = HEAP.inner();
    let samples = samples::lock();
    let process = thread::process();
    // SAFETY: the child does what this file's invariant says.
    let made = unsafe { child::make() };
    if let Ok(None) = made {
        // Taken again where they are used, in the order of locks.
        drop((samples, inner));
        let result = in_child(to, process, &mut images, modules.seen(), &registry, &stopped);
        answer.store(
            result.map_or_else(|error| FAILED + error.raw_os_error() as u32, |()| DONE),
            Release,
        );
        child::exit(0);
    }
    drop(samples);
    drop(inner);
    let stop = Stop::between(began_ns, world.resume(stopped));
    drop(registry);
    record::note_stop(SpanKind::CopyStop, None, 0, stop);
    match made {
        Ok(Some(child)) => Ok(child),
        Ok(None) => Err(Errno::CHILD),
        Err(refusal) => Err(refusal.error.unwrap_or(Errno::NOSYS)),
    }
}

fn in_child(
    to: To<'_>,
    process: u32,
    images: &mut Images,
    modules: &[Module],
    registry: &Registry,
    stopped: &Stopped,
) -> Result<(), Errno> {
    let path = match to {
        To::File(path) => path,
        To::Asker(asked) => {
            let mut output = |bytes: &[u8]| asked.hand_over(bytes);
            let written = write_to(process, images, modules, registry, stopped, &mut output);
            let result = written.map_err(|failed| match failed {
                Failed::NoMemory => Errno::NOMEM,
                Failed::Output => Errno::TIMEDOUT,
            });
            asked.end(result.map_err(|error| error.raw_os_error() as u32));
            return result;
        }
    };
    let file = named_file::create_at(path)?;
    rustix::fs::ftruncate(&file, 0)?;
    let mut refused = Errno::IO;
    let mut output = |bytes: &[u8]| {
        let written = quiet_write::all(&file, bytes);
        refused = written.err().unwrap_or(refused);
        written.is_ok()
    };
    let written = write_to(process, images, modules, registry, stopped, &mut output);
    written.map_err(|failed| match failed {
        Failed::NoMemory => Errno::NOMEM,
        Failed::Output => refused,
    })
}

fn write_to(
    process: u32,
    images: &mut Images,
    modules: &[Module],
    registry: &Registry,
    stopped: &Stopped,
    output: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), Failed> {
    let mut snapshot = reach(images, registry, stopped, modules)?;
    let sample_bytes = sampler::mean();
    let context = Context { process, modules, samples: &samples::lock(), sample_bytes };
    snapshot.write(&context, output)
}

/// Everything that the roots reach, as a cycle would find it.
fn reach(
    images: &mut Images,
    registry: &Registry,
    stopped: &Stopped,
    modules: &[Module],
) -> Result<Snapshot<'static>, Failed> {
    images.read_in_place();
    // What threads hold to allocate from is no object.
    registry.iter().for_each(|mutator| mutator.local.forget_cells(&HEAP));
    let mut graph = Graph { snapshot: Snapshot::new(&HEAP)?, result: Ok(()) };
    let world = world::the();
    let within = |range: &Range<usize>| {
        let has_it = |module: &Module| module.start <= range.start && range.end <= module.end;
        modules.iter().rposition(has_it)
    };
    // A host says where roots are, and not whose.
    world.for_each_root(current::get(), stopped, &mut |range| {
        let is_of = |mutator: &&Mutator| images.is_of(mutator, stopped.standing(), &range);
        match (within(&range), registry.iter().find(is_of)) {
            (Some(module), _) => {
                graph.range_of(Source::Static(module), range, modules[module].bias)
            }
            (None, Some(mutator)) => {
                graph.range(Source::Thread(mutator.thread.load(Relaxed)), range);
            }
            (None, None) => graph.range(HOST, range),
        }
    });
    for mutator in registry.iter() {
        if !world.names_roots_of(mutator, stopped) {
            let thread = Source::Thread(mutator.thread.load(Relaxed));
            images.of_mutator(registry.stacks(), mutator, stopped.standing(), |range| {
                graph.range(thread, range);
            });
        }
    }
    for stack in registry.stacks() {
        graph.range(STACKS, stack.left());
        stack.registers().for_each(|register| graph.word(STACKS, register));
    }
    images.for_each(stopped, |range| match within(&range) {
        Some(module) => graph.range_of(Source::Static(module), range, modules[module].bias),
        None => graph.range(REGISTERED, range),
    });
    let inner = HEAP.inner();
    inner.for_each_uncollectable(&HEAP, |block| {
        HEAP.for_each_object(block, HEAP.header(block), |_, start| {
            if !inner.deferred_frees.holds(start) {
                graph.word(UNCOLLECTABLE, start.0);
            }
        });
    });
    drop(inner);
    refs::trace_roots(&mut graph);
    refs::handles::process::for_each_strong(|object| graph.word(HANDLES, object));
    graph.result?;
    Ok(graph.snapshot)
}

/// The graph under construction; after a failure it takes nothing more.
struct Graph {
    snapshot: Snapshot<'static>,
    result: Result<(), Failed>,
}

impl Graph {
    fn word(&mut self, source: Source, word: usize) {
        if self.result.is_ok() {
            self.result = self.snapshot.root(source, 0, word);
        }
    }

    fn range(&mut self, source: Source, range: Range<usize>) {
        self.range_of(source, range, 0);
    }

    fn range_of(&mut self, source: Source, range: Range<usize>, bias: usize) {
        if self.result.is_ok() {
            // SAFETY: roots of a stopped world are readable, and this copy of them stands still.
            self.result = unsafe { self.snapshot.root_range(source, range, bias) };
        }
    }
}

impl Marking for Graph {
    fn is_marked(&self, object: usize) -> bool {
        self.snapshot.is_reached(object)
    }
    fn mark(&mut self, object: usize) {
        self.word(REFERENCES, object);
    }
    fn mark_word(&mut self, word: usize) {
        self.word(REFERENCES, word);
    }
    fn mark_contents(&mut self, object: usize) {
        if let Some(cell) = Heap::object_at(&HEAP, object) {
            self.range(REFERENCES, cell.start.0..cell.start.0 + cell.bytes());
        }
    }
    fn mark_contents_except_self(&mut self, object: usize) {
        self.mark_contents(object);
    }
    fn mark_alone(&mut self, object: usize) {
        self.mark(object);
    }
    fn drain(&mut self) {}
    fn container(&self, address: usize) -> Option<usize> {
        HEAP.object_at(address).map(|cell| cell.start.0)
    }
}
