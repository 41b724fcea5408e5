//! A cycle with the world running: roots read thread by thread, marking in the background under a write watch, short stops in which written pages are armed again, and one at the end. Full or minor: a minor one keeps the mark bits, and what was written since the last cycle stands for
//! all that is marked.
//!
//! The steps and who takes them: *arm* (the collector's thread: finish the last sweep; full: clear marks, arm what they named; minor: scan the marked objects on written pages) · *roots* (the collector's thread, one mutator stopped at a
//! time; from here on runs are handed out marked) · *mark* and *preclean* (the collector's thread, helpers, and mutators that would have to wait: follow grey words; ask for written pages and scan their marked objects again, until few are left or it stops
//! getting better) · *remark* (who drives the stop: roots and the last written pages once more, the program's own trace functions, references, hand blocks to the sweep).
//! Why nothing is lost is argued in `docs/concurrency.md`. Explicit free is put off until the end of the cycle.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use super::collector::{COLLECTOR, Collector};
use super::conclude::conclude;
use super::events::{CycleEvent, tell};
use super::generation::Generation;
use super::markers;
use super::phase::Step;
use super::report::{CYCLES, CycleRecord, Kind};
use super::settle::Settling;
use super::stopped::{
    Owner, Stop, briefly, mark_uncollectable, nanoseconds, read_large_roots, read_roots_by,
    read_roots_running, read_whole,
};
use super::watched::{Choice, Unwatched, Watched};
use crate::addr::PAGE_BYTES;
use crate::alloc::sweep;
use crate::heap::HEAP;
use crate::mark::drain::Marker;
use crate::mark::frozen::Inward;
use crate::mark::rescan;
use crate::mark::team::MOST_MARKERS;
use crate::refs;
use crate::watch::AnyWatch;
use crate::watch::choose::Watching;
use crate::world;
use crate::world::mutator::Mutator;

/// Written pages that are not worth another round, nor a helper in the last stop: scanning them takes about a tenth of a millisecond.
const FEW_PAGES: usize = 64;
/// Rounds at most.
const MOST_ROUNDS: usize = 12;
/// Rounds that find hardly less than the best one before: beyond so many the program writes faster than rounds can be.
const MOST_IN_VAIN: usize = 2;
/// Where it takes the program's threads longer to stop, because there are many, another stop costs more than it saves.
const SLOW_STOP: Duration = Duration::from_micros(500);
/// The stop in the middle calls the program's functions until it has taken so long; the last one calls all of them.
const TRACING: Duration = Duration::from_micros(300);
/// Where at least this part of what is allocated stays, new blocks are armed at once, and not scanned a second time when they are.
const MOSTLY_STAYS: f64 = 0.5;

/// How a round arms what it asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arming {
    /// Beside the program: costs no stop, and time for each page that other processors know.
    Running,
    /// In short stops.
    Stopped,
}

/// What a concurrent cycle keeps between its steps; protected by the collector's lock while the world may step, used by the collector's thread alone between.
pub struct Concurrent {
    watched: Watched,
    record: CycleRecord,
    generation: Generation,
    /// Bytes allocated when objects began to be born marked.
    black_from: usize,
    /// Bytes allocated when the cycle began.
    began_at: usize,
    /// Bytes allocated while the last cycle ran.
    pub allocated_during_last: usize,
    /// The part of what was allocated that stayed at the last cycle.
    stayed: f64,
    /// It took the threads long to stop for a round of this cycle.
    stops_are_slow: bool,
    /// The rounds of this cycle came to an end where hardly anything was left.
    kept_up: bool,
    /// The watch refused something: the last stop scans every marked object.
    incomplete: bool,
}

impl Concurrent {
    /// With an open watch.
    pub fn new(watch: AnyWatch) -> Self {
        Self {
            watched: Watched::new(watch),
            record: CycleRecord::default(),
            generation: Generation::Full,
            black_from: 0,
            began_at: 0,
            allocated_during_last: 0,
            stayed: 1.0,
            stops_are_slow: false,
            kept_up: false,
            incomplete: false,
        }
    }

    /// The way of watching.
    pub fn watching(&self) -> Watching {
        self.watched.watching()
    }

    /// Whether the program has closed the watch behind our back.
    pub fn watch_was_closed(&self) -> bool {
        self.watched.was_closed()
    }

    /// Where the watch keeps what it asks about.
    #[cfg(test)]
    pub fn room(&mut self) -> [usize; 2] {
        self.watched.room()
    }

    /// Closes the watch and leaves all other memory where it is.
    pub fn close_watch(self) {
        self.watched.close();
    }

    /// All blocks are swept: what is free now need not be watched. World running, on the collector's thread.
    pub fn swept(&mut self) {
        self.watched.disarm_free();
    }

    /// World running, on the collector's thread. An error where the system refuses to watch: then there is no cycle.
    pub fn arm(&mut self, generation: Generation) -> Result<(), Unwatched> {
        let began = Instant::now();
        self.generation = generation;
        self.incomplete = false;
        self.record = CycleRecord {
            number: CYCLES.load(Relaxed) + 1,
            kind: match generation {
                Generation::Full => Kind::Concurrent,
                Generation::Minor => Kind::Minor,
            },
            live_before_bytes: HEAP.state.live_bytes.load(Relaxed),
            ..CycleRecord::default()
        };
        self.began_at = HEAP.state.allocated_since_cycle.load(Relaxed);
        self.watched.begin()?;
        sweep::finish(&HEAP);
        HEAP.state.marked_bytes.store(0, Relaxed);
        markers::team().begin(MOST_MARKERS, true);
        let choice = if self.stayed > MOSTLY_STAYS { Choice::All } else { Choice::Marked };
        match generation {
            Generation::Full => {
                self.watched.arm(choice, |_| {})?;
                HEAP.clear_marks();
            }
            Generation::Minor => {
                HEAP.state.marks.fetch_or(1, AcqRel);
                begin_marking();
                // SAFETY: this is the collector's thread, and no step is on offer.
                let marker = unsafe { markers::driver() };
                let pages = self.watched.preclean(choice, marker)?;
                self.record.remembered_pages = pages;
            }
        }
        self.record.arm_ns = nanoseconds(began);
        Ok(())
    }

    /// Reads static data, registered ranges and deep stacks, so that a first stop finds them read. World running, on the collector's thread.
    pub fn before_first_stop(&mut self, collector: &mut Collector) {
        begin_marking();
        // SAFETY: this is the collector's thread, and no step is on offer.
        let marker = unsafe { markers::driver() };
        let (roots, watch) = self.watched.roots();
        roots.begin_reading();
        read_large_roots(collector, marker, &mut |marker, range| {
            roots.read_running(watch, range, &mut |part| {
                // SAFETY: a part of what roots there are.
                unsafe { read_whole(marker, part) };
            });
        });
    }

    /// Reads the roots with one thread stopped at a time. On the collector's thread.
    pub fn first_roots(&mut self, collector: &mut Collector) {
        collector.step(Step::Armed);
        begin_marking();
        self.read_roots(collector);
        collector.step(Step::RootsRead);
    }

    fn read_roots(&mut self, collector: &mut Collector) {
        // SAFETY: this is the collector's thread, and no step is on offer.
        let marker = unsafe { markers::driver() };
        let (roots, watch) = self.watched.roots();
        roots.begin_reading();
        let longest_ns =
            read_roots_running(collector, markers::team(), marker, &mut |marker, owner, range| {
                // SAFETY: a part of what roots there are.
                let read = &mut |part: Range<usize>| unsafe { read_whole(marker, part) };
                match owner {
                    Owner::Runs => roots.read_running(watch, range, read),
                    Owner::Stands => roots.read_stopped(watch, range, read),
                }
            });
        self.record.first_ns = self.record.first_ns.max(longest_ns);
    }

    /// Reads what was written of the roots that are watched, which is armed again; says how much that was. World running, on the collector's thread.
    fn read_written_roots(&mut self, collector: &mut Collector) -> usize {
        // SAFETY: this is the collector's thread, and no step is on offer.
        let marker = unsafe { markers::driver() };
        let (roots, watch) = self.watched.roots();
        let mut bytes = 0;
        read_large_roots(collector, marker, &mut |marker, range| {
            roots.read_again(watch, &range, &mut |part| {
                bytes += part.len();
                // SAFETY: a part of what roots there are.
                unsafe { read_whole(marker, part) };
            });
        });
        bytes
    }

    /// Reads the roots in a short stop, for a program that names some itself. `own` is the calling mutator.
    pub fn first_stop(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        collector.step(Step::Armed);
        let begin = |cycle: &mut Self| {
            begin_marking();
            // What would be born unmarked and only a stack knows, the last stop would have to mark: no round could read that stack.
            if !world::the().stops_one_by_one() {
                cycle.begin_black();
            }
        };
        self.record.first_ns = self.read_roots_in_a_stop(collector, own, begin, |_| {});
        collector.step(Step::RootsRead);
    }

    /// Whether a stop in the middle of marking makes the last one shorter: what the program's own functions name was not looked at.
    pub fn wants_middle_stop(&self) -> bool {
        markers::team().aside_at(0).is_some()
    }

    /// That stop: reads the roots again, and calls the program's functions for what was put aside, both for a start.
    pub fn middle_stop(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        let trace = |marker: &mut Marker<'_>| {
            let began = Instant::now();
            let team = markers::team();
            team.alone();
            marker.trace_aside(|| began.elapsed() > TRACING);
            team.begin(MOST_MARKERS, true);
        };
        let stop_ns = self.read_roots_in_a_stop(collector, own, |_| {}, trace);
        self.record.note_short_stop(stop_ns);
    }

    /// `before` and `after` run in the stop too; gives its length.
    fn read_roots_in_a_stop(
        &mut self,
        collector: &mut Collector,
        own: Option<&Mutator>,
        before: impl FnOnce(&mut Self),
        after: impl FnOnce(&mut Marker<'_>),
    ) -> u64 {
        let stop = Stop::begin(collector, own);
        before(self);
        // SAFETY: this thread drives the stop, under the collector's lock.
        let marker = unsafe { markers::driver() };
        let (roots, _) = self.watched.roots();
        read_roots_by(collector, &stop, markers::team(), marker, &mut |marker, range| {
            // SAFETY: a part of what roots there are.
            roots.read_unarmed(range, &mut |part| unsafe { read_whole(marker, part) });
        });
        after(marker);
        stop.end()
    }

    /// Marks until only the last stop is left to do, world running, on the collector's thread.
    pub fn mark(&mut self) {
        let began = Instant::now();
        let team = markers::team();
        // SAFETY: this is the collector's thread, and no step is on offer.
        let marker = unsafe { markers::driver() };
        // A minor cycle has scanned what was written, and the rest leads to what was marked before.
        if self.generation == Generation::Full {
            marker.scan_frozen(Inward::LeftOut);
        }
        mark_uncollectable(marker);
        refs::process::trace_strong(&mut Settling::new(team, &HEAP, marker));
        refs::trace_registered(&mut Settling::new(team, &HEAP, marker));
        self.record.markers = 1 + markers::work(team, marker);
        self.stops_are_slow = false;
        self.kept_up = self.rounds();
        if !self.kept_up {
            let wanted = COLLECTOR.lock().markers.saturating_sub(1);
            // Without the lock: a thread is made by libc, with the program's malloc.
            markers::ensure(wanted);
        }
        self.record.mark_ns = nanoseconds(began);
    }

    /// Precleans until hardly anything is left or it stops getting better; says whether the former.
    fn rounds(&mut self) -> bool {
        let mut least = usize::MAX;
        let mut in_vain = 0;
        let stops = world::the().stops_one_by_one();
        for round in 0..MOST_ROUNDS {
            let arming = if round > 0 && stops { Arming::Stopped } else { Arming::Running };
            let found = self.preclean(arming);
            in_vain += (found > least / 8 * 7) as usize;
            if found <= FEW_PAGES {
                return true;
            }
            if in_vain > MOST_IN_VAIN || self.stops_are_slow {
                break;
            }
            least = least.min(found);
        }
        false
    }

    /// Follows what [`Self::middle_stop`] read, as [`Self::mark`] does.
    pub fn mark_again(&mut self) {
        let began = Instant::now();
        if self.kept_up {
            self.rounds();
        } else {
            self.preclean(Arming::Running);
        }
        self.record.mark_ns += nanoseconds(began);
    }

    /// One round: scans the marked objects on written pages, reads the roots again, in a round of stops only what was written of those that are watched, and follows what is grey. Says how much that was, in pages written or marked. World running, on the collector's thread while no step is on offer.
    ///
    /// What is allocated before the end of the first round is marked if it is reached, like everything else; what comes later is born marked, so that there is an end to it.
    pub fn preclean(&mut self, arming: Arming) -> usize {
        let before = HEAP.state.marked_bytes.load(Relaxed);
        // SAFETY: the caller's promise.
        let marker = unsafe { markers::driver() };
        let pages = match arming {
            Arming::Running => self.watched.preclean(Choice::Marked, marker),
            Arming::Stopped => self.watched.preclean_in_stops(marker, |arm| {
                let stop_ns = briefly(&mut COLLECTOR.lock(), |began| {
                    self.stops_are_slow |= began.elapsed() > SLOW_STOP;
                    arm(began);
                });
                self.record.note_short_stop(stop_ns);
            }),
        };
        let pages = pages.unwrap_or_else(|Unwatched| {
            self.incomplete = true;
            0
        });
        let roots = match arming {
            Arming::Running => {
                self.read_roots(&mut COLLECTOR.lock());
                0
            }
            Arming::Stopped => self.read_written_roots(&mut COLLECTOR.lock()) / PAGE_BYTES,
        };
        markers::work(markers::team(), marker);
        marker.report();
        self.record.rounds += 1;
        self.record.preclean_pages += pages;
        let marked = HEAP.state.marked_bytes.load(Relaxed) - before;
        let found = pages + roots + marked / PAGE_BYTES;
        if found > FEW_PAGES {
            self.begin_black();
        }
        found
    }

    /// The last stop; ends the cycle. `own` is the calling mutator, if it is one.
    pub fn remark(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        collector.step(Step::Stopped);
        tell(CycleEvent::CycleStart);
        let stop = Stop::begin(collector, own);
        tell(CycleEvent::MarkStart);
        self.record.stopping_ns = stop.stopping_ns;
        let team = markers::team();
        team.alone();
        // SAFETY: this thread drives the stop, under the collector's lock.
        let marker = unsafe { markers::driver() };
        let phase = Instant::now();
        let (roots, watch) = self.watched.roots();
        let mut root_bytes = 0;
        read_roots_by(collector, &stop, team, marker, &mut |marker, range| {
            roots.read_stopped(watch, range, &mut |part| {
                root_bytes += part.len();
                // SAFETY: a part of what roots there are.
                unsafe { read_whole(marker, part) };
            });
        });
        self.record.root_bytes = root_bytes;
        self.record.roots_ns = nanoseconds(phase);
        let phase = Instant::now();
        let most = if self.kept_up { 0 } else { collector.markers.saturating_sub(1) };
        let helpers = markers::existing().min(most);
        let alone = if helpers > 0 { FEW_PAGES * PAGE_BYTES } else { usize::MAX };
        match self.watched.remark(marker, alone) {
            Ok(pages) => self.record.remark_pages = pages,
            Err(Unwatched) => self.incomplete = true,
        }
        self.record.ask_ns = nanoseconds(phase);
        if self.incomplete {
            team.note_overflow();
        }
        let phase = Instant::now();
        if helpers > 0 && marker.pending() > FEW_PAGES {
            team.begin(1 + helpers, false);
            let came = markers::work(team, marker);
            self.record.markers = self.record.markers.max(1 + came);
            team.alone();
        } else {
            marker.work();
        }
        rescan::until_complete(team, marker);
        self.record.remark_ns = nanoseconds(phase);
        collector.step(Step::Drained);
        tell(CycleEvent::MarkEnd);
        let phase = Instant::now();
        let settling = &mut Settling::new(team, &HEAP, marker);
        // The program's own trace functions are called in stops only.
        let settled = refs::settle_stopped(settling, HEAP.layouts.has_functions());
        if !settled {
            // What a thread allocates, while references are settled beside it, is not theirs to judge.
            self.begin_black();
        }
        stop.hand_to_sweep(collector, &mut self.record, !settled);
        if settled {
            self.conclude(collector, marker, stop.so_far_ns(), phase);
            self.record.pause_ns = stop.end();
        } else {
            self.record.pause_ns = stop.end();
            let phase = Instant::now();
            // Threads are handed marked cells meanwhile.
            team.begin(1, true);
            refs::settle_running(&mut Settling::new(team, &HEAP, marker));
            self.conclude(collector, marker, self.record.pause_ns, phase);
        }
        self.record.publish();
    }

    /// References are settled, since `phase`.
    fn conclude(
        &mut self,
        collector: &mut Collector,
        marker: &mut Marker<'_>,
        stopped_ns: u64,
        phase: Instant,
    ) {
        marker.report();
        self.record.settle_ns = nanoseconds(phase);
        self.count();
        let stopped_ns = stopped_ns + self.record.first_ns + self.record.short_stops_ns;
        conclude(collector, self.generation, &mut self.record, stopped_ns);
    }

    /// From here on objects are born marked.
    fn begin_black(&mut self) {
        if !HEAP.state.allocate_black.swap(true, Relaxed) {
            self.black_from = HEAP.state.allocated_since_cycle.load(Relaxed);
        }
    }

    /// What was marked and what was born marked.
    fn count(&mut self) {
        let allocated = HEAP.state.allocated_since_cycle.load(Relaxed);
        let born = match HEAP.state.allocate_black.load(Relaxed) {
            true => allocated.saturating_sub(self.black_from),
            false => 0,
        };
        HEAP.state.born_marked_bytes.store(born, Relaxed);
        self.allocated_during_last = allocated.saturating_sub(self.began_at);
        let marked = HEAP.state.marked_bytes.load(Relaxed);
        // Frozen objects are never marked anew, and counted where the cycle ends.
        let frozen = HEAP.state.frozen_bytes.load(Relaxed);
        let live_before = self.record.live_before_bytes.saturating_sub(frozen);
        let before = match self.generation {
            Generation::Full => live_before,
            Generation::Minor => 0,
        };
        // Of a full cycle's marks those beyond what lived before stand for what is new.
        self.stayed = (marked.saturating_sub(before) + born) as f64 / allocated.max(1) as f64;
        if self.generation == Generation::Minor {
            let freed = HEAP.state.freed_since_cycle.load(Relaxed);
            let kept = live_before.saturating_sub(freed);
            HEAP.state.marked_bytes.store(marked + kept, Relaxed);
        }
    }
}

/// From here on explicit free is put off. Under the lock, so that whoever is freeing is done with it.
fn begin_marking() {
    let _inner = HEAP.inner();
    HEAP.state.marking.store(true, Relaxed);
}

/// Helpers besides the collector's thread while the world runs: half of the markers at most.
pub fn background_helpers(collector: &Collector) -> usize {
    (collector.markers / 2).saturating_sub(1)
}
