//! A cycle by incremental update: roots read thread by thread, marking beside the program under a
//! write watch, short pauses in which written pages are protected again, and one pause at the end.
//! Full or minor: a minor one keeps the mark bits (sticky marks), and the pages written since the
//! last cycle are the remembered set.
//!
//! The steps: *write-protect* (the collector's thread: finish the last sweep; full: clear marks,
//! protect what they named; minor: scan the marked objects on written pages) · *roots* (the
//! collector's thread, short stops) · *mark* and *preclean* (the collector's
//! thread, helpers, and mutators that would have to wait: follow grey words; ask for written pages
//! and scan their marked objects again, until few are left or it stops getting better; from the
//! first round that finds much buffers are handed out marked) · *remark* (who drives the last
//! pause: roots and the last written pages once more, the program's own trace functions,
//! references, hand blocks to the sweep).
//! H. Boehm, A. Demers, S. Shenker, "Mostly parallel garbage collection", PLDI 1991. Why nothing is
//! lost is argued in `docs/concurrency.md`. Explicit free is put off until the end of the cycle.

use crate::sys::clock::Instant;
use core::sync::atomic::Ordering::*;

use super::marking_mode::{Left, MarkingMode};
use crate::addr::PAGE_BYTES;
use crate::cycle::collector::{COLLECTOR, Collector, CollectorGuard};
use crate::cycle::phase::Step;
use crate::cycle::phases::finish::finish;
use crate::cycle::phases::pause::{
    Pause, begin_marking, begin_marking_beside, clear_marks_beside, nanoseconds,
};
use crate::cycle::phases::reference_processing::References;
use crate::cycle::phases::written_pages::{Choice, Unwatched, WrittenPages};
use crate::cycle::policy::generation::Generation;
use crate::cycle::report::callbacks::{self, CycleEvent, tell};
use crate::cycle::report::line;
use crate::cycle::report::record::{CaughtUp, Kind};
use crate::cycle::report::spans::{SpanKind, timed};
use crate::cycle::token::Driver;
use crate::heap::Heap;
use crate::mark::frozen_roots::Closed;
use crate::mark::markers::{MOST_MARKERS, Until};
use crate::mark::rescan;
use crate::refs;
use crate::sys::clock;
use crate::watch::Watch;
use crate::world::mutator::Mutator;

/// Written pages that are not worth another round, nor a helper in the last pause: scanning them
/// takes about a tenth of a millisecond.
pub(super) const FEW_PAGES: usize = 64;
/// A pause in the middle calls the program's functions for so long, nanoseconds; the last one calls
/// all of them, or, where they are local, those for which none did.
const TRACING_NS: u64 = 300_000;
/// So many calls of local functions are left to the last pause, some tens of microseconds of it.
const FEW_CALLS: usize = 1024;
/// For more of them written pages are looked at again, so often at most. Larger: fewer calls in the
/// last pause of a program that writes much, and more short ones.
const MOST_CATCH_UPS: u32 = 12;
/// To sort so many objects that wait for functions takes the last pause some tens of microseconds.
const FEW_ASIDE: usize = 1024;
/// Looking at so many links takes a millisecond, in which the program writes again.
const MANY_LINKS: usize = 20_000;
/// Where objects with functions of the program lie in more blocks than this, nobody looks in the
/// last pause whether all of them are marked. Larger: references are processed beside more
/// programs; smaller: it takes less of the pause, of which so many are a tenth of a millisecond.
const MOST_BLOCKS_WITH_FUNCTIONS: usize = 4096;
/// Where at least this part of what is allocated stays, new blocks are protected at once, and not
/// scanned a second time when they are.
const MOSTLY_STAYS: f64 = 0.5;

/// What such a cycle keeps between its steps.
pub struct IncrementalUpdate<W: Watch> {
    pub(super) pages: WrittenPages<W>,
    generation: Generation,
    /// Bytes allocated when objects began to be born marked.
    black_from: usize,
    /// Bytes allocated when the cycle began.
    began_at: usize,
    /// The part of what was allocated that stayed at the last cycle.
    stayed: f64,
    /// Of the short stops since rounds began, so many took long to begin.
    pub(super) slow_stops: u32,
    /// The last pause in the middle had no time for all local functions.
    out_of_time: bool,
    /// Times that written pages were looked at between such pauses.
    catch_ups: u32,
    /// The program was told that the cycle begins.
    is_told: bool,
    /// When pages were protected last in this cycle, by the clock.
    pub(super) protected_ns: u64,
    /// How this cycle came to an end where hardly anything was left, if it did.
    pub(super) caught_up: CaughtUp,
    /// The watch refused something: the last pause scans every marked object.
    pub(super) incomplete: bool,
    /// What was written since the last cycle is known.
    watches: bool,
    /// The last pause has processed the references.
    processed: bool,
}

impl<W: Watch> IncrementalUpdate<W> {
    /// With a watch that is open over this heap.
    pub fn new(heap: &'static Heap, watch: W) -> Self {
        Self {
            pages: WrittenPages::new(heap, watch),
            generation: Generation::Full,
            black_from: 0,
            began_at: 0,
            stayed: 1.0,
            slow_stops: 0,
            out_of_time: false,
            catch_ups: 0,
            is_told: false,
            protected_ns: 0,
            caught_up: CaughtUp::No,
            processed: false,
            incomplete: false,
            watches: false,
        }
    }

    /// Closes the watch and leaves all other memory where it is.
    pub fn close_watch(self) {
        self.pages.close();
    }

    /// From here on objects are born marked.
    pub(super) fn begin_black(&mut self, heap: &Heap) {
        if !heap.state.allocate_black.swap(true, Relaxed) {
            self.black_from = heap.state.allocated_since_cycle.load(Relaxed);
        }
    }

    /// Tells the program that a pause reads roots, and before the first one that the cycle begins.
    fn tell_beginning(&mut self) {
        callbacks::before_roots(!core::mem::replace(&mut self.is_told, true));
    }

    /// What was written until the world stopped is scanned again, and what that leads to is marked.
    fn mark_the_rest(&mut self, driver: &mut Driver, most_markers: usize, pause: &Pause) {
        let markers = driver.markers();
        let (phase, whole) = (Instant::now(), timed(SpanKind::StoppedMark));
        let existing = driver.workers.existing().min(most_markers.saturating_sub(1));
        let helpers = if self.caught_up == CaughtUp::No { existing } else { 0 };
        let askers = existing.min(self.pages.helpers_to_ask());
        let alone = if helpers > 0 { FEW_PAGES * PAGE_BYTES } else { usize::MAX };
        // Functions are not called for what is found here, which mostly waits for it already.
        markers.begin(driver.workers.places_for(askers), true);
        let (workers, marker) = (driver.workers, &mut driver.marker);
        match self.pages.remark(workers, marker, &pause.stopped, alone, askers) {
            Ok(pages) => driver.record.remark_pages = pages,
            Err(Unwatched) => self.incomplete = true,
        }
        markers.alone();
        markers.aside.forget_repeated(FEW_ASIDE);
        driver.record.ask_ns = nanoseconds(phase);
        if self.incomplete {
            markers.note_overflow();
        }
        let phase = Instant::now();
        if helpers > 0 && driver.marker.pending() > FEW_PAGES {
            markers.begin(driver.workers.places_for(helpers), false);
            driver.record.markers = driver.record.markers.max(driver.mark_with_workers(helpers));
            markers.alone();
        } else {
            driver.marker.work();
        }
        rescan::until_complete(markers, &mut driver.marker);
        driver.record.remark_ns = nanoseconds(phase);
        whole.over(driver.record.number);
    }

    /// References are processed, and the world stood for so long.
    fn finish(&mut self, driver: &mut Driver, collector: &mut Collector, stopped_ns: u64) {
        self.count(driver, collector);
        // Nobody worked meanwhile.
        let (marked_ns, waited_ns) = (driver.record.mark_ns, driver.record.waited_ns);
        driver.record.mark_ns = marked_ns.saturating_sub(waited_ns);
        finish(driver, collector, self.generation, stopped_ns);
    }

    /// What was marked and what was born marked.
    fn count(&mut self, driver: &Driver, collector: &mut Collector) {
        let state = &driver.heap.state;
        let allocated = state.allocated_since_cycle.load(Relaxed);
        let born = match state.allocate_black.load(Relaxed) {
            true => allocated.saturating_sub(self.black_from),
            false => 0,
        };
        state.born_marked_bytes.store(born, Relaxed);
        collector.allocated_during_last = allocated.saturating_sub(self.began_at);
        let marked = state.marked_bytes.load(Relaxed);
        // Frozen objects are never marked anew, and counted where the cycle ends.
        let frozen = state.frozen_bytes.load(Relaxed);
        let live_before = driver.record.live_before_bytes.saturating_sub(frozen);
        let before = match self.generation {
            Generation::Full => live_before,
            Generation::Minor => 0,
        };
        // Of a full cycle's marks those beyond what lived before stand for what is new.
        self.stayed = (marked.saturating_sub(before) + born) as f64 / allocated.max(1) as f64;
        if self.generation == Generation::Minor {
            let freed = state.freed_live_since_cycle.load(Relaxed);
            let grown = state.grown_live_since_cycle.load(Relaxed);
            // What is frozen has grown with it.
            let kept = (driver.record.live_before_bytes + grown).saturating_sub(frozen + freed);
            state.marked_bytes.store(marked + kept, Relaxed);
        }
    }
}

impl<W: Watch> MarkingMode for IncrementalUpdate<W> {
    fn was_closed(&self) -> bool {
        self.pages.watch().was_closed()
    }

    fn has_minor_cycles(&self) -> bool {
        self.watches
    }

    fn write_protect(
        &mut self,
        driver: &mut Driver,
        generation: Generation,
    ) -> Result<(), Unwatched> {
        let (heap, began) = (driver.heap, timed(SpanKind::Protect));
        self.generation = generation;
        self.incomplete = false;
        (self.out_of_time, self.catch_ups, self.is_told) = (false, 0, false);
        self.watches = true;
        refs::begin_cycle(generation == Generation::Full);
        let kind = match generation {
            Generation::Full => Kind::Concurrent,
            Generation::Minor => Kind::Minor,
        };
        driver.begin_record(kind, began);
        self.began_at = heap.state.allocated_since_cycle.load(Relaxed);
        self.pages.begin(generation)?;
        heap.finish_sweep(|| ());
        heap.state.marked_bytes.store(0, Relaxed);
        driver.markers().begin(MOST_MARKERS, true);
        let choice = if self.stayed > MOSTLY_STAYS { Choice::All } else { Choice::Marked };
        match generation {
            Generation::Full => {
                self.pages.protect(choice, |_| {})?;
                clear_marks_beside(heap);
            }
            Generation::Minor => {
                heap.state.marks.fetch_or(1, AcqRel);
                begin_marking_beside(heap);
                if !driver.markers().aside.put_traced(|object| heap.is_marked(object)) {
                    driver.markers().note_overflow();
                }
                driver.record.remembered_pages = self.pages.preclean(choice, &mut driver.marker)?;
            }
        }
        driver.record.protect_ns = began.over(driver.record.number);
        Ok(())
    }

    fn read_roots(&mut self, driver: &mut Driver, collector: &mut CollectorGuard) -> bool {
        collector.step(Step::Protected);
        begin_marking_beside(driver.heap);
        let phase = timed(SpanKind::Roots);
        self.pages.read_roots_running(driver, collector);
        driver.record.mark_ns = phase.over(driver.record.number);
        collector.step(Step::RootsRead);
        true
    }

    /// Reads static data, registered ranges and deep stacks, so that a first pause finds them read.
    fn before_first_pause(&mut self, driver: &mut Driver, collector: &mut CollectorGuard) {
        begin_marking_beside(driver.heap);
        let phase = timed(SpanKind::Roots);
        self.pages.read_large_roots(driver, collector);
        driver.record.mark_ns = phase.over(driver.record.number);
    }

    /// Reads the roots, for a program that names some itself.
    fn first_pause(
        &mut self,
        driver: &mut Driver,
        of: &mut Collector,
        own: Option<&Mutator>,
    ) -> Option<()> {
        of.step(Step::Protected);
        self.tell_beginning();
        let pause = Pause::begin(driver, of, own)?;
        begin_marking(driver.heap);
        // What would be born unmarked and only a stack knows, the last pause would have to mark: no
        // round could read that stack.
        if !driver.world.stops_one_by_one() {
            self.begin_black(driver.heap);
        }
        let phase = timed(SpanKind::StoppedRoots);
        self.pages.read_unprotected_roots(driver, of, &pause);
        phase.over(driver.record.number);
        driver.record.note_stop(SpanKind::FirstStop, pause.end());
        of.step(Step::RootsRead);
        Some(())
    }

    fn mark(&mut self, driver: &mut Driver) {
        let began = timed(SpanKind::Mark);
        // A minor cycle has scanned what was written, and the rest leads to what was marked before.
        if self.generation == Generation::Full {
            driver.marker.scan_frozen(Closed::LeftOut);
        }
        driver.mark_uncollectable();
        refs::handles::process::trace_strong(&mut References::new(driver));
        driver.trace_registered();
        driver.mark_beside();
        self.catch_up(driver);
        if refs::look_at_links(&References::new(driver)) > MANY_LINKS {
            self.catch_up(driver);
        }
        if self.caught_up == CaughtUp::No || self.pages.helpers_to_ask() > 0 {
            let wanted = COLLECTOR.lock().markers.saturating_sub(1);
            // Without the lock: a thread is made by libc, with the program's malloc.
            driver.workers.ensure(wanted);
        }
        driver.record.mark_ns += began.over(driver.record.number);
    }

    /// What the program's own functions name was not looked at.
    fn wants_middle_pause(&self, driver: &Driver) -> bool {
        driver.markers().aside.has_some()
    }

    /// Reads the roots again, and calls the program's functions for what was put aside, both for a
    /// start.
    fn middle_pause(
        &mut self,
        driver: &mut Driver,
        of: &mut Collector,
        own: Option<&Mutator>,
    ) -> Option<()> {
        if !self.out_of_time {
            self.tell_beginning();
        }
        let pause = Pause::begin(driver, of, own)?;
        if !self.out_of_time {
            self.pages.read_unprotected_roots(driver, of, &pause);
        }
        let (end_ns, markers) = (clock::now_ns() + TRACING_NS, driver.markers());
        let is_over = || clock::now_ns() >= end_ns;
        markers.alone();
        if driver.heap.layouts.has_local_functions() {
            driver.marker.work_until(Until::Clock(end_ns));
            self.out_of_time = is_over();
        } else {
            driver.marker.trace_aside(is_over);
        }
        markers.begin(MOST_MARKERS, true);
        driver.record.note_stop(SpanKind::ShortStop, pause.end());
        Some(())
    }

    fn mark_again(&mut self, driver: &mut Driver) -> bool {
        let began = timed(SpanKind::Mark);
        let is_local = driver.heap.layouts.has_local_functions();
        if is_local {
            driver.mark_beside();
        }
        let mut again = is_local && self.out_of_time && driver.markers().aside.has_some();
        if !again {
            self.catch_up(driver);
            refs::look_at_links(&References::new(driver));
            self.catch_ups += 1;
            again = is_local
                && driver.markers().aside.len() > FEW_CALLS
                && self.catch_ups < MOST_CATCH_UPS;
        }
        driver.record.mark_ns += began.over(driver.record.number);
        again
    }

    fn stops_at_once(&self) -> bool {
        self.caught_up == CaughtUp::Passes
    }

    fn keep_up(&mut self, driver: &mut Driver) {
        self.preclean_beside(driver);
    }

    fn remark(&mut self, driver: &mut Driver, of: &mut Collector, own: Option<&Mutator>) -> Left {
        of.step(Step::Stopped);
        self.tell_beginning();
        let Some(pause) = Pause::begin(driver, of, own) else { return Left::All };
        tell(CycleEvent::MarkStart);
        driver.record.stopping_ns = pause.stopping_ns;
        driver.markers().alone();
        driver.markers().aside.begin_tracing();
        let phase = timed(SpanKind::StoppedRoots);
        driver.record.root_bytes = self.pages.read_roots_stopped(driver, of, &pause);
        driver.record.roots_ns = phase.over(driver.record.number);
        driver.marker.named_are_marked = true;
        self.mark_the_rest(driver, of.markers, &pause);
        driver.marker.named_are_marked = false;
        driver.ask_when_marked();
        of.step(Step::Drained);
        tell(CycleEvent::MarkEnd);
        let phase = timed(SpanKind::StoppedReferences);
        driver.markers().aside.end_tracing();
        refs::keep_toggles_once(&mut References::new(driver));
        // The program's own trace functions are called in pauses only.
        let everything =
            driver.heap.inner().any_unmarked_has_function(driver.heap, MOST_BLOCKS_WITH_FUNCTIONS);
        self.processed = refs::process_references_stopped(&mut References::new(driver), everything);
        let is_over = self.processed && !driver.heap.inner().deferred_frees.are_many();
        if !is_over {
            // What a thread allocates, while references are processed beside it, is not theirs to
            // judge.
            self.begin_black(driver.heap);
        }
        pause.hand_to_sweep(driver, of, !is_over);
        driver.marker.report();
        driver.record.references_ns = phase.over(driver.record.number);
        if !is_over {
            driver.record.note_stop(SpanKind::LastStop, pause.end());
            return Left::Conclusion;
        }
        let stopped_ns = pause.so_far_ns() + driver.record.stopped_ns();
        self.finish(driver, of, stopped_ns);
        driver.record.note_stop(SpanKind::LastStop, pause.end());
        line::publish(&mut driver.record);
        Left::Nothing
    }

    fn conclude(&mut self, driver: &mut Driver, of: &mut Collector) {
        if !self.processed {
            let phase = timed(SpanKind::References);
            // Threads are handed marked cells meanwhile.
            driver.markers().begin(1, true);
            refs::process_references_running(&mut References::new(driver));
            driver.marker.report();
            driver.record.references_running_ns = phase.over(driver.record.number);
        }
        self.finish(driver, of, driver.record.stopped_ns());
        line::publish(&mut driver.record);
    }

    fn stop_watching(&mut self) {
        self.watches = !self.pages.unprotect_all();
    }

    fn swept(&mut self) {
        self.pages.unprotect_free();
    }
}
