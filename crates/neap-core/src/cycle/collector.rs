//! What one cycle leaves to the next, under the collector's lock.
//!
//! Invariant `[cycle.inv.one]`: the phase is `Idle` unless a cycle is under way, and whoever finds
//! it so under the lock may begin one. The lock is waited for outside critical sections, so a
//! thread that waits can be stopped by the cycle it waits for. Called from any thread of the
//! program, and from the collector's.
//!
//! # Safety
//! A thread that holds collections off (`driver/holding.rs`) has the lock without a guard, and runs
//! no cycle.

#![allow(unsafe_code)]

use crate::sys::clock::Instant;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use super::phase::{Phase, Step};
use super::policy::generation::{Generation, Generations};
use super::policy::pacer::Pacer;
use super::policy::snapshot_stops::SnapshotStops;
use super::policy::stop_time::StopTime;
use super::policy::trigger::{FAIR_SHARE, Settings};
use crate::heap::HEAP;
use crate::options::MinorCycles;
use crate::rank::Rank;
use crate::stats::live;
use crate::sync::{Guard, Lock};
use crate::sys::print;
use crate::watch::choose::Watching;
use crate::world::mutator::Mutator;
use crate::world::roots::Images;

/// What one cycle leaves to the next. Protected by [`COLLECTOR`].
pub struct Collector {
    /// Where the cycle is.
    pub phase: Phase,
    /// Roots of loaded objects, listed for each stop.
    pub images: Images,
    /// What the user set.
    pub settings: Settings,
    /// Marking threads at most, the driver included.
    pub markers: usize,
    /// Processors that the process may use.
    pub processors: usize,
    /// What cycles cost the program lately.
    pub pacer: Pacer,
    /// What a stop for a whole cycle would take.
    pub stop_time: StopTime,
    /// For how long snapshots stop the program.
    pub snapshot_stops: SnapshotStops,
    /// A cycle that is expected to take less stops the world.
    pub max_pause_ns: u64,
    /// The share of its time that the program lately spent in stops.
    pub share: f64,
    /// Bytes that the last cycle marked, without what was born marked meanwhile.
    pub marked: usize,
    /// By how much that had grown since the cycle before, as a part of what was allocated.
    pub gained: f64,
    /// What the next cycle's kind rests on.
    pub generations: Generations,
    /// When there are minor cycles.
    pub minor: MinorCycles,
    /// The kind of the last cycle.
    pub last: Generation,
    /// Threads of the program at the last cycle.
    pub mutators: usize,
    /// Of these, those that allocated since the cycle before.
    pub allocating: usize,
    /// When the last cycle ended.
    pub ended: Option<Instant>,
    /// Bytes of static data and registered ranges when the world was stopped last.
    pub root_bytes: usize,
    /// Bytes of stacks in use then; after a deep one some cycles pass until it is forgotten.
    pub stack_bytes: usize,
    /// Bytes that the heap held when the last cycle ended, less what went back since.
    pub held_bytes: usize,
    /// The same of the last full cycle, without regard to what of it was never touched.
    pub frame_bytes: usize,
    /// Bytes allocated while the last cycle that ran beside the program did.
    pub allocated_during_last: usize,
}

/// The collector's lock, taken.
pub type CollectorGuard = Guard<'static, Collector>;

/// The collector's lock.
pub static COLLECTOR: Lock<Collector> = Lock::new(
    Rank::Cycle,
    Collector {
        phase: Phase::Idle,
        images: Images::new(),
        settings: Settings {
            growth: 1.0,
            min_trigger: 0,
            busy_trigger: 0,
            max_bytes: usize::MAX,
            soft_bytes: usize::MAX,
        },
        markers: 1,
        processors: 1,
        pacer: Pacer::new(),
        stop_time: StopTime::new(),
        snapshot_stops: SnapshotStops::new(),
        max_pause_ns: 0,
        share: FAIR_SHARE,
        marked: 0,
        gained: 0.0,
        generations: Generations::new(),
        minor: MinorCycles::Auto,
        last: Generation::Full,
        mutators: 1,
        allocating: 1,
        ended: None,
        root_bytes: 0,
        stack_bytes: 0,
        held_bytes: 0,
        frame_bytes: 0,
        allocated_during_last: 0,
    },
);
/// Whether cycles start by themselves.
static AUTOMATIC: AtomicBool = AtomicBool::new(true);
/// The [`Watching`] of cycles beside the program, as a number. Written by who opens or closes it.
static WATCHING: AtomicU32 = AtomicU32::new(Watching::None as u32);

/// How cycles learn what the program writes meanwhile; `None` where they stop the world.
pub fn watching() -> Watching {
    Watching::from_number(WATCHING.load(Acquire))
}

/// There is a watch that nobody has opened yet: the first cycle that needs it does. Written by who
/// leaves one for later, or opens it.
static IS_UNOPENED: AtomicBool = AtomicBool::new(false);

/// Whether there is a watch to open, from now on.
pub fn set_unopened(unopened: bool) {
    IS_UNOPENED.store(unopened, Release);
}

/// Whether cycles can run beside the program, as far as is known before a watch is opened.
pub fn may_run_beside() -> bool {
    runs_beside() || IS_UNOPENED.load(Acquire)
}

/// Cycles learn it in this way from now on. No page is protected any more, or yet.
pub fn set_watching(watching: Watching) {
    HEAP.state.protects.store(false, Relaxed);
    WATCHING.store(watching as u32, Release);
}

/// Whether cycles can run beside the program.
#[inline(always)]
pub fn runs_beside() -> bool {
    WATCHING.load(Acquire) != Watching::None as u32
}

impl Collector {
    /// Advances the phase machine.
    pub fn step(&mut self, step: Step) {
        match self.phase.after(step) {
            Some(next) => {
                self.phase = next;
                live::set_phase(next as u64);
            }
            None => print::fatal(format_args!(
                "[cycle.inv.phases] {step:?} is not allowed in {:?}",
                self.phase
            )),
        }
    }

    /// Whether some of the cycles beside the program can be minor.
    pub fn may_have_minor_cycles(&self) -> bool {
        self.minor != MinorCycles::Never && watching().remembers()
    }

    /// Helpers besides the collector's thread while the world runs: half of the markers at most.
    pub fn background_helpers(&self) -> usize {
        background_helpers(self.markers)
    }

    /// The same for a cycle that a thread of the program waits for and helps to mark.
    pub fn helpers_for_who_waits(&self) -> usize {
        helpers_for_who_waits(self.markers, self.allocating)
    }

    /// Whether the collector's thread can run without one of the program's having to wait: a thread
    /// that allocates nothing may be at work as well.
    pub fn has_processor_to_spare(&self) -> bool {
        self.mutators < self.processors
    }
}

fn background_helpers(markers: usize) -> usize {
    (markers / 2).saturating_sub(1)
}

/// Of `markers`, one is the collector's thread, and one the thread that waits, which is among those
/// that allocated lately: what the others leave.
fn helpers_for_who_waits(markers: usize, allocating: usize) -> usize {
    background_helpers(markers).max(markers.saturating_sub(1 + allocating.max(1)))
}

/// Runs `f` on the collector, which no cycle uses meanwhile; for a thread that holds collections
/// off, too.
pub fn held<R>(mutator: &Mutator, f: impl FnOnce(&mut Collector) -> R) -> R {
    if mutator.holds.load(Relaxed) > 0 {
        // SAFETY: this thread holds the lock already, by `hold`, and runs no cycle.
        return f(unsafe { COLLECTOR.already_held() });
    }
    f(&mut COLLECTOR.lock())
}

/// Whether cycles start by themselves.
pub fn set_automatic(on: bool) {
    AUTOMATIC.store(on, Relaxed);
}

/// Whether they do.
pub fn is_automatic() -> bool {
    AUTOMATIC.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_has_the_helpers_that_others_leave_and_those_that_mark_anyway() {
        for (markers, allocating, helpers) in
            [(1, 0, 0), (1, 1, 0), (2, 1, 0), (4, 1, 2), (16, 1, 14), (16, 8, 7), (16, 40, 7)]
        {
            assert_eq!(helpers_for_who_waits(markers, allocating), helpers, "{markers} markers");
        }
    }
}
