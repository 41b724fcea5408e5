//! A full cycle with the world running: two short stops, between them marking in the background under a write watch.
//!
//! The steps and who takes them: *arm* (the collector's thread: finish the last sweep, clear marks, register and arm the chunks of scanned objects) · *first stop* (a mutator that comes by: stacks, static data; from
//! here on runs are handed out marked) · *mark* and *preclean* (the collector's thread and helpers: follow grey words; ask for written pages and scan their marked objects again, until few are left or it stops
//! getting better) · *remark* (a mutator that comes by: roots and the last written pages once more, the program's own trace functions, references, hand blocks to the sweep).
//! Why nothing is lost is argued in `docs/concurrency.md`. Explicit free is a hint until the end of the cycle, except for objects that live until freed.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::*;
use std::time::Instant;

use super::collector::Collector;
use super::events::{CycleEvent, tell};
use super::markers;
use super::phase::Step;
use super::report::{CYCLES, CycleRecord, Kind};
use super::settle::Settling;
use super::stopped::{Stop, mark_uncollectable, nanoseconds, read_roots};
use crate::addr::{CHUNK_BYTES, PAGE_BYTES};
use crate::alloc::sweep;
use crate::heap::HEAP;
use crate::mark::drain::Marker;
use crate::mark::rescan;
use crate::mark::team::Team;
use crate::refs;
use crate::sys::meta_vec::MetaVec;
use crate::watch::Watch;
use crate::watch::pagemap::Pagemap;
use crate::world::mutator::Mutator;

/// Written pages that are not worth another round: scanning them in the stop takes about a tenth of a millisecond.
const FEW_PAGES: usize = 64;
/// Rounds at most.
const MOST_ROUNDS: usize = 8;
/// Chunks armed by one system call: the page table's lock is held that long.
const ARM_CHUNKS: usize = 4;

/// What a concurrent cycle keeps between its steps; protected by the collector's lock while the world may step, used by the collector's thread alone between.
pub struct Concurrent {
    watch: Pagemap,
    /// First chunk and count of each row of chunks to ask about.
    rows: MetaVec<(usize, usize)>,
    record: CycleRecord,
    /// Bytes allocated when objects began to be born marked.
    black_from: usize,
    /// Bytes allocated when the cycle began.
    began_at: usize,
    /// Bytes allocated while the last cycle ran.
    pub allocated_during_last: usize,
}

impl Concurrent {
    /// With an open watch.
    pub fn new(watch: Pagemap) -> Self {
        Self {
            watch,
            rows: MetaVec::new(),
            record: CycleRecord::default(),
            black_from: 0,
            began_at: 0,
            allocated_during_last: 0,
        }
    }

    /// Before the first stop, world running, on the collector's thread. False if the system refuses to watch: then there is no cycle.
    pub fn arm(&mut self) -> bool {
        let began = Instant::now();
        self.record = CycleRecord {
            number: CYCLES.load(Relaxed) + 1,
            kind: Kind::Concurrent,
            ..CycleRecord::default()
        };
        self.began_at = HEAP.state.allocated_since_cycle.load(Relaxed);
        sweep::finish(&HEAP);
        HEAP.clear_marks();
        let armed = self.take_written(|_| {});
        self.record.arm_ns = nanoseconds(began);
        armed
    }

    /// Asks for the pages of scanned objects written since they were armed last, and arms them again.
    fn take_written(&mut self, mut each: impl FnMut(core::ops::Range<usize>)) -> bool {
        let Self { watch, rows, .. } = self;
        let base = HEAP.base().0;
        let range = |first: usize, count: usize| {
            let start = base + first * CHUNK_BYTES;
            start..start + count * CHUNK_BYTES
        };
        rows.clear();
        HEAP.inner().granules.for_each_scanned(
            |first, count| watch.register(&range(first, count)).is_ok(),
            |first, count| {
                for piece in (first..first + count).step_by(ARM_CHUNKS) {
                    rows.push((piece, ARM_CHUNKS.min(first + count - piece)));
                }
            },
        );
        rows.iter()
            .all(|(first, count)| watch.take_written(&range(*first, *count), &mut each).is_ok())
    }

    /// The first stop. `own` is the calling mutator, if it is one.
    pub fn first_stop(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        tell(CycleEvent::CycleStart);
        let stop = Stop::begin(collector, own);
        self.record.stopping_ns = stop.stopping_ns;
        tell(CycleEvent::MarkStart);
        let team = markers::team();
        team.begin(1 + background_helpers(collector), true);
        HEAP.state.marked_bytes.store(0, Relaxed);
        self.black_from = HEAP.state.allocated_since_cycle.load(Relaxed);
        HEAP.state.allocate_black.store(true, Relaxed);
        // SAFETY: this thread drives the stop, under the collector's lock.
        read_roots(collector, &stop, team, unsafe { markers::driver() });
        collector.step(Step::RootsRead);
        self.record.first_ns = stop.end();
    }

    /// Marks until only the last stop is left to do, world running, on the collector's thread.
    pub fn mark(&mut self, helpers: usize) {
        let began = Instant::now();
        let team = markers::team();
        // SAFETY: this is the collector's thread, and no step is on offer.
        let marker = unsafe { markers::driver() };
        mark_uncollectable(marker);
        refs::process::trace_strong(&mut Settling::new(team, &HEAP, marker));
        work(team, marker, helpers);
        let mut last = usize::MAX;
        for _ in 0..MOST_ROUNDS {
            let pages = self.preclean(marker);
            work(team, marker, helpers);
            self.record.rounds += 1;
            self.record.preclean_pages += pages;
            if pages <= FEW_PAGES || pages > last / 4 * 3 {
                break;
            }
            last = pages;
        }
        self.record.markers = team.members();
        self.record.mark_ns = nanoseconds(began);
    }

    fn preclean(&mut self, marker: &mut Marker<'_>) -> usize {
        let mut pages = 0;
        let complete = self.take_written(|written| {
            pages += written.len() / PAGE_BYTES;
            marker.rescan(&written);
        });
        if !complete {
            // What was armed before the refusal would be missed: the last stop scans everything.
            markers::team().note_overflow();
        }
        pages
    }

    /// The last stop; ends the cycle. `own` as in [`Self::first_stop`].
    pub fn remark(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        let stop = Stop::begin(collector, own);
        let team = markers::team();
        team.alone();
        // SAFETY: this thread drives the stop, under the collector's lock.
        let marker = unsafe { markers::driver() };
        let phase = Instant::now();
        read_roots(collector, &stop, team, marker);
        let mut pages = 0;
        let complete = self.take_written(|written| {
            pages += written.len() / PAGE_BYTES;
            marker.rescan(&written);
        });
        self.record.remark_pages = pages;
        if !complete {
            team.note_overflow();
        }
        self.record.roots_ns = nanoseconds(phase);
        work(team, marker, 0);
        rescan::until_complete(team, marker);
        collector.step(Step::Drained);
        tell(CycleEvent::MarkEnd);
        let phase = Instant::now();
        refs::settle(&mut Settling::new(team, &HEAP, marker));
        marker.report();
        self.record.settle_ns = nanoseconds(phase);
        let allocated = HEAP.state.allocated_since_cycle.load(Relaxed);
        HEAP.state.born_marked_bytes.store(allocated.saturating_sub(self.black_from), Relaxed);
        self.allocated_during_last = allocated.saturating_sub(self.began_at);
        HEAP.inner().free_put_off(&HEAP);
        stop.finish_cycle(collector, &mut self.record);
        self.record.pause_ns = stop.end();
        self.record.publish();
    }
}

/// Helpers besides the collector's thread while the world runs: half of the markers at most.
pub fn background_helpers(collector: &Collector) -> usize {
    (collector.markers / 2).saturating_sub(1)
}

/// Marks until nothing is left, with so many helpers. The driver.
pub fn work(team: &Team, marker: &mut Marker<'_>, helpers: usize) {
    team.done.become_active();
    if helpers > 0 {
        markers::open();
    }
    marker.work_as_driver();
    if helpers > 0 {
        markers::shut();
    }
}
