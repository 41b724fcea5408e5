//! What is known of cycles: counts, the histogram of stops, the record of one.
//!
//! Written by the thread that drives a cycle, read from any thread.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::callbacks;
use super::spans::{self, SpanKind, Stop, Timed};
use crate::heap::HEAP;
use crate::stats::histogram::Histogram;
use crate::stats::{assists, events, live, probes};
use crate::sys::clock;

/// Every stop, from the first signal to the resume.
pub static PAUSES: Histogram = Histogram::new();
/// Cycles completed.
pub static CYCLES: AtomicU64 = AtomicU64::new(0);
/// The number of the cycle that was begun last, also one that was given up: written by who drives
/// it.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Of those that are completed, minor ones.
pub static MINOR_CYCLES: AtomicU64 = AtomicU64::new(0);

/// In the child of a `fork`: the stops before were the parent's.
pub fn after_fork() {
    events::set_ends(false);
    PAUSES.clear();
    // One that was under way was the parent's.
    BEGUN.store(CYCLES.load(Relaxed), Relaxed);
}

/// What is known of cycles at a moment, for telling which one it was that something that takes time
/// belongs to.
#[derive(Clone, Copy)]
pub struct Moment {
    begun: u64,
    completed: u64,
}

/// Now.
pub fn moment() -> Moment {
    Moment { completed: CYCLES.load(Relaxed), begun: BEGUN.load(Relaxed) }
}

impl Moment {
    /// The cycle that was under way at this moment, or the first one that began until a later one;
    /// 0 if there was none.
    pub fn cycle_until(self, later: Moment) -> u64 {
        match self {
            Moment { begun, completed } if begun > completed => begun,
            Moment { begun, .. } if later.begun > begun => begun + 1,
            _ => 0,
        }
    }
}

/// A stop is over: whoever tells of stops hears of it here, and nowhere else
/// `[stats.inv.stops]`. `thread` is the one
/// that stood, where only one did. World running. False, and nobody hears of it, if the process
/// ends.
pub fn note_stop(kind: SpanKind, thread: Option<i32>, cycle: u64, stop: Stop) -> bool {
    if events::ends() {
        return false;
    }
    spans::tell(kind, thread, cycle, stop.began_ns, stop.length_ns);
    PAUSES.add(stop.length_ns);
    live::note_stop(stop.length_ns);
    if kind.is_of_world() {
        assists::note_stop(stop.length_ns);
    }
    true
}

/// How a cycle was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// With the world stopped throughout.
    #[default]
    Stopped,
    /// The same by the program's only thread, which had asked for it: it stopped nobody.
    Alone,
    /// With the world running but for one short stop, under a write watch.
    Concurrent,
    /// The same, what is marked staying so.
    Minor,
    /// With the world running between two short stops, marked by a child process.
    Fork,
    /// The same, marked in the process, pages being copied before they are written.
    Snapshot,
}

impl Kind {
    /// Whether the program ran while the cycle marked.
    pub const fn runs_beside(self) -> bool {
        !matches!(self, Self::Stopped | Self::Alone)
    }

    /// The word for it in what is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stopped => "full",
            Self::Alone => "alone",
            Self::Concurrent => "concurrent",
            Self::Minor => "minor",
            Self::Fork => "fork",
            Self::Snapshot => "snapshot",
        }
    }
}

/// How what the program wrote while a cycle marked came to be little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaughtUp {
    /// It did not: the last stop had the rest to do. Or the question does not arise.
    #[default]
    No,
    /// By rounds beside the program.
    Rounds,
    /// By passes in short stops.
    Passes,
}

impl CaughtUp {
    /// The word for it in what is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Rounds => "rounds",
            Self::Passes => "passes",
        }
    }
}

/// What one cycle did.
#[derive(Clone, Copy, Debug, Default)]
pub struct CycleRecord {
    /// Its number, from 1.
    pub number: u64,
    /// How it was run.
    pub kind: Kind,
    /// When it began, by the clock.
    pub began_ns: u64,
    /// Its stops, without the one of a single thread until the cycle is over.
    pub stops: u64,
    /// All of them together.
    pub stops_ns: u64,
    /// The longest of them.
    pub longest_stop_ns: u64,
    /// The longest stop of a single thread for its roots, and which one it was.
    pub thread_stop: Option<(Stop, i32)>,
    /// The longest stop of a thread for its roots, or the first stop of the world, in a concurrent
    /// cycle, or the one that was given up for this cycle; 0 otherwise.
    pub first_ns: u64,
    /// Short stops for protecting.
    pub short_stops: usize,
    /// The longest of them.
    pub longest_short_ns: u64,
    /// All of them together.
    pub short_stops_ns: u64,
    /// Pages written since the last cycle, of a minor one.
    pub remembered_pages: usize,
    /// Rounds of asking for written pages and scanning them again, world running.
    pub rounds: usize,
    /// Passes over the heap in short stops, after rounds that did not get to an end.
    pub passes: usize,
    /// How what was written came to be little.
    pub caught_up: CaughtUp,
    /// The program was left alone in a burst of writes, between rounds.
    pub waited_ns: u64,
    /// Pages scanned again before the last stop.
    pub preclean_pages: usize,
    /// Pages scanned again in the last stop.
    pub remark_pages: usize,
    /// Finishing the last sweep and clearing marks, world running.
    pub protect_ns: u64,
    /// From the first stop signal until every thread stood.
    pub stopping_ns: u64,
    /// Reading roots; of a cycle by a child, those that are not left to it.
    pub roots_ns: u64,
    /// What was read of them in the last stop of a concurrent cycle.
    pub root_bytes: usize,
    /// Following grey words; beside the program, and in a child, reading roots too. Without
    /// `waited_ns`.
    pub mark_ns: u64,
    /// The driver's processor time for both, roots and words, where the world stood throughout.
    pub traced_processor_ns: Option<u64>,
    /// The same with the program running; of a child that marks the time by the clock, for each of
    /// its markers.
    pub beside_ns: u64,
    /// Bytes that were marked in that time.
    pub beside_bytes: usize,
    /// Asking for written pages in the last stop, and reading what is on them.
    pub ask_ns: u64,
    /// Following grey words in the last stop.
    pub remark_ns: u64,
    /// Processing references (finalizers, links, handles) in the last stop.
    pub references_ns: u64,
    /// The same beside the program, after it.
    pub references_running_ns: u64,
    /// The whole stop; of a concurrent cycle the last one.
    pub pause_ns: u64,
    /// Markers at work.
    pub markers: usize,
    /// Threads of the program.
    pub mutators: usize,
    /// Bytes handed out since the cycle before.
    pub allocated_bytes: usize,
    /// Bytes that the cycle before found live.
    pub live_before_bytes: usize,
    /// Bytes found live.
    pub live_bytes: usize,
    /// Bytes of the heap in use or kept for use.
    pub committed_bytes: usize,
    /// Bytes that may be allocated before the next cycle begins.
    pub next_bytes: usize,
    /// Bytes that may be allocated before it ends.
    pub room_bytes: usize,
}

impl CycleRecord {
    /// Of a cycle that began with this; the one before found so many bytes live.
    pub fn begin(kind: Kind, began: Timed, live_before_bytes: usize) -> Self {
        let number = CYCLES.load(Relaxed) + 1;
        BEGUN.store(number, Relaxed);
        let began_ns = began.began_ns();
        Self { number, kind, began_ns, live_before_bytes, ..Self::default() }
    }

    /// The one before was given up for this cycle, and so has its number, or is another cycle's:
    /// the stops of a number are told of in every place alike.
    pub fn take_stops_of(&mut self, before: &Self) {
        if before.number == self.number {
            self.stops = before.stops;
            self.stops_ns = before.stops_ns;
            self.longest_stop_ns = before.longest_stop_ns;
            self.thread_stop = before.thread_stop;
            self.first_ns = before.first_ns;
        }
    }

    /// The cycle as recordings and metrics know it; it ends now.
    fn figures(&self) -> neap_record::Cycle {
        neap_record::Cycle {
            number: self.number,
            ended_ns: clock::now_ns(),
            concurrent: match self.kind {
                Kind::Stopped => 0,
                Kind::Concurrent => 1,
                Kind::Fork => 2,
                Kind::Minor => 3,
                Kind::Snapshot => 4,
                Kind::Alone => 5,
            },
            first_ns: self.first_ns,
            short_stops: self.short_stops as u64,
            longest_short_ns: self.longest_short_ns,
            short_stops_ns: self.short_stops_ns,
            pause_ns: self.pause_ns,
            stopping_ns: self.stopping_ns,
            roots_ns: self.roots_ns,
            mark_ns: self.mark_ns,
            references_ns: self.references_ns,
            protect_ns: self.protect_ns,
            rounds: self.rounds as u64,
            preclean_pages: self.preclean_pages as u64,
            remark_pages: self.remark_pages as u64,
            markers: self.markers as u64,
            mutators: self.mutators as u64,
            allocated_bytes: self.allocated_bytes as u64,
            live_bytes: self.live_bytes as u64,
            committed_bytes: self.committed_bytes as u64,
            next_bytes: self.next_bytes as u64,
            room_bytes: self.room_bytes as u64,
            began_ns: self.began_ns,
            references_running_ns: self.references_running_ns,
            stops: self.stops,
            stops_ns: self.stops_ns,
            longest_stop_ns: self.longest_stop_ns,
        }
    }

    /// The world stood, for this cycle. With the world running.
    pub fn note_stop(&mut self, kind: SpanKind, stop: Stop) {
        let length_ns = stop.length_ns;
        match kind {
            SpanKind::FirstStop => self.first_ns = self.first_ns.max(length_ns),
            SpanKind::ShortStop => {
                self.short_stops += 1;
                self.short_stops_ns += length_ns;
                self.longest_short_ns = self.longest_short_ns.max(length_ns);
            }
            _ => self.pause_ns = length_ns,
        }
        self.count_stop(kind, None, stop);
    }

    /// A single thread stood for its roots; the longest such stop counts, when the cycle is over.
    /// `runs`: it did not sleep anyway.
    pub fn note_thread_stop(&mut self, thread: i32, stop: Stop, runs: bool) {
        if runs {
            let Stop { began_ns, length_ns } = stop;
            spans::tell(SpanKind::Stands, Some(thread), self.number, began_ns, length_ns);
        }
        if self.thread_stop.is_none_or(|(longest, _)| longest.length_ns < stop.length_ns) {
            self.thread_stop = Some((stop, thread));
        }
        self.first_ns = self.first_ns.max(stop.length_ns);
    }

    fn count_stop(&mut self, kind: SpanKind, thread: Option<i32>, stop: Stop) {
        if note_stop(kind, thread, self.number, stop) {
            self.stops += 1;
            self.stops_ns += stop.length_ns;
            self.longest_stop_ns = self.longest_stop_ns.max(stop.length_ns);
        }
    }

    /// How long threads stood in stops that are over.
    pub fn stopped_ns(&self) -> u64 {
        self.stops_ns + self.thread_stop.map_or(0, |(stop, _)| stop.length_ns)
    }

    /// Counts the cycle, and tells all but its line. With the world running.
    pub(super) fn count(&mut self) {
        if let Some((stop, thread)) = self.thread_stop.take() {
            self.count_stop(SpanKind::ThreadStop, Some(thread), stop);
        }
        if self.kind == Kind::Minor {
            MINOR_CYCLES.fetch_add(1, Relaxed);
        }
        CYCLES.store(self.number, Relaxed);
        callbacks::note_end();
        HEAP.state.note_cycles(self.number);
        let figures = self.figures();
        live::note_cycle(&figures);
        probes::cycle(&figures);
        if events::are_wanted() {
            events::note_cycle(&figures);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_of_what_was_given_up_count_to_the_cycle_that_comes_to_its_end() {
        let begin = || CycleRecord::begin(Kind::Stopped, spans::timed(SpanKind::Protect), 0);
        let stop = |length_ns| Stop { began_ns: 1, length_ns };
        let of = |record: &CycleRecord| {
            (record.stops, record.stops_ns, record.longest_stop_ns, record.first_ns)
        };
        let mut before = CycleRecord::default();
        for length_ns in [500, 700, 600] {
            let mut record = begin();
            record.take_stops_of(&before);
            record.note_stop(SpanKind::FirstStop, stop(length_ns));
            before = record;
        }
        before.note_thread_stop(9, stop(800), false);
        let mut last = begin();
        last.take_stops_of(&before);
        assert_eq!(of(&last), (3, 1800, 700, 800));
        last.count();
        assert_eq!(of(&last), (4, 2600, 800, 800));
        let mut next = begin();
        next.take_stops_of(&last);
        assert_eq!(of(&next), (0, 0, 0, 0));
    }

    #[test]
    fn what_takes_time_belongs_to_the_cycle_that_it_meets() {
        let at = |completed, begun| Moment { completed, begun };
        for (before, after, cycle) in [
            // Between cycles, and before any.
            (at(0, 0), at(0, 0), 0),
            (at(4, 4), at(4, 4), 0),
            // Within one, and from its midst to its end or beyond.
            (at(4, 5), at(4, 5), 5),
            (at(4, 5), at(5, 5), 5),
            (at(4, 5), at(6, 7), 5),
            // One begins meanwhile, or a whole one runs.
            (at(4, 4), at(4, 5), 5),
            (at(4, 4), at(6, 6), 5),
        ] {
            assert_eq!(before.cycle_until(after), cycle);
        }
    }
}
