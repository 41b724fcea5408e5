//! When cycles come and what threads pay: the core's own policies, put together as the core does in
//! `cycle/schedule.rs`, `cycle/phases/finish.rs` and `cycle/driver/collect.rs`.
//!
//! Invariant: no formula is written down here that the core has as a pure function; what is here is
//! which figure goes where. All cycles are full ones: a recording does not tell which of the dead
//! were young.

use crate::policy::generation::Yield;
use crate::policy::pacer::{Cycle, Pacer};
use crate::policy::stall::Stall;
use crate::policy::stop_time::{Mark, Measured, StopTime, helpers_in_stop};
use crate::policy::trigger::{
    FAIR_SHARE, Live, Settings, WHILE_GROWING, WHILE_GROWING_BESIDE, after_floating,
    concurrent_start, is_growing, smoothed_share, stall_at,
};

/// The settings of a program that sets nothing.
pub const DEFAULTS: Settings = Settings {
    growth: 1.0,
    min_trigger: 0,
    busy_trigger: 0,
    max_bytes: usize::MAX,
    soft_bytes: usize::MAX,
};
/// `max_pause`: cycles that are expected to be shorter stop the world.
const MAX_PAUSE_NS: u64 = 1_000_000;

/// What a cycle came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    /// It ran beside the program.
    pub beside: bool,
    /// When it ended.
    pub now_ns: f64,
    /// Marked, without what was born so.
    pub marked: f64,
    /// What was born marked.
    pub born: f64,
    /// What was handed out since the cycle before.
    pub allocated: f64,
    /// Of that, while the cycle ran.
    pub during: f64,
    /// How long the program stood.
    pub stopped_ns: f64,
    /// How long it ran meanwhile.
    pub running_ns: f64,
    /// What each stop has to do, however large the heap is.
    pub fixed_ns: f64,
    /// Marking all of it, by one marker that nobody disturbs.
    pub alone_mark_ns: f64,
    /// Markers that a stop for it has.
    pub markers: usize,
    /// Threads that marked meanwhile.
    pub workers: usize,
}

/// What the policies know.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// What the user set.
    pub settings: Settings,
    processors: usize,
    threads: usize,
    pacer: Pacer,
    stop_time: StopTime,
    share: f64,
    marked: usize,
    gained: f64,
    stays: bool,
    ended_ns: Option<f64>,
    during_last: usize,
    surviving: f64,
    /// Live and born marked, at the end of the last cycle.
    pub live: usize,
    /// Bytes that may be allocated before the next cycle begins.
    pub due_at: usize,
    /// The same before it ends.
    pub room: usize,
    stall_at: usize,
    stopped_below: usize,
}

impl Schedule {
    /// Before the first cycle.
    pub fn new(settings: Settings, processors: usize, threads: usize) -> Self {
        let mut schedule = Self {
            settings,
            processors,
            threads,
            pacer: Pacer::new(),
            stop_time: StopTime::new(),
            share: FAIR_SHARE,
            marked: 0,
            gained: 0.0,
            stays: false,
            ended_ns: None,
            during_last: 0,
            surviving: 1.0,
            live: 0,
            due_at: 0,
            room: 0,
            stall_at: 0,
            stopped_below: 0,
        };
        schedule.set_due(0);
        schedule
    }

    /// Whether a cycle is due.
    pub fn is_due(&self, grown: f64) -> bool {
        grown as usize >= self.due_at
    }

    /// What a refill costs the thread.
    pub fn stall(&self, grown: f64) -> Stall {
        Stall::at(grown as usize, self.stall_at)
    }

    /// Whether a cycle that begins now is to run beside the program.
    pub fn runs_beside(&self, grown: f64) -> bool {
        self.live as f64 + grown * self.surviving >= self.stopped_below as f64
    }

    fn has_processor_to_spare(&self) -> bool {
        self.threads < self.processors
    }

    fn threshold(&self, born: usize, beside: bool) -> usize {
        let live = Live::new(self.marked, self.marked);
        let (share, least) = (self.share.min(FAIR_SHARE), self.pacer.least_bytes());
        let room = |growing| self.settings.threshold(live, share, growing, self.threads, least);
        let whole = room(None);
        let beside = beside && self.has_processor_to_spare();
        let wanted = match beside {
            true if self.stays => room(Some(WHILE_GROWING_BESIDE)),
            false if is_growing(self.marked, self.gained, whole) => room(Some(WHILE_GROWING)),
            _ => whole,
        };
        after_floating(wanted, born)
    }

    fn set_due(&mut self, born: usize) {
        self.stopped_below = self.stop_time.scanned_within(MAX_PAUSE_NS);
        let beside = self.runs_beside(0.0);
        let threshold = self.threshold(born, beside);
        let start = if beside { concurrent_start(threshold, self.during_last) } else { threshold };
        self.stall_at = stall_at(threshold, self.live, start, self.marked);
        (self.due_at, self.room) = (start, threshold);
    }

    /// A cycle has ended.
    pub fn finish(&mut self, ended: &Ended) {
        let live_before = self.live;
        let marked_before = self.marked;
        self.marked = ended.marked as usize;
        self.live = (ended.marked + ended.born) as usize;
        let gained = self.marked.saturating_sub(marked_before);
        self.gained = gained as f64 / ended.allocated.max(1.0);
        let ns = (ended.alone_mark_ns / ended.markers as f64) as u64;
        let is_short = ended.stopped_ns as u64 <= MAX_PAUSE_NS;
        let mark = match ended.beside {
            true => Mark::Beside {
                alone_ns: Some(ended.alone_mark_ns as u64),
                helpers: helpers_in_stop(self.marked, ended.markers),
            },
            false => Mark::Stopped { ns, is_short },
        };
        let (fixed_ns, scanned_bytes) = (ended.fixed_ns as u64, self.marked);
        self.stop_time.note(&Measured { fixed_ns, mark, scanned_bytes });
        let work_ns = (ended.stopped_ns + ended.running_ns) as u64;
        let elapsed_ns = self.ended_ns.map_or(0.0, |before| ended.now_ns - before) as u64;
        self.share = smoothed_share(self.share, work_ns, elapsed_ns);
        if self.ended_ns.is_some() {
            self.pacer.note(&Cycle {
                elapsed_ns: elapsed_ns.max(ended.stopped_ns as u64),
                stopped_ns: ended.stopped_ns as u64,
                running_ns: ended.running_ns as u64,
                workers: ended.workers,
                processors: self.processors,
                allocated_bytes: ended.allocated as usize,
                live_bytes: self.live,
                limit_bytes: self.settings.max_bytes,
            });
        }
        self.ended_ns = Some(ended.now_ns);
        if ended.beside {
            self.during_last = ended.during as usize;
        }
        let freed = (live_before + ended.allocated as usize).saturating_sub(self.live);
        let allocated_bytes = ended.allocated as usize;
        let yielded = Yield { allocated_bytes, freed_bytes: freed, work_ns };
        self.surviving = yielded.surviving(1 << 20) as f64 / (1 << 20) as f64;
        self.stays = yielded.stays();
        self.set_due(ended.born as usize);
    }
}
