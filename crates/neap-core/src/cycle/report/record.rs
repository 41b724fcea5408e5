//! What is known of cycles: counts, the histogram of stops, the line that `NEAP_LOG=cycles` prints.
//!
//! Written by the thread that drives a cycle, read from any thread.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::stats::histogram::Histogram;
use crate::stats::{events, live, probes};
use crate::sys::{clock, print};

/// Every stop of the world, from the first signal to the resume.
pub static PAUSES: Histogram = Histogram::new();
/// Cycles completed.
pub static CYCLES: AtomicU64 = AtomicU64::new(0);
/// Of those, minor ones.
pub static MINOR_CYCLES: AtomicU64 = AtomicU64::new(0);
/// Whether each cycle prints a line.
pub static LOG_CYCLES: AtomicBool = AtomicBool::new(false);

/// How a cycle was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// With the world stopped throughout.
    #[default]
    Stopped,
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
    /// The word for it in what is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stopped => "full",
            Self::Concurrent => "concurrent",
            Self::Minor => "minor",
            Self::Fork => "fork",
            Self::Snapshot => "snapshot",
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
    /// The longest stop of a thread for its roots, or the first stop of the world, in a concurrent
    /// cycle; 0 otherwise.
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
    /// Pages scanned again, world running.
    pub preclean_pages: usize,
    /// Pages scanned again in the last stop.
    pub remark_pages: usize,
    /// Finishing the last sweep and clearing marks, world running.
    pub protect_ns: u64,
    /// From the first stop signal until every thread stood.
    pub stopping_ns: u64,
    /// Reading roots.
    pub roots_ns: u64,
    /// What was read of them in the last stop of a concurrent cycle.
    pub root_bytes: usize,
    /// Following grey words.
    pub mark_ns: u64,
    /// Processor time that the driver took for it, where the world was stopped throughout.
    pub mark_processor_ns: Option<u64>,
    /// Asking for written pages in the last stop, and reading what is on them.
    pub ask_ns: u64,
    /// Following grey words in the last stop.
    pub remark_ns: u64,
    /// Processing references: finalizers, links, handles.
    pub references_ns: u64,
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
    /// Of a cycle that begins now; the one before found so many bytes live.
    pub fn begin(kind: Kind, live_before_bytes: usize) -> Self {
        let number = CYCLES.load(Relaxed) + 1;
        Self { number, kind, live_before_bytes, ..Self::default() }
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
        }
    }

    /// The world was stopped for so long, to protect a watch.
    pub fn note_short_stop(&mut self, stop_ns: u64) {
        self.short_stops += 1;
        self.short_stops_ns += stop_ns;
        self.longest_short_ns = self.longest_short_ns.max(stop_ns);
        PAUSES.add(stop_ns);
        live::note_stop(stop_ns);
    }

    /// Counts the cycle, and prints its line if that was asked for. With the world running.
    pub fn publish(&self) {
        for stop_ns in [self.first_ns, self.pause_ns] {
            if stop_ns > 0 {
                PAUSES.add(stop_ns);
                live::note_stop(stop_ns);
            }
        }
        if self.kind == Kind::Minor {
            MINOR_CYCLES.fetch_add(1, Relaxed);
        }
        CYCLES.store(self.number, Relaxed);
        let figures = self.figures();
        live::note_cycle(&figures);
        probes::cycle(&figures);
        if events::are_wanted() {
            events::note_cycle(&figures);
        }
        if LOG_CYCLES.load(Relaxed) {
            let us = |ns: u64| ns / 1000;
            print::message(format_args!(
                "cycle={} kind={} pause_us={} first_us={} short_stops={} longest_short_us={} \
                 remembered_pages={} rounds={} preclean_pages={} remark_pages={} stopping_us={} \
                 roots_us={} root_kib={} ask_us={} remark_us={} mark_us={} references_us={} \
                 protect_us={} markers={} threads={} allocated_kib={} live_kib={} \
                 committed_kib={} next_kib={}",
                self.number,
                self.kind.name(),
                us(self.pause_ns),
                us(self.first_ns),
                self.short_stops,
                us(self.longest_short_ns),
                self.remembered_pages,
                self.rounds,
                self.preclean_pages,
                self.remark_pages,
                us(self.stopping_ns),
                us(self.roots_ns),
                self.root_bytes >> 10,
                us(self.ask_ns),
                us(self.remark_ns),
                us(self.mark_ns),
                us(self.references_ns),
                us(self.protect_ns),
                self.markers,
                self.mutators,
                self.allocated_bytes >> 10,
                self.live_bytes >> 10,
                self.committed_bytes >> 10,
                self.next_bytes >> 10,
            ));
        }
    }
}
