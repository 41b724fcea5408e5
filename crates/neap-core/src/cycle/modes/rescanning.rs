//! How incremental update comes to an end with what the program writes meanwhile: rounds beside it,
//! and where it writes faster than these scan, passes in short stops, with as much time for the
//! program between.
//!
//! Invariant: what a round or a pass was told of, it has scanned when it is over, or the cycle
//! counts as incomplete and the last pause scans every marked object. So each may come at any time
//! while the cycle marks, and any number of them. On the collector's thread, world running.

use core::sync::atomic::Ordering::*;
use core::time::Duration;

use super::incremental_update::{FEW_PAGES, IncrementalUpdate};
use crate::addr::PAGE_BYTES;
use crate::cycle::collector::COLLECTOR;
use crate::cycle::driver::progress;
use crate::cycle::phases::pause::{briefly, nanoseconds};
use crate::cycle::phases::written_pages::{Choice, Unwatched};
use crate::cycle::policy::catching_up::{CatchingUp, Next};
use crate::cycle::report::record::CaughtUp;
use crate::cycle::report::spans::{SpanKind, timed};
use crate::cycle::token::Driver;
use crate::sys::clock::Instant;
use crate::sys::{clock, futex, print};
use crate::watch::Watch;

/// Where stopping takes long, more stops are worth it if so many pages were written lately.
const MANY_PAGES: usize = 1024;
/// So much is protected in one short stop, which costs less than interrupting other processors for
/// each row of it. Larger: longer stops; smaller: more interruptions.
const SMALL_HEAP: usize = 8 << 20;
/// Rounds at most.
const MOST_ROUNDS: usize = 12;
/// Rounds that find hardly less than the best one before: beyond so many the program writes faster
/// than rounds can be. None where passes can follow, which cost less.
const MOST_IN_VAIN: usize = 1;
/// A program that allocates nothing during a round, and writes to at least this part of what was
/// asked about, is in a burst of writes: it sorts, or rehashes. Larger: more programs are waited
/// for, and write to pages meanwhile that they would not have written to.
const MUCH: usize = 4;
/// A cycle waits for it once, at most so many times as long as rounds took so far, and no longer
/// than this. Larger: longer bursts are over before they are scanned again; smaller: a cycle beside
/// a program that goes on ends sooner.
const TIMES: u32 = 4;
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// Who waits for it looks this often whether it is over.
const LOOK_NS: u64 = 1_000_000;
/// Where it takes the program's threads longer to stop, because there are many, another pause costs
/// more than it saves.
const SLOW_STOP: Duration = Duration::from_micros(500);
/// Where a host stops its threads, after so many slow ones there are no more passes: they wait for
/// a processor, and a pass takes many.
const MOST_SLOW_STOPS: u32 = 2;
/// What the program wrote in so long is too much for the last pause. So long after pages were
/// protected last, because the thread lost its processor, they are looked at once more.
const LATE: Duration = Duration::from_millis(1);
/// So often at most.
const MOST_LATE: usize = 4;

/// How a round protects what it asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protecting {
    /// Beside the program: costs no pause, and time for each page that other processors know.
    Running,
    /// In short pauses.
    Stopped,
}

/// A pass did not come to its end: the watch refused something, or the world could not be stopped.
struct Unstopped;

/// What a pass found.
struct Found {
    /// Pages, written or marked.
    found: usize,
    /// It fitted into one stop.
    few: bool,
}

impl<W: Watch> IncrementalUpdate<W> {
    /// Scans what was written until hardly anything is left, beside the program, or else in short
    /// stops.
    pub(super) fn catch_up(&mut self, driver: &mut Driver) {
        self.slow_stops = 0;
        self.caught_up = match self.rounds(driver) {
            found if found <= FEW_PAGES => CaughtUp::Rounds,
            found if self.may_pass(driver, found) && self.passes(driver) => CaughtUp::Passes,
            _ => CaughtUp::No,
        };
        let mut looks = 0;
        while self.caught_up != CaughtUp::No
            && driver.world.stops_for_collector()
            && clock::now_ns() - self.protected_ns > LATE.as_nanos() as u64
            && looks < MOST_LATE
        {
            looks += 1;
            if self.pass(driver, CatchingUp::new().percent()).is_err() {
                self.caught_up = CaughtUp::No;
            }
        }
        driver.markers().aside.forget_repeated(usize::MAX);
        driver.record.caught_up = self.caught_up;
    }

    /// Precleans until hardly anything is left or it stops getting better; gives what the last
    /// round found.
    fn rounds(&mut self, driver: &mut Driver) -> usize {
        let (mut least, mut found) = (usize::MAX, usize::MAX);
        let (mut in_vain, began) = (0, Instant::now());
        let is_small = driver.heap.state.scanned_bytes.load(Relaxed) <= SMALL_HEAP;
        let can_pass = driver.world.stops_for_collector();
        let most_in_vain = if can_pass { 0 } else { MOST_IN_VAIN };
        for round in 0..MOST_ROUNDS {
            let stops = driver.world.stops_one_by_one() && (round > 0 || is_small);
            let protecting = match stops {
                true => Protecting::Stopped,
                false => Protecting::Running,
            };
            let allocated = driver.heap.state.allocated_since_cycle.load(Relaxed);
            let pages = driver.record.preclean_pages;
            found = self.preclean(driver, protecting);
            in_vain += (found > least / 8 * 7) as usize;
            if found <= FEW_PAGES || in_vain > most_in_vain || self.slow_stops > 0 {
                break;
            }
            least = least.min(found);
            let written = driver.record.preclean_pages - pages;
            let much = FEW_PAGES.max(self.pages.asked_pages() / MUCH);
            if can_pass && written > much && driver.record.waited_ns == 0 {
                let longest = LONGEST_WAIT.min(began.elapsed() * TIMES);
                if !wait_out_burst(driver, allocated, longest) {
                    break;
                }
            }
        }
        found
    }

    /// One round beside the program.
    pub(super) fn preclean_beside(&mut self, driver: &mut Driver) {
        self.preclean(driver, Protecting::Running);
    }

    /// One round: scans the marked objects on written pages, reads the roots again (in a round of
    /// pauses only what was written of those that are watched), and follows what is grey. Says how
    /// much that was, in pages written or marked. World running, on the collector's thread.
    ///
    /// What is allocated before the end of the first round is marked if it is reached, like
    /// everything else. What comes later is born marked, so that there is an end to it.
    fn preclean(&mut self, driver: &mut Driver, protecting: Protecting) -> usize {
        let (round, before) = (timed(SpanKind::Preclean), marked(driver));
        let (world, record) = (driver.world, &mut driver.record);
        self.protected_ns = round.began_ns();
        let pages = match protecting {
            Protecting::Running => self.pages.preclean(Choice::Marked, &mut driver.marker),
            Protecting::Stopped => {
                let (slow, protected_ns) = (&mut self.slow_stops, &mut self.protected_ns);
                self.pages.preclean_in_pauses(&mut driver.marker, |protect| {
                    let stop = briefly(world, &mut COLLECTOR.lock(), |stopped, began_ns| {
                        *slow += is_slow(began_ns) as u32;
                        protect(stopped);
                    });
                    let Some(stop) = stop else {
                        print::fatal(format_args!("a world of signals stops always"))
                    };
                    *protected_ns = stop.began_ns + stop.length_ns;
                    record.note_stop(SpanKind::ShortStop, stop);
                    stop.length_ns
                })
            }
        };
        let pages = pages.unwrap_or_else(|Unwatched| {
            self.incomplete = true;
            0
        });
        driver.record.rounds += 1;
        driver.record.preclean_pages += pages;
        let found = pages + self.follow_grey(driver, protecting, before);
        if found > FEW_PAGES {
            self.begin_black(driver.heap);
        }
        round.over(driver.record.number);
        found
    }

    /// Whether passes in short stops are worth while, after rounds of which the last one found so
    /// many pages.
    fn may_pass(&self, driver: &Driver, found: usize) -> bool {
        driver.world.stops_for_collector()
            && !self.incomplete
            && (self.slow_stops == 0 || found > MANY_PAGES)
    }

    /// Passes in short stops until what is left fits into one; says whether it came to that. World
    /// running but for the stops, on the collector's thread.
    fn passes(&mut self, driver: &mut Driver) -> bool {
        self.begin_black(driver.heap);
        let mut catching_up = CatchingUp::new();
        loop {
            let Ok(pass) = self.pass(driver, catching_up.percent()) else { return false };
            match catching_up.after(pass.found, pass.few) {
                Next::CaughtUp => return true,
                Next::Again => {}
                Next::GivenUp => return false,
            }
        }
    }

    /// One pass: the program has so many percent of a stop's time until the next one.
    fn pass(&mut self, driver: &mut Driver, percent: u64) -> Result<Found, Unstopped> {
        let (round, before) = (timed(SpanKind::Preclean), marked(driver));
        let (world, record) = (driver.world, &mut driver.record);
        let (protected_ns, slow) = (&mut self.protected_ns, &mut self.slow_stops);
        let one_by_one = world.stops_one_by_one();
        let pass = self.pages.pass_in_pieces(&mut driver.marker, percent, |piece| {
            if *slow > MOST_SLOW_STOPS && !one_by_one {
                return None;
            }
            let stop = briefly(world, &mut COLLECTOR.lock(), |stopped, began_ns| {
                *slow += is_slow(began_ns) as u32;
                piece(stopped);
            })?;
            *protected_ns = stop.began_ns + stop.length_ns;
            record.note_stop(SpanKind::ShortStop, stop);
            Some(stop.length_ns)
        });
        let pass = pass.map_err(|Unwatched| {
            self.incomplete = true;
            Unstopped
        })?;
        driver.record.passes += 1;
        driver.record.preclean_pages += pass.pages;
        let others = self.follow_grey(driver, Protecting::Stopped, before);
        round.over(driver.record.number);
        let few = others <= FEW_PAGES && (pass.whole || pass.pages <= FEW_PAGES);
        if pass.unstopped {
            return Err(Unstopped);
        }
        Ok(Found { found: pass.pages + others, few })
    }

    /// Reads the roots again (after pauses only what was written of those that are watched), and
    /// follows what is grey. Says how much that was, in pages; `before` was marked before.
    fn follow_grey(&mut self, driver: &mut Driver, protecting: Protecting, before: usize) -> usize {
        let roots = match protecting {
            Protecting::Running => {
                let phase = timed(SpanKind::Roots);
                let bytes = self.pages.read_roots_running(driver, &mut COLLECTOR.lock());
                phase.over(driver.record.number);
                bytes
            }
            Protecting::Stopped => self.pages.read_written_roots(driver, &mut COLLECTOR.lock()),
        };
        driver.mark_beside();
        driver.marker.report();
        (roots + marked(driver) - before) / PAGE_BYTES
    }
}

/// Whether it took long to stop the world, which stands now, from this moment on.
fn is_slow(began_ns: u64) -> bool {
    clock::now_ns() - began_ns > SLOW_STOP.as_nanos() as u64
}

/// Leaves a program alone that has allocated no more than these bytes, as far as threads report it,
/// as long as it goes on like that, but no longer than this, and nobody waits for the cycle or has
/// freed anything since it began, which is put off. False: it still goes on. On the collector's
/// thread.
fn wait_out_burst(driver: &mut Driver, before: usize, longest: Duration) -> bool {
    let state = &driver.heap.state;
    let goes_on = || {
        state.allocated_since_cycle.load(Relaxed) == before
            && !state.defers_frees.load(Relaxed)
            && !progress::is_any_waiting()
    };
    let began = Instant::now();
    while goes_on() {
        if began.elapsed() >= longest {
            return false;
        }
        futex::sleep(LOOK_NS);
        driver.record.waited_ns = nanoseconds(began);
    }
    true
}

/// Bytes marked so far.
fn marked(driver: &Driver) -> usize {
    driver.heap.state.marked_bytes.load(Relaxed)
}
