//! What hangs on an object's death: finalizers, disappearing links, toggle references; and the step
//! of a cycle that processes them.
//!
//! Invariant: two locks: one (rank `Refs`) protects links and toggle references, and is held for a
//! moment at a time; the other (rank `Found`) what the cycle found dead, and is held while that is
//! decided and marked. Mutators take either only inside a critical section, in which they are not
//! stopped. So with the world stopped nobody holds them, and the collector takes them without
//! waiting. Finalizers and cleaners are registered without a lock (`registrations`). Registration
//! is called by mutators on any thread; [`trace_roots`], [`trace_registered`] and
//! [`process_references`] by the cycle. The rules of order are in `docs/boehm.md`,
//! "Finalizers" and "Links".
//!
//! # Safety
//!
//! Gives back, after a `fork`, the lock that the same thread took before it.

#![allow(unsafe_code)]

pub mod disclaim;
pub mod finalizers;
pub mod handles;
pub mod links;
pub mod marking;

#[cfg(test)]
mod fake_marking;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::heap::state::reference_processing;
use crate::monitors::monitor;
use crate::rank::Rank;
use crate::sync::{ForkLock, Lock};
use crate::world::mutator::Mutator;
use crate::world::{attach, current};
use finalizers::{
    cleaner, finalizer, marked_at_registration, order, pool, queue, runner, site, slab,
};
use handles::{per_thread, process, retargeted};
use links::link_table::Links;
use links::toggle;

pub use crate::sys::meta_vec::NoMemory;
pub(crate) use marking::Beside;
pub use marking::Marking;

/// All of it, as one value so that tests can have their own.
pub(crate) struct Refs {
    pub(crate) finalizers: &'static finalizer::Finalizers,
    pub(crate) cleaners: &'static cleaner::Cleaners,
    pub(crate) disclaimers: &'static disclaim::Disclaimers,
    pub(crate) found: Lock<Found>,
    pub(crate) tables: Lock<Tables>,
}

/// What cycles found dead.
pub(crate) struct Found {
    pub(crate) processing: finalizer::Processing,
    pub(crate) disclaimed: disclaim::Disclaimed,
}

/// What the program registers under a lock.
pub(crate) struct Tables {
    pub(crate) short_links: Links,
    pub(crate) long_links: Links,
    pub(crate) toggles: toggle::Toggles,
}

impl Tables {
    /// Whether a link or a weak toggle reference leads to an object that is not marked.
    fn any_dies<M: Marking>(&self, marking: &M) -> bool {
        self.short_links.any_dies(marking) || self.any_dies_late(marking)
    }

    /// The same of those that only finalizers decide about.
    fn any_dies_late<M: Marking>(&self, marking: &M) -> bool {
        self.long_links.any_dies(marking) || self.toggles.any_dies(marking)
    }
}

impl Refs {
    const fn of(
        finalizers: &'static finalizer::Finalizers,
        cleaners: &'static cleaner::Cleaners,
        disclaimers: &'static disclaim::Disclaimers,
    ) -> Self {
        Self {
            finalizers,
            cleaners,
            disclaimers,
            found: Lock::new(
                Rank::Found,
                Found {
                    processing: finalizer::Processing::new(),
                    disclaimed: disclaim::Disclaimed::new(),
                },
            ),
            tables: Lock::new(
                Rank::Refs,
                Tables {
                    short_links: Links::new(),
                    long_links: Links::new(),
                    toggles: toggle::Toggles::new(),
                },
            ),
        }
    }

    pub(crate) fn begin_cycle(&self, full: bool) {
        let mut tables = self.tables.lock();
        tables.short_links.begin_cycle(full);
        tables.long_links.begin_cycle(full);
    }

    /// Marks what the tables themselves keep alive.
    pub(crate) fn trace_roots<M: Marking>(&self, marking: &mut M) {
        marked_at_registration::trace(marking);
        self.tables.lock().toggles.trace_strong(marking);
    }

    /// Marks what registrations and what is ready keep alive.
    pub(crate) fn trace_registered<M: Marking>(&self, marking: &mut M) {
        finalizer::trace(self.finalizers, marking);
        // After the registry: what is moved from there to here is seen.
        let found = self.found.lock();
        found.processing.filling.mark(marking);
        found.disclaimed.trace(marking);
        drop(found);
        // The check wants to know what else reaches a cleaner's object, so it marks the arguments
        // itself, last.
        if !site::checks() {
            self.cleaners.trace(marking);
        }
        queue::trace(marking);
    }

    /// Decides about everything that marking did not reach. On return every object that is to stay
    /// is marked.
    pub(crate) fn process_references<M: Marking>(&self, marking: &mut M) {
        self.begin_processing(marking);
        self.finish_processing(marking, Beside::Nobody);
    }

    /// Whether there are references that only finalizers decide about and that the program reads as
    /// it likes: long links or toggle references whose objects are not marked, or hidden pointers
    /// to what it is asked about. After marking, world stopped.
    fn has_late_links<M: Marking>(&self, marking: &M) -> bool {
        self.tables.lock().any_dies_late(marking) || self.disclaimers.is_used()
    }

    /// The part for which the world is stopped. From its end on no weak reference gives an object
    /// that is not marked.
    fn begin_processing<M: Marking>(&self, marking: &mut M) {
        slab::stopped();
        marking.drain();
        if site::checks() {
            site::check(&self.cleaners.registry, cleaner::CLEANER, marking);
            marking.drain();
        }
        process::set_progress(reference_processing::EPHEMERONS);
        // Short links are read as the program likes, so they have to be cleared now; and what
        // ephemerons keep does not count as dead.
        let mut tables = self.tables.lock();
        if tables.short_links.any_dies(marking) {
            process::follow_ephemerons(marking, Beside::Nobody);
            tables.short_links.clear_dead(marking);
        }
    }

    /// The rest: with the world running where there are no late links. Then no link that comes
    /// meanwhile dies either, since everything is born marked.
    fn finish_processing<M: Marking>(&self, marking: &mut M, beside: Beside) {
        process::follow_ephemerons(marking, beside);
        process::set_progress(reference_processing::SHORT);
        slab::reclaim();
        process::process_short(marking);
        process::set_progress(match beside {
            Beside::Nobody => reference_processing::FINALIZERS,
            Beside::Program => reference_processing::RESURRECTING,
        });
        let found = &mut *self.found.lock();
        self.disclaimers.hold_back(&mut found.disclaimed, marking);
        order::process_references(self.finalizers, &mut found.processing, marking);
        self.disclaimers.process_references(&mut found.disclaimed, marking);
        // Only now is known which objects finalizers keep: links inside those stay, links inside
        // dead ones must go, or a later cycle would write into whatever gets the memory next.
        self.settle_links(|tables| &mut tables.short_links, marking);
        process::set_progress(reference_processing::LONG);
        process::process_long(marking);
        monitor::process_references(marking);
        if beside == Beside::Nobody {
            let mut tables = self.tables.lock();
            tables.toggles.drop_dead(marking);
            tables.long_links.clear_dead(marking);
        }
        self.settle_links(|tables| &mut tables.long_links, marking);
        self.cleaners.process_references(&mut found.processing.filling, marking);
        process::set_progress(reference_processing::NO);
    }

    /// Settles all links of a table. After twice the steps that it should take, since others come
    /// meanwhile, the rest is one step.
    fn settle_links<M: Marking>(&self, of: impl Fn(&mut Tables) -> &mut Links, marking: &M) {
        let enter = || ();
        let mut steps_left = 2 * (of(&mut self.tables.lock()).unsettled() / LINKS_AT_ONCE + 1);
        self.tables.in_steps(enter, |tables| {
            let most = if steps_left == 0 { usize::MAX } else { LINKS_AT_ONCE };
            steps_left = steps_left.saturating_sub(1);
            !of(tables).settle(most, marking)
        });
    }
}

#[cfg(test)]
use finalizers::batch;

#[cfg(test)]
impl Refs {
    /// Tables of a test's own.
    pub(crate) fn new() -> Self {
        let refs = Self::of(
            fake_marking::for_ever(finalizer::Finalizers::new()),
            fake_marking::for_ever(cleaner::Cleaners::new()),
            fake_marking::for_ever(disclaim::Disclaimers::new()),
        );
        refs.found.lock().processing.filling = batch::Filling::private();
        refs
    }

    /// Takes a call that is ready off, without running it.
    pub(crate) fn take_ready(&self) -> Option<(usize, batch::Call)> {
        let call = self.found.lock().processing.filling.pop()?;
        Some((call.object >> 32, call))
    }

    /// The objects whose finalizers are ready.
    pub(crate) fn ready_objects(&self) -> Vec<usize> {
        let mut objects: Vec<usize> =
            core::iter::from_fn(|| self.take_ready()).map(|(object, _)| object).collect();
        objects.sort_unstable();
        objects
    }
}

/// Links that are looked at while the lock is held: some ten microseconds. Larger: less time for
/// the lock; smaller: who registers a link waits less.
const LINKS_AT_ONCE: usize = 512;

/// Registered finalizers: not under the lock.
static FINALIZERS: finalizer::Finalizers = finalizer::Finalizers::new();
/// Registered cleaners: as above.
static CLEANERS: cleaner::Cleaners = cleaner::Cleaners::new();
/// Objects that are asked for: as above.
static DISCLAIMERS: disclaim::Disclaimers = disclaim::Disclaimers::new();
#[cfg(not(loom))]
static REFS: Refs = Refs::of(&FINALIZERS, &CLEANERS, &DISCLAIMERS);
/// As above; loom's atomics are not made at compile time. No model uses it.
#[cfg(loom)]
static REFS: std::sync::LazyLock<Refs> =
    std::sync::LazyLock::new(|| Refs::of(&FINALIZERS, &CLEANERS, &DISCLAIMERS));

/// Runs `f` on the tables, from a mutator, or from the collector's thread, which is none and must
/// not become one: it is never stopped.
fn with<R>(f: impl FnOnce(&mut Tables) -> R) -> R {
    // The critical section is entered first and left last: a stop that arrives meanwhile waits for
    // it.
    let _unstopped = current::get().map(|mutator| mutator.critical());
    f(&mut REFS.tables.lock())
}

/// The same on the lock on what cycles found dead, which is held while one decides about that.
fn with_found<R>(f: impl FnOnce(&Lock<Found>) -> R) -> R {
    let _unstopped = current::get().map(|mutator| mutator.critical());
    f(&REFS.found)
}

/// Runs `f` in a critical section with the calling thread's slab of registrations: registries are
/// read and written there without a lock.
#[inline]
fn with_own<R>(f: impl FnOnce(&slab::Own) -> R) -> R {
    let mutator = attach::current();
    let _unstopped = mutator.critical();
    f(&mutator.claim)
}

/// Marks strong toggle references, and what registrations made since [`trace_registered`] keep
/// alive. In every reading of roots, world stopped or running.
pub fn trace_roots<M: Marking>(marking: &mut M) {
    REFS.trace_roots(marking);
}

/// Marks what registrations, what is ready to run and what waits on queues keep alive. Once in a
/// cycle after its first stop, world running or not, on the cycle's thread.
pub fn trace_registered<M: Marking>(marking: &mut M) {
    REFS.trace_registered(marking);
}

/// Keeps what only weak toggle references lead to, if the cycle before did not. After marking,
/// world stopped, in a cycle beside the program.
pub fn keep_toggles_once<M: Marking>(marking: &mut M) {
    if REFS.tables.lock().toggles.keep_once(marking) {
        marking.drain();
    }
}

/// Clears links, hands finalizers and cleaners of dead objects over and marks what they keep. After
/// marking, world stopped.
pub fn process_references<M: Marking>(marking: &mut M) {
    REFS.process_references(marking);
    monitor::deflate_idle();
    pool::wake();
}

/// The first part of [`process_references`], or all of it if `everything` is to be done now, or
/// cannot be done with the world running: whether it was all. After marking, world stopped.
pub fn process_references_stopped<M: Marking>(marking: &mut M, everything: bool) -> bool {
    let all = everything || REFS.has_late_links(marking) || site::checks();
    if all {
        REFS.process_references(marking);
    } else {
        REFS.begin_processing(marking);
    }
    monitor::deflate_idle();
    if all {
        pool::wake();
    }
    all
}

/// The rest of [`process_references_stopped`], world running; everything is born marked meanwhile,
/// and nothing is swept.
pub fn process_references_running<M: Marking>(marking: &mut M) {
    REFS.finish_processing(marking, Beside::Program);
    pool::wake();
}

/// A cycle begins: `full` ones make all marks anew.
pub fn begin_cycle(full: bool) {
    REFS.begin_cycle(full);
}

/// Looks at the links that are new in this cycle, so that the last stop has to look at those only
/// whose objects are not marked by now; says how many there were. World running.
pub fn look_at_links<M: Marking>(marking: &M) -> usize {
    let mut looked = 0;
    let enter = || ();
    REFS.tables.in_steps(enter, |tables| {
        let short_left = tables.short_links.look(LINKS_AT_ONCE, marking);
        let left = short_left || tables.long_links.look(LINKS_AT_ONCE, marking);
        looked += if left { LINKS_AT_ONCE } else { 0 };
        !left
    });
    looked
}

/// Whether there is so many references that a small heap, too, is better marked and processed with
/// the world running.
pub fn are_many() -> bool {
    process::are_many()
}

/// Whether a weak reference leads, or led when somebody may have read it, to an object that is not
/// marked. After marking, world stopped.
pub fn any_weak_dies<M: Marking>(marking: &M) -> bool {
    REFS.tables.lock().any_dies(marking)
        || DISCLAIMERS.any_dies(marking)
        || process::any_weak_dies(marking)
        || retargeted::any_dies(marking)
}

/// A thread ends: gives up what handles keep for it. By itself, or in the child of a `fork` by the
/// only thread.
pub fn detach(mutator: &Mutator) {
    monitor::detach(mutator);
    let _unstopped = mutator.critical();
    process::detach(mutator);
    if let Some(record) = per_thread::existing(mutator) {
        record.leave(mutator);
    }
}

/// The kernel's id of the thread that forks, in the parent.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// The lock on what was found, for who holds it over a `fork`.
pub fn found_lock_for_fork() -> &'static dyn ForkLock {
    &REFS.found
}

/// That on links and toggle references, for the same.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &REFS.tables
}

/// On the thread that forks, which has the lock.
pub fn before_fork() {
    FORKING.store(crate::sys::thread::current() as u32, Relaxed);
}

/// In the child, the locks given back: its other threads are gone, and the cycle that was under way
/// is given up.
pub fn in_child() {
    for registry in [&FINALIZERS.registry, &CLEANERS.registry, &DISCLAIMERS.registry] {
        registry.in_child();
    }
    marked_at_registration::after_fork();
    runner::after_fork(FORKING.load(Relaxed), &REFS.found.lock().processing.filling);
    pool::after_fork();
}

/// In the parent and in the child.
pub fn after_fork() {
    process::forget_scanned();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::refs::fake_marking::{FakeMarking, finalizer, for_ever};

    #[test]
    fn links_come_and_go_while_what_finalizers_keep_is_marked() {
        let refs: &Refs = for_ever(Refs::new());
        static REGISTERED: AtomicUsize = AtomicUsize::new(0);
        refs.finalizers.set(1, Some(finalizer(finalizer::Order::NoOrder, 0))).unwrap();
        let mut marking = FakeMarking::new(&[(1, 2), (2, 3), (3, 4)]);
        refs.begin_processing(&mut marking);
        marking.meanwhile(|| {
            let mut tables = refs.tables.try_lock().expect("nobody has the lock meanwhile");
            let address = 0x1000 + 8 * REGISTERED.fetch_add(1, Relaxed);
            tables.short_links.register(address, 2).unwrap();
        });
        refs.finish_processing(&mut marking, Beside::Program);
        assert_eq!(REGISTERED.load(Relaxed), 4);
        assert_eq!(refs.tables.lock().short_links.registered(), 4);
        assert_eq!(refs.ready_objects(), [1]);
    }
}
