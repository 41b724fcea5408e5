//! A full cycle that marks the heap as it was in one short stop, in this process: pages are copied before the program writes to them.
//!
//! The steps: *arm* (the collector's thread: finish the last sweep, clear marks; protect the pages of scanned objects, again those that are written meanwhile) · *first stop* (read roots, protect what is not yet; from here on runs are handed
//! out marked) · *mark* (the collector's thread, helpers, and mutators that would have to wait: follow grey words, reading kept pages where there are some; take the protection away) · *last stop* (references, hand blocks to the sweep;
//! nothing is marked that was reachable). Invariant: `[cycle.inv.snapshot]`; why nothing is lost is argued in `docs/concurrency.md`. A program with trace functions of its own, which read objects as they are now, gets ordinary cycles.

#![allow(unsafe_code)]

use std::time::Instant;

use super::collector::Collector;
use super::events::{CycleEvent, tell};
use super::markers;
use super::phase::Step;
use super::report::Kind;
use super::settle::Settling;
use super::stopped::{Stop, mark_uncollectable, nanoseconds, read_roots};
use super::taken::Taken;
use super::watched::{Unwatched, address_range};
use crate::addr::{CHUNK_BYTES, GRANULE_BYTES, PAGE_BYTES};
use crate::heap::HEAP;
use crate::mark::frozen::Inward;
use crate::mark::team::MOST_MARKERS;
use crate::refs;
use crate::sys::meta_vec::MetaVec;
use crate::watch::snapshot::Snapshot;
use crate::world::mutator::Mutator;

/// How much the heap may grow between making room for copies and the stop, before such a cycle is not worth its while.
const SPARE_BYTES: usize = 64 << 20;
/// The part of the heap that copies may take. Larger: fewer cycles that end as ordinary ones because the program wrote too much; smaller: less memory.
const COPIES_PER_HEAP: (usize, usize) = (3, 8);
/// Copies of a small heap.
const LEAST_COPIES: usize = (8 << 20) / PAGE_BYTES;
/// Written pages that are not worth another round of arming: protecting them in the stop takes less than a millisecond.
const FEW_PAGES: usize = 64;
/// Rounds of arming at most.
const MOST_ROUNDS: usize = 4;

/// What such a cycle keeps between its steps; protected by the collector's lock while the world may step, used by the collector's thread alone between.
pub struct BySnapshot {
    watch: Snapshot,
    taken: Taken,
    /// Address ranges to protect, kept from one use to the next.
    rows: MetaVec<(usize, usize)>,
    /// Whether there is a snapshot, all of whose pages are protected.
    complete: bool,
}

impl BySnapshot {
    /// With an open watch.
    pub fn new(watch: Snapshot) -> Self {
        Self { watch, taken: Taken::default(), rows: MetaVec::new(), complete: false }
    }

    /// Whether the program has closed the watch behind our back.
    pub fn watch_was_closed(&self) -> bool {
        self.watch.was_closed()
    }

    /// In the child of a `fork`, which has copies of its own of what was kept: gives these back, closes the watch, and leaves all other memory where it is.
    pub fn leave_to_parent(self) {
        HEAP.kept.close();
        let Self { watch, taken: _, rows, complete: _ } = self;
        watch.leave_to_parent();
        core::mem::forget(rows);
    }

    /// Bytes allocated while the last cycle ran.
    pub fn allocated_during_last(&self) -> usize {
        self.taken.allocated_during_last
    }

    /// Before the first stop, world running, on the collector's thread. An error where the system refuses.
    pub fn arm(&mut self) -> Result<(), Unwatched> {
        let began = Instant::now();
        self.watch.start().map_err(|_| Unwatched)?;
        self.taken.begin(Kind::Snapshot);
        let committed = HEAP.committed() + SPARE_BYTES;
        let most = committed / COPIES_PER_HEAP.1 * COPIES_PER_HEAP.0 / PAGE_BYTES;
        let base = HEAP.base().0;
        let room = HEAP.kept.open(&(base..base + committed), most.max(LEAST_COPIES));
        self.complete = room.is_ok() && !HEAP.layouts.has_functions();
        if self.complete {
            self.watch.begin_arming();
            let mut written = self.protect_new();
            for _ in 0..MOST_ROUNDS {
                // The first round names the blocks taken into use meanwhile, later ones what is written all the time.
                let last = written;
                written = self.protect_touched() + self.protect_new();
                if written <= FEW_PAGES || written > last / 4 * 3 {
                    break;
                }
            }
        }
        self.taken.record.arm_ns = nanoseconds(began);
        match self.watch.was_closed() {
            true => {
                self.forget();
                Err(Unwatched)
            }
            false => Ok(()),
        }
    }

    /// Protects blocks of scanned objects that are not; says how many pages that were.
    fn protect_new(&mut self) -> usize {
        let rows = &mut self.rows;
        rows.clear();
        HEAP.inner().granules.for_each_unregistered(|first, count| rows.push((first, count)));
        for (first, count) in rows.iter().copied() {
            let start = HEAP.base().0 + first * CHUNK_BYTES;
            // Outside the heap's lock: the system call waits for every page fault of the process.
            match self.watch.register(&(start..start + count * CHUNK_BYTES)) {
                Ok(()) => HEAP.inner().granules.note_registered(first, count),
                Err(_) => self.complete = false,
            }
        }
        rows.clear();
        HEAP.inner().granules.arm_new(|row| rows.push(address_range(row)));
        let mut pages = 0;
        for (start, end) in rows.iter().copied() {
            pages += (end - start) / PAGE_BYTES;
            self.complete &= self.watch.protect(&(start..end)).is_ok();
        }
        pages
    }

    /// Protects again what was written since it was protected; says how many pages that were.
    fn protect_touched(&mut self) -> usize {
        let Self { watch, rows, complete, .. } = self;
        rows.clear();
        if !watch.take_touched(|page| rows.push((page, page + PAGE_BYTES))) {
            // Too many to name: everything that is in use, once more.
            rows.clear();
            HEAP.inner().granules.for_each_armed(|row| rows.push(address_range(row)));
        }
        for (start, end) in rows.iter().copied() {
            *complete &= watch.protect(&(start..end)).is_ok();
        }
        rows.iter().map(|(start, end)| (end - start) / PAGE_BYTES).sum()
    }

    /// The first stop. `own` is the calling mutator, if it is one.
    pub fn first_stop(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        collector.step(Step::Armed);
        tell(CycleEvent::CycleStart);
        let stop = Stop::begin(collector, own);
        self.taken.record.stopping_ns = stop.stopping_ns;
        tell(CycleEvent::MarkStart);
        let team = markers::team();
        team.begin(MOST_MARKERS, true);
        self.taken.take(collector);
        // SAFETY: this thread drives the stop, under the collector's lock.
        let marker = unsafe { markers::driver() };
        read_roots(collector, &stop, team, marker);
        // They change while the program runs, and what they held now has to be marked.
        refs::trace_registered(&mut Settling::new(team, &HEAP, marker));
        self.taken.record.roots_ns = nanoseconds(stop.began);
        let base = HEAP.base().0;
        self.complete &=
            HEAP.kept.covers(&(base..base + HEAP.committed())) && !HEAP.layouts.has_functions();
        if self.complete {
            self.watch.begin_keeping();
            self.taken.record.remark_pages = self.protect_touched() + self.protect_new();
        }
        if !self.complete {
            marker.forget_work();
        }
        collector.step(Step::RootsRead);
        self.taken.record.first_ns = stop.end();
    }

    /// Marks, world running, on the collector's thread.
    pub fn mark(&mut self) {
        let began = Instant::now();
        let team = markers::team();
        // SAFETY: this is the collector's thread, and no step is on offer.
        let marker = unsafe { markers::driver() };
        if self.complete {
            marker.scan_frozen(Inward::Scanned);
            mark_uncollectable(marker);
            self.taken.record.markers = 1 + markers::work(team, marker);
            marker.report();
        }
        let dropped = team.take_overflow();
        self.taken.answered = self.complete && !HEAP.kept.has_overflowed() && !dropped;
        self.taken.record.preclean_pages = HEAP.kept.count();
        self.forget();
        if !self.taken.answered {
            marker.forget_work();
            self.taken.expect_to_mark();
        }
        self.taken.record.mark_ns = nanoseconds(began);
    }

    /// Lets all pages be written, and gives the copies back. Nobody marks.
    fn forget(&mut self) {
        self.watch.end();
        HEAP.kept.close();
        HEAP.inner().granules.disarm_all();
    }

    /// The last stop; ends the cycle. `own` as in [`Self::first_stop`].
    pub fn remark(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        self.taken.remark(collector, own);
    }
}

/// A granule is whole pages, so rows of granules are too.
const _: () = assert!(GRANULE_BYTES.is_multiple_of(PAGE_BYTES));
