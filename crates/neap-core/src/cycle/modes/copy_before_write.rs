//! A full cycle that marks the heap as it was in one short pause, in this process: pages are copied
//! before the program writes to them.
//!
//! The steps: *write-protect* (the collector's thread: finish the last sweep, clear marks; protect
//! the pages of scanned objects, again those that are written meanwhile) · *first pause* (read
//! roots, protect what is not yet; from here on buffers are handed out marked) · *mark* (the
//! collector's thread, helpers, and mutators that would have to wait: follow grey words, reading
//! before-images where there are some; take the protection away) · *last pause* (references, hand
//! blocks to the sweep; nothing is marked that was reachable). Invariant: `[cycle.inv.snapshot]`;
//! why nothing is lost is argued in `docs/concurrency.md`. A program with trace functions of its
//! own, which read objects as they are now, gets ordinary cycles.

use super::marking_mode::{Left, MarkingMode};
use super::snapshot_modes::SnapshotCycle;
use crate::addr::{CHUNK_BYTES, FRAME_BYTES, PAGE_BYTES};
use crate::cycle::collector::Collector;
use crate::cycle::phase::Step;
use crate::cycle::phases::pause::Pause;
use crate::cycle::phases::written_pages::{Unwatched, address_range};
use crate::cycle::policy::generation::Generation;
use crate::cycle::report::callbacks::{self, CycleEvent, tell};
use crate::cycle::report::record::Kind;
use crate::cycle::report::spans::{SpanKind, timed};
use crate::cycle::token::Driver;
use crate::heap::Heap;
use crate::mark::frozen_roots::Closed;
use crate::mark::markers::MOST_MARKERS;
use crate::sys::meta_vec::MetaVec;
use crate::watch::snapshot::{self, Snapshot};
use crate::world::mutator::Mutator;
use rustix::io::Errno;

/// How much the heap may grow between making room for copies and the stop, before such a cycle is
/// not worth its while.
const SPARE_BYTES: usize = 64 << 20;
/// The part of the heap that copies may take. Larger: fewer cycles that end as ordinary ones
/// because the program wrote too much; smaller: less memory.
const COPIES_PER_HEAP: (usize, usize) = (3, 8);
/// Copies of a small heap.
const LEAST_COPIES: usize = (8 << 20) / PAGE_BYTES;
/// Written pages that are not worth another round of protecting: protecting them in the stop takes
/// less than a millisecond.
const FEW_PAGES: usize = 64;
/// Rounds of protecting at most.
const MOST_ROUNDS: usize = 4;

/// What such a cycle keeps between its steps.
pub struct CopyBeforeWrite {
    heap: &'static Heap,
    watch: Snapshot,
    snapshot: SnapshotCycle,
    /// Address ranges to protect, kept from one use to the next.
    rows: MetaVec<(usize, usize)>,
    /// Whether there is a snapshot, all of whose pages are protected.
    complete: bool,
    /// Another descriptor watches pages of the heap: one that was closed here, and that a process
    /// still has which was copied without our knowledge.
    is_anothers: bool,
}

impl CopyBeforeWrite {
    /// With an open watch on this heap.
    pub fn new(heap: &'static Heap, watch: Snapshot) -> Self {
        let snapshot = SnapshotCycle::default();
        Self { heap, watch, snapshot, rows: MetaVec::new(), complete: false, is_anothers: false }
    }

    /// In the child of a `fork`, which has copies of its own of the before-images: gives these
    /// back, closes the watch, and leaves all other memory where it is.
    pub fn leave_to_parent(self) {
        let Self { heap, watch, rows, .. } = self;
        heap.before_images.close();
        watch.leave_to_parent();
        core::mem::forget(rows);
    }

    /// Protects blocks of scanned objects that are not; says how many pages that were.
    fn protect_new(&mut self) -> usize {
        let (heap, rows) = (self.heap, &mut self.rows);
        rows.clear();
        heap.inner().frames.for_each_unregistered(|first, count| rows.push((first, count)));
        for (first, count) in rows.iter().copied() {
            let start = heap.base().0 + first * CHUNK_BYTES;
            // Outside the heap's lock: the system call waits for every page fault of the process.
            match self.watch.register(&(start..start + count * CHUNK_BYTES)) {
                Ok(()) => heap.inner().frames.note_registered(first, count),
                Err(refusal) => {
                    self.complete = false;
                    self.is_anothers |= refusal.is("UFFDIO_REGISTER", Errno::BUSY);
                }
            }
        }
        rows.clear();
        heap.inner().frames.protect_new(|row| rows.push(address_range(heap, row)));
        let mut pages = 0;
        for (start, end) in rows.iter().copied() {
            pages += (end - start) / PAGE_BYTES;
            self.complete &= self.watch.protect(&(start..end)).is_ok();
        }
        pages
    }

    /// Protects again what was written since it was protected; says how many pages that were.
    fn protect_touched(&mut self) -> usize {
        let Self { heap, watch, rows, complete, .. } = self;
        rows.clear();
        if !watch.take_touched(|page| rows.push((page, page + PAGE_BYTES))) {
            // Too many to name: everything that is in use, once more.
            rows.clear();
            heap.inner().frames.for_each_protected(|row| rows.push(address_range(heap, row)));
        }
        for (start, end) in rows.iter().copied() {
            *complete &= watch.protect(&(start..end)).is_ok();
        }
        rows.iter().map(|(start, end)| (end - start) / PAGE_BYTES).sum()
    }

    /// Lets all pages be written, and gives the before-images back. Nobody marks.
    fn forget(&mut self) {
        self.watch.end();
        self.heap.before_images.close();
        self.heap.inner().frames.unprotect_all();
    }
}

impl MarkingMode for CopyBeforeWrite {
    fn was_closed(&self) -> bool {
        self.watch.was_closed()
    }

    fn end_closed(&mut self) {
        self.watch.end_thread();
    }

    fn write_protect(&mut self, driver: &mut Driver, _: Generation) -> Result<(), Unwatched> {
        let (heap, began) = (driver.heap, timed(SpanKind::Protect));
        let started = match self.watch.start() {
            // For the moment there are too many threads: this cycle stops the world.
            Err(refusal) if refusal.is(snapshot::NO_THREAD, Errno::AGAIN) => false,
            answer => answer.map(|()| true).map_err(|_| Unwatched)?,
        };
        self.snapshot.begin(driver, Kind::Snapshot, began);
        let committed = heap.committed() + SPARE_BYTES;
        let most = committed / COPIES_PER_HEAP.1 * COPIES_PER_HEAP.0 / PAGE_BYTES;
        let base = heap.base().0;
        let room = heap.before_images.open(&(base..base + committed), most.max(LEAST_COPIES));
        self.complete = started && room.is_ok() && !heap.layouts.has_functions();
        if self.complete {
            self.watch.begin_arming();
            let mut written = self.protect_new();
            for _ in 0..MOST_ROUNDS {
                // The first round names the blocks taken into use meanwhile, later ones what is
                // written all the time.
                let last = written;
                written = self.protect_touched() + self.protect_new();
                if written <= FEW_PAGES || written > last / 4 * 3 {
                    break;
                }
            }
        }
        driver.record.protect_ns = began.over(driver.record.number);
        match self.watch.was_closed() || self.is_anothers {
            true => {
                self.forget();
                Err(Unwatched)
            }
            false => Ok(()),
        }
    }

    fn first_pause(
        &mut self,
        driver: &mut Driver,
        of: &mut Collector,
        own: Option<&Mutator>,
    ) -> Option<()> {
        let heap = driver.heap;
        of.step(Step::Protected);
        callbacks::before_roots(true);
        let pause = Pause::begin(driver, of, own)?;
        driver.record.stopping_ns = pause.stopping_ns;
        tell(CycleEvent::MarkStart);
        driver.markers().begin(MOST_MARKERS, true);
        self.snapshot.take(heap, of);
        let phase = timed(SpanKind::StoppedRoots);
        driver.read_roots(of, &pause);
        // They change while the program runs, and what they held now has to be marked.
        driver.trace_registered();
        phase.over(driver.record.number);
        driver.record.roots_ns = pause.so_far_ns();
        let base = heap.base().0;
        self.complete &= heap.before_images.covers(&(base..base + heap.committed()))
            && !heap.layouts.has_functions();
        if self.complete {
            self.watch.begin_keeping();
            driver.record.remark_pages = self.protect_touched() + self.protect_new();
        }
        if !self.complete {
            driver.marker.forget_work();
        }
        of.step(Step::RootsRead);
        driver.record.note_stop(SpanKind::FirstStop, pause.end());
        Some(())
    }

    fn mark(&mut self, driver: &mut Driver) {
        let (heap, began) = (driver.heap, timed(SpanKind::Mark));
        if self.complete {
            driver.marker.scan_frozen(Closed::Scanned);
            driver.mark_uncollectable();
            driver.mark_beside();
            driver.marker.report();
        }
        let dropped = driver.markers().take_overflow();
        self.snapshot.answered = self.complete && !heap.before_images.has_overflowed() && !dropped;
        driver.record.preclean_pages = heap.before_images.count();
        self.forget();
        if !self.snapshot.answered {
            driver.marker.forget_work();
            self.snapshot.expect_to_mark(driver);
        }
        driver.record.mark_ns = began.over(driver.record.number);
    }

    fn remark(&mut self, driver: &mut Driver, of: &mut Collector, own: Option<&Mutator>) -> Left {
        self.snapshot.remark(driver, of, own)
    }

    fn conclude(&mut self, driver: &mut Driver, of: &mut Collector) {
        self.snapshot.conclude(driver, of);
    }

    fn give_up(&mut self) {
        self.forget();
    }
}

/// A frame is whole pages, so rows of frames are too.
const _: () = assert!(FRAME_BYTES.is_multiple_of(PAGE_BYTES));
