//! A pause: the world stopped, what holds it so, and what is done in every one.
//!
//! Invariant `[cycle.rule.stop]`: between stop and resume nothing allocates from malloc, and no
//! lock is taken but those that no mutator holds then. Begun and ended by the thread that drives
//! the cycle: a mutator, or the collector's own thread where the program has no part in it.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;
use core::time::Duration;

use crate::addr::FRAME_BYTES;
use crate::check;
use crate::cycle::collector::Collector;
use crate::cycle::phase::Phase;
use crate::cycle::report::callbacks::{CycleEvent, tell};
use crate::cycle::report::record::Kind;
use crate::cycle::report::spans::{SpanKind, Stop, timed};
use crate::cycle::report::thread_events;
use crate::cycle::token::Driver;
use crate::heap::Heap;
use crate::mark::marking_check;
use crate::sync::Guard;
use crate::sys::clock::{self, Instant};
use crate::sys::thread::{self, barrier};
use crate::sys::{futex, print};
use crate::world::mutator::Mutator;
use crate::world::registry::{self, Registry};
use crate::world::{Stopped, World, after_hold, stop};

/// Nanoseconds that have passed.
pub fn nanoseconds(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// A stopped world and what holds it so.
pub struct Pause {
    /// The mutators.
    pub registry: Guard<'static, Registry>,
    /// The proof.
    pub stopped: Stopped,
    /// When the first signal was sent, by the clock.
    began_ns: u64,
    /// How long it took until all stood.
    pub stopping_ns: u64,
    world: &'static dyn World,
}

impl Pause {
    /// Stops every mutator but `own`, and lists the loaded objects in the same moment. None if the
    /// world cannot be stopped: then the cycle has to be given up.
    pub fn begin(
        driver: &Driver,
        collector: &mut Collector,
        own: Option<&Mutator>,
    ) -> Option<Self> {
        after_hold::wait();
        tell(CycleEvent::BeforeStop);
        let world = driver.world;
        let mut registry = registry::lock();
        let mut stopped = None;
        let mut stop = || {
            let began = timed(SpanKind::Stopping);
            stopped = Some(world.stop(&mut registry, own).map(|stopped| (stopped, began)));
        };
        if !world.has_images() {
            stop();
        } else if world.stops_under_loader_lock() {
            // The signals are sent from within the loader's lock, and the clock starts there.
            collector.images.list(stop);
        } else {
            collector.images.list(|| {});
            stop();
        }
        let Some(stopped) = stopped else {
            print::fatal(format_args!("the loader listed no object"))
        };
        let Some((stopped, began)) = stopped else {
            drop(registry);
            tell(CycleEvent::Resumed);
            return None;
        };
        let began_ns = began.began_ns();
        let stopping_ns = began.over(driver.record.number);
        // Before marking everything is swept, so the structure is checked in its other state too.
        if collector.phase == Phase::Roots {
            verify_heap(driver.heap, 2);
        }
        thread_events::stopped(&registry, own);
        tell(CycleEvent::Stopped);
        Some(Self { registry, stopped, began_ns, stopping_ns, world })
    }

    /// Lets the world run.
    pub fn end(self) -> Stop {
        tell(CycleEvent::BeforeResume);
        thread_events::resuming(&self.registry);
        let stop = Stop::between(self.began_ns, self.world.resume(self.stopped));
        drop(self.registry);
        tell(CycleEvent::Resumed);
        stop
    }

    /// When the world will have stood for so long, by the clock.
    pub fn ends_ns(&self, longest_ns: u64) -> u64 {
        self.began_ns.saturating_add(longest_ns)
    }

    /// How long the world has stood.
    pub fn so_far_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.began_ns)
    }

    /// Everything that is to stay is marked, but for what references keep if `held_back`: then
    /// blocks are swept only when the cycle is [finished](super::finish::finish).
    pub fn hand_to_sweep(&self, driver: &mut Driver, collector: &mut Collector, held_back: bool) {
        driver.keep_all_for_lost_roots();
        verify_marks(driver.heap, &self.stopped, driver.record.kind);
        driver.record.mutators = self.registry.count();
        collector.mutators = driver.record.mutators;
        collector.allocating = self.registry.iter().filter(|mutator| allocated(mutator)).count();
        let mut inner = driver.heap.inner();
        inner.begin_sweep(driver.heap, held_back);
        driver.record.committed_bytes = inner.frames.resident() * FRAME_BYTES;
    }
}

/// Whether the mutator allocated since the cycle before.
fn allocated(mutator: &Mutator) -> bool {
    let allocates = mutator.allocates.load(Relaxed);
    if allocates {
        mutator.allocates.store(false, Relaxed);
    }
    allocates
}

/// Runs `f` with the world stopped, for something that protects pages, needs no roots and calls
/// nothing of the program's, and is given when the stop began by the clock. On the collector's
/// thread, which has the collector's lock, where [`World::stops_for_collector`]. None if a host
/// could not stop it.
pub fn briefly(
    world: &'static dyn World,
    _: &mut Collector,
    f: impl FnOnce(&Stopped, u64),
) -> Option<Stop> {
    let mut registry = registry::lock();
    let began_ns = clock::now_ns();
    stop::PROTECTS.store(true, Relaxed);
    let stopped = world.stop(&mut registry, None);
    if let Some(stopped) = &stopped {
        f(stopped, began_ns);
    }
    stop::PROTECTS.store(false, Relaxed);
    let stopped = stopped?;
    Some(Stop::between(began_ns, world.resume(stopped)))
}

/// Leaves the program alone until so much time has passed.
pub(super) fn rest(began: Instant, ns: u64) {
    match Duration::from_nanos(ns).saturating_sub(began.elapsed()) {
        Duration::ZERO => {}
        left => futex::sleep(left.as_nanos() as u64),
    }
}

/// From here on explicit free is put off. With the world stopped.
pub fn begin_marking(heap: &Heap) {
    let _inner = heap.inner();
    heap.state.marking.store(true, SeqCst);
}

/// The same while the world runs: whoever is freeing or handing out cells is done when it returns,
/// with the heap's lock or without `[alloc.inv.free]`.
pub fn begin_marking_beside(heap: &Heap) {
    begin_marking(heap);
    wait_for_changes_of_bits();
}

/// Clears all marks while the world runs: who hands out cells that are born marked, since the last
/// cycle was not over when it looked, has marked them before `[alloc.inv.born-marked]`.
pub fn clear_marks_beside(heap: &Heap) {
    wait_for_changes_of_bits();
    heap.clear_marks();
}

/// Until every thread that changes bits by what the heap's state was before is done.
fn wait_for_changes_of_bits() {
    fence(SeqCst);
    barrier::in_all_threads();
    for mutator in registry::lock().iter() {
        while mutator.local.is_changing_bits() {
            thread::yield_now();
        }
    }
}

/// Ends the process if a rule of the heap's structure is broken; from `level` on.
fn verify_heap(heap: &Heap, level: u8) {
    if check::level() >= level
        && let Err(broken) = heap.verify()
    {
        print::fatal(format_args!("NEAP_CHECK: {broken}"));
    }
}

/// `NEAP_CHECK`: 1 checks the heap's structure, 3 also every marked object's pointers. Not after a
/// snapshot was marked: a child has checked it itself, and a word stored since may look like a
/// pointer to what was dead then.
fn verify_marks(heap: &Heap, _: &Stopped, kind: Kind) {
    verify_heap(heap, 1);
    if check::level() >= check::MARKS
        && !matches!(kind, Kind::Fork | Kind::Snapshot)
        && let Some(lost) = marking_check::find_lost(heap)
    {
        print::fatal(format_args!(
            "NEAP_CHECK: object {:#x} is marked, and its child {:#x} is not",
            lost.parent, lost.child
        ));
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::alloc::refill::refill;
    use crate::heap::classes;
    use crate::heap::kind::Kind as HeapKind;
    use crate::heap::spaces::SpaceId;
    use crate::world::registry::tests::mutator;

    /// It would set them afterwards, and what it marks would not be scanned in the cycle.
    #[test]
    fn who_clears_marks_waits_for_who_is_about_to_set_some() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let [is_told, may_mark, is_clear] = [(); 3].map(|()| AtomicBool::new(false));
        let wait_for = |word: &AtomicBool| {
            while !word.load(SeqCst) {
                thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let marked = scope.spawn(|| {
                let mutator = mutator();
                registry::lock().add(mutator);
                let id = SpaceId::of(HeapKind::Conservative, classes::class_of(64));
                let buffer = mutator.local.buffer(id).unwrap();
                refill(&heap, &mutator.local, buffer, id).unwrap();
                let object = buffer.bump(64);
                mutator.local.change_bits(|| {
                    is_told.store(true, SeqCst);
                    wait_for(&may_mark);
                    let cell = heap.object_at(object).unwrap();
                    heap.note_marked(cell.block, cell.header);
                    cell.bits.mark::<true>(cell.index);
                });
                object
            });
            wait_for(&is_told);
            scope.spawn(|| {
                clear_marks_beside(&heap);
                is_clear.store(true, SeqCst);
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(!is_clear.load(SeqCst));
            may_mark.store(true, SeqCst);
            let object = marked.join().unwrap();
            wait_for(&is_clear);
            assert!(!heap.is_marked(object), "alloc.inv.born-marked");
        });
    }
}
