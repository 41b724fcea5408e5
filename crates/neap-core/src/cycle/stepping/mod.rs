//! Cycles stepped by hand: a world that is one array of roots, a mutator that is no thread, a write
//! watch in software, and a heap of a dozen objects.
//!
//! Invariant: nothing here needs a signal or the loader, and most tests no second thread, so miri
//! runs all but those that say why not. One test is one process: heap, registry and collector are
//! the process's own. The tests are in the files of this folder, one for each mode and one for the
//! handshake.

#![allow(unsafe_code)]

mod growth;
mod modes;
mod snapshots;
mod software_watch;
mod weak_reads;
mod writers;

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::collector::COLLECTOR;
use super::driver::between_steps::{self, CycleState};
use super::modes::Mode;
use super::modes::incremental_update::IncrementalUpdate;
use super::modes::marking_mode::{Left, MarkingMode};
use super::phase::Step;
use super::policy::generation::Generation;
use super::token::Driver;
use crate::addr::{Address, PAGE_BYTES};
use crate::alloc::free;
use crate::alloc::refill::refill;
use crate::heap::kind::Kind;
use crate::heap::spaces::SpaceId;
use crate::heap::{HEAP, classes};
use crate::sys::clock;
use crate::sys::map;
use crate::sys::refusal::Refusal;
use crate::watch::Watch;
use crate::world::mutator::Mutator;
use crate::world::registry::{self, Registry};
use crate::world::{Stopped, World};

/// The roots of the fake world. An odd number is none: the collector's own data is scanned by
/// nobody here.
static ROOTS: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// What the program does before each stop, in a world that the collector's thread stops; none in
/// one that it does not.
type Meanwhile = Box<dyn FnMut() + Send>;

static MEANWHILE: Mutex<Option<Meanwhile>> = Mutex::new(None);

/// The program allocates all the time: a byte before each question about written pages.
static ALLOCATES: AtomicBool = AtomicBool::new(false);

/// A world whose only mutator stands whenever it is asked to.
struct FakeWorld;

impl World for FakeWorld {
    fn stops_under_loader_lock(&self) -> bool {
        false
    }

    fn has_images(&self) -> bool {
        false
    }

    fn may_be_stopped_here(&self) -> bool {
        true
    }

    fn stop(&self, _: &mut Registry, _: Option<&Mutator>) -> Option<Stopped> {
        if let Some(meanwhile) = MEANWHILE.lock().unwrap().as_mut() {
            meanwhile();
        }
        Some(Stopped::in_test())
    }

    fn stops_one_by_one(&self) -> bool {
        MEANWHILE.lock().unwrap().is_some()
    }

    fn resume(&self, _: Stopped) -> u64 {
        clock::now_ns()
    }

    fn names_roots_of(&self, _: &Mutator, _: &Stopped) -> bool {
        true
    }

    fn for_each_root(&self, _: Option<&Mutator>, _: &Stopped, visit: &mut dyn FnMut(Range<usize>)) {
        let start = (&raw const ROOTS).expose_provenance();
        visit(start..start + size_of_val(&ROOTS));
    }
}

/// The pages that were protected and not written since.
#[derive(Clone, Default)]
struct Protected(Arc<Mutex<BTreeSet<usize>>>);

impl Protected {
    /// A store to this address.
    fn note_store(&self, address: usize) {
        self.0.lock().unwrap().remove(&(address & !(PAGE_BYTES - 1)));
    }
}

impl Watch for Protected {
    fn register(&mut self, _: &Range<usize>) -> Result<(), Refusal> {
        Ok(())
    }

    fn unprotect(&mut self, range: &Range<usize>) {
        self.0.lock().unwrap().retain(|page| !range.contains(page));
    }

    fn take_written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        HEAP.state.allocated_since_cycle.fetch_add(ALLOCATES.load(Relaxed) as usize, Relaxed);
        for page in range.clone().step_by(PAGE_BYTES) {
            let is_new = self.0.lock().unwrap().insert(page);
            if is_new {
                written(page..page + PAGE_BYTES);
            }
        }
        Ok(())
    }

    fn written(
        &self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        for page in range.clone().step_by(PAGE_BYTES) {
            if !self.0.lock().unwrap().contains(&page) {
                written(page..page + PAGE_BYTES);
            }
        }
        Ok(())
    }
}

/// An object of the test's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Object(usize);

/// A program of one mutator, and the cycle that is stepped beside it.
struct Program {
    state: &'static mut CycleState,
    mutator: &'static Mutator,
    protected: Protected,
}

/// Words of a test's object. A page holds more than a dozen, so objects of different pages are made
/// by [`Program::allocate_apart`].
const WORDS: usize = 4;

impl Program {
    /// With a heap of its own size and the mode that `open` gives; None for the incremental update
    /// under the software watch.
    fn new(mode: Option<Mode>) -> Self {
        HEAP.reserve(16 << 20).unwrap();
        between_steps::prepare();
        let memory = map::allocate(size_of::<Mutator>().next_multiple_of(PAGE_BYTES)).unwrap();
        // SAFETY: zeroed memory of its own, large enough; zero is valid for every field.
        let mutator = unsafe { &*memory.pointer::<Mutator>() };
        mutator.local.initialize();
        registry::lock().add(mutator);
        let protected = Protected::default();
        let state = between_steps::begin(&mut COLLECTOR.lock());
        state.driver.world = &FakeWorld;
        let update = || Box::new(IncrementalUpdate::new(&HEAP, protected.clone()));
        state.mode = Some(mode.unwrap_or_else(|| Mode::Tested(update())));
        Self { state, mutator, protected }
    }

    fn allocate_bytes(&self, kind: Kind, bytes: usize) -> Object {
        let class = classes::class_of(bytes);
        let id = SpaceId::of(kind, class);
        let run = self.mutator.local.buffer(id).unwrap();
        loop {
            let cell = run.bump(classes::cell_bytes(class));
            if cell != 0 {
                return Object(cell);
            }
            refill(&HEAP, &self.mutator.local, run, id).unwrap();
        }
    }

    /// The program frees it.
    fn free(&self, object: Object) {
        free::free(&HEAP, Address(object.0)).unwrap();
    }

    /// An object that nobody knows yet.
    fn allocate(&self) -> Object {
        self.allocate_bytes(Kind::Conservative, WORDS * 8)
    }

    /// The same on a page of its own: the first words are as those of any other.
    fn allocate_apart(&self) -> Object {
        self.allocate_bytes(Kind::Conservative, PAGE_BYTES)
    }

    fn write(&self, object: Object, field: usize, value: usize) {
        let word = core::ptr::with_exposed_provenance_mut::<usize>(object.0 + field * 8);
        // SAFETY: a field of an allocated object; the collector reads it by volatile reads at most.
        unsafe { word.write_volatile(value) };
    }

    /// Stores a pointer; the watch learns of it.
    fn store(&self, object: Object, field: usize, to: Option<Object>) {
        self.write(object, field, to.map_or(0, |to| to.0));
        self.protected.note_store(object.0 + field * 8);
    }

    fn set_root(&self, index: usize, to: Option<Object>) {
        ROOTS[index].store(to.map_or(0, |to| to.0), Relaxed);
    }

    /// The driver token and the steps.
    fn parts(&mut self) -> (&mut Driver, &mut dyn MarkingMode) {
        let CycleState { driver, mode } = self.state;
        (driver, mode.as_mut().unwrap().steps())
    }

    /// Up to the roots; the first pause has read them.
    fn begin(&mut self, generation: Generation) {
        let (driver, mode) = self.parts();
        COLLECTOR.lock().step(Step::Begin);
        mode.write_protect(driver, generation).unwrap();
        mode.before_first_pause(driver, &mut COLLECTOR.lock());
    }

    fn first_pause(&mut self) {
        let (driver, mode) = self.parts();
        mode.first_pause(driver, &mut COLLECTOR.lock(), None).unwrap();
    }

    fn mark(&mut self) {
        let (driver, mode) = self.parts();
        mode.mark(driver);
    }

    fn remark(&mut self) {
        let (driver, mode) = self.parts();
        if mode.remark(driver, &mut COLLECTOR.lock(), None) == Left::Conclusion {
            mode.conclude(driver, &mut COLLECTOR.lock());
        }
        while !HEAP.inner().sweep_step(&HEAP) {}
    }

    /// A whole cycle; `between` is called after each step, with its number from 0.
    fn cycle(&mut self, generation: Generation, mut between: impl FnMut(&mut Self, usize)) {
        self.begin(generation);
        between(self, 0);
        self.first_pause();
        between(self, 1);
        self.mark();
        between(self, 2);
        let (driver, mode) = self.parts();
        mode.keep_up(driver);
        between(self, 3);
        self.remark();
    }

    /// After the sweep: whether the object is still one.
    fn lives(&self, object: Object) -> bool {
        HEAP.object_at(object.0).is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It lies in the state's memory, where nothing looks for what a test has left.
        drop(self.state.mode.take());
        registry::lock().remove(self.mutator);
    }
}
