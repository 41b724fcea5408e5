//! The way in to a cycle: who wants one waits here for the collector's lock, and drives the cycle on its own thread.
//!
//! Invariant: the lock is waited for outside critical sections, so a thread that waits can be stopped by the cycle it waits for. A thread that holds collections off
//! has the lock, and never waits for it again.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use super::generation::{Generation, Generations, Yield};
use super::pacer::Pacer;
use super::phase::Phase;
use super::report::PAUSES;
use super::trigger::{FAIR_SHARE, Settings};
use super::{background, due, events, full, limits, markers, steps};
use std::time::{Duration, Instant};

use crate::heap::HEAP;
use crate::options::MinorCycles;
use crate::rank::Rank;
use crate::stats::assists;
use crate::sync::{Guard, Lock};
use crate::sys::{clock, side_stack, thread};
use crate::world::mutator::Mutator;
use crate::world::roots::Images;
use crate::world::{self, attach, stop};

/// What the driver of a cycle owns.
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
    /// The share of its time that the program lately spent in stops.
    pub share: f64,
    /// Bytes that the last cycle marked, without what was born marked meanwhile.
    pub marked: usize,
    /// The same of the cycle before.
    pub marked_before: usize,
    /// Whether most of what was allocated before the last cycle was alive in it.
    pub(super) stays: bool,
    /// What the next cycle's kind rests on.
    pub generations: Generations,
    /// When there are minor cycles.
    pub minor: MinorCycles,
    /// The kind of the last cycle.
    pub(super) last: Generation,
    /// Threads of the program at the last cycle.
    pub mutators: usize,
    /// When the last cycle ended.
    pub ended: Option<Instant>,
}

pub(super) static COLLECTOR: Lock<Collector> = Lock::new(
    Rank::Cycle,
    Collector {
        phase: Phase::Idle,
        images: Images::new(),
        settings: Settings {
            growth: 1.0,
            min_trigger: 4 << 20,
            busy_trigger: 0,
            max_bytes: usize::MAX,
            soft_bytes: usize::MAX,
        },
        markers: 1,
        processors: 1,
        pacer: Pacer::new(),
        share: FAIR_SHARE,
        marked: 0,
        marked_before: 0,
        stays: false,
        generations: Generations::new(),
        minor: MinorCycles::Auto,
        last: Generation::Full,
        mutators: 1,
        ended: None,
    },
);
/// A thread that allocated too much waits so long for a cycle under way, and again at its next refill; beyond an eighth more it waits for the end. Larger: longer operations; smaller: the heap grows further.
const SHORT_STALL: Duration = Duration::from_millis(2);
/// How often collections were disabled more than enabled.
static DISABLED: AtomicU32 = AtomicU32::new(0);

/// Whether cycles start by themselves.
static AUTOMATIC: AtomicBool = AtomicBool::new(true);

/// Why a cycle is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Enough was allocated.
    Allocated,
    /// Memory was refused.
    NoMemory,
    /// The program asked.
    Explicit,
}

/// Runs a cycle on this thread, or waits for the one that runs; false if none was run because collections are disabled or held off by this thread, or
/// because another thread's has just made this one unnecessary. Outside critical sections.
pub fn collect(reason: Reason) -> bool {
    thread::with_registers_spilled(|position| collect_from(position, reason))
}

/// Runs a part of a cycle on a stack that has room for it: the program's threads may stand on small ones. Functions of the program that it calls stand where they would, by [`side_stack::off`].
pub(super) fn with_room(f: impl FnOnce()) {
    side_stack::on(f);
    thread::clear_vector_registers();
}

/// The same for a caller that has spilled its registers above `position`: nothing below it is the program's.
pub fn collect_from(position: usize, reason: Reason) -> bool {
    let mutator = attach::current();
    if is_disabled() || mutator.holds.load(Relaxed) > 0 || !world::the().may_be_stopped_here() {
        return false;
    }
    let refused = reason == Reason::Allocated && !AUTOMATIC.load(Relaxed);
    if refused || (reason != Reason::Explicit && !events::may_begin()) {
        due::postpone();
        return false;
    }
    if reason == Reason::Explicit {
        limits::note_explicit();
    }
    assists::counted(&PAUSES, clock::now_ns, || collect_as_wanted(position, reason))
}

/// The same, where nothing speaks against a cycle.
fn collect_as_wanted(position: usize, reason: Reason) -> bool {
    let mutator = attach::current();
    // Twice, for a watch that turns out to be closed.
    for _ in 0..2 {
        steps::reopen();
        // Without the collector's thread the world is stopped for this cycle.
        if due::is_worth_running_beside() && background::ensure() {
            let collected = concurrently(position, reason);
            if collected || steps::enabled() {
                return collected;
            }
        }
    }
    let Some(mut collector) = lock_for(reason) else { return false };
    if reason == Reason::Allocated && !due::is_due() {
        return false;
    }
    if collector.phase != Phase::Idle {
        drop(collector);
        return steps::run_cycle(position);
    }
    mutator.holds.store(1, Relaxed);
    mutator.position.store(position, Relaxed);
    with_room(|| full::run(&mut collector, Some(mutator)));
    mutator.holds.store(0, Relaxed);
    let sweeps = background::has_slept(match collector.has_processor_to_spare() {
        true => BETWEEN_SWEEPS_MS,
        false => LET_SWEEP_MS,
    });
    drop(collector);
    if sweeps {
        background::wake();
    }
    events::after_cycle();
    true
}

/// The collector's lock. Who only allocated enough does not wait for it while another thread is about to run the cycle, unless that takes long: it goes on, and so comes by where it is to stand.
fn lock_for(reason: Reason) -> Option<Guard<'static, Collector>> {
    let allocated = HEAP.state.allocated_since_cycle.load(Relaxed);
    if reason == Reason::Allocated && allocated < due::stalls_at() {
        return COLLECTOR.try_lock();
    }
    Some(COLLECTOR.lock())
}

/// How often the collector's thread is woken to sweep where the program's own threads keep all processors busy. Larger: memory goes back later; smaller: it takes a processor from them more often, and the next stop has
/// to wait for the thread that lost it.
const LET_SWEEP_MS: u64 = 50;
/// The same where they leave it a processor: cycles that follow each other faster have little to sweep, and sweeping it beside a thread that allocates takes both of them longer. Larger: the program sweeps more itself.
const BETWEEN_SWEEPS_MS: u64 = 2;

/// A cycle for a program that is idle, on the collector's thread: false if the program does not want one, or has functions that are called in cycles and rely on its own threads.
pub fn collect_idle() -> bool {
    if is_disabled()
        || !AUTOMATIC.load(Relaxed)
        || steps::program_takes_part()
        || !events::may_begin()
    {
        return false;
    }
    if steps::enabled() {
        steps::drive_unasked();
        return true;
    }
    let mut collector = COLLECTOR.lock();
    if collector.phase != Phase::Idle {
        return false;
    }
    events::set_heard(false);
    full::run(&mut collector, None);
    events::set_heard(true);
    steps::tell_end();
    true
}

/// Has the collector's thread begin a cycle; who asked for one waits for its end, who only allocated enough goes on unless it allocates faster than the cycle marks.
fn concurrently(position: usize, reason: Reason) -> bool {
    if reason != Reason::Allocated {
        return steps::run_cycle(position);
    }
    let allocated = || HEAP.state.allocated_since_cycle.load(Relaxed);
    if allocated() >= due::stalls_at() {
        let began = Instant::now();
        let enough = || {
            let stall_at = due::stalls_at();
            allocated() < stall_at
                || (allocated() < stall_at + stall_at / 8 && began.elapsed() >= SHORT_STALL)
        };
        return steps::run_until(position, false, enough);
    }
    steps::request(false);
    false
}

/// In the slow path of an allocation: takes a step of the cycle under way, or begins one if it is due.
#[inline]
pub fn poll(position: usize) {
    stop::poll(position);
    if steps::is_offered() {
        assists::counted(&PAUSES, clock::now_ns, || steps::take_offered(position));
    }
    if due::is_due() {
        collect_from(position, Reason::Allocated);
    }
}

impl Collector {
    /// A cycle ended, and this is what it came to.
    pub(super) fn yielded(&mut self, generation: Generation, yielded: Yield) {
        self.last = generation;
        self.stays = yielded.stays();
        let live = HEAP.state.live_bytes.load(Relaxed);
        match generation {
            Generation::Full => self.generations.after_full(yielded, live, self.threshold()),
            Generation::Minor => self.generations.after_minor(yielded),
        }
    }

    /// The kind of the next cycle that the program does not ask for. A program's own trace functions may reach what no watch sees, so there everything is marked anew.
    pub(super) fn next_generation(&self) -> Generation {
        let live = HEAP.state.live_bytes.load(Relaxed);
        if !steps::has_minor_cycles() || HEAP.layouts.has_functions() {
            return Generation::Full;
        }
        match self.minor {
            MinorCycles::Auto => self.generations.next(live),
            MinorCycles::Always if self.generations.room_after_minor(live) > 0 => Generation::Minor,
            MinorCycles::Always | MinorCycles::Never => Generation::Full,
        }
    }
}

/// Changes the settings.
pub fn configure(change: impl FnOnce(&mut Collector)) {
    held(attach::current(), |collector| {
        change(collector);
        due::set_due(collector);
    });
}

/// Runs `f` on the collector, which no cycle uses meanwhile. Not for a thread that holds collections off.
fn held<R>(mutator: &Mutator, f: impl FnOnce(&mut Collector) -> R) -> R {
    if mutator.holds.load(Relaxed) > 0 {
        // SAFETY: this thread holds the lock already, by `hold`, and runs no cycle.
        return f(unsafe { COLLECTOR.already_held() });
    }
    f(&mut COLLECTOR.lock())
}

/// From now until [`release`], no cycle runs. Nests. While this thread holds, its own requests for cycles are refused.
pub fn hold() {
    let mutator = attach::current();
    if mutator.holds.load(Relaxed) == 0 {
        core::mem::forget(COLLECTOR.lock());
    }
    // Hidden pointers are read while cycles are held off.
    HEAP.state.note_revealed();
    mutator.holds.store(mutator.holds.load(Relaxed) + 1, Relaxed);
}

/// As [`hold`], if no cycle is under way; false otherwise, and nothing is held. Mark bits then stay as the last cycle left them.
pub fn hold_if_idle() -> bool {
    hold();
    // SAFETY: this thread has the lock; the reference ends here.
    let idle = unsafe { COLLECTOR.already_held() }.phase == Phase::Idle;
    if !idle {
        release();
    }
    idle
}

/// Ends a [`hold`] of this thread; one that was never begun is ignored.
pub fn release() {
    let mutator = attach::current();
    let Some(holds) = mutator.holds.load(Relaxed).checked_sub(1) else { return };
    mutator.holds.store(holds, Relaxed);
    if holds == 0 {
        // SAFETY: `hold` took the lock on this thread and forgot its guard.
        unsafe { COLLECTOR.unlock_forgotten() };
    }
}

/// Allows collections again; one more call than [`disable`] changes nothing.
pub fn enable() {
    let _ = DISABLED.fetch_update(AcqRel, Acquire, |count| count.checked_sub(1));
}

/// No collections until as many calls of [`enable`].
pub fn disable() {
    DISABLED.fetch_add(1, AcqRel);
}

/// Whether cycles start by themselves.
pub fn set_automatic(on: bool) {
    AUTOMATIC.store(on, Relaxed);
}

/// Whether collections are disabled.
pub fn is_disabled() -> bool {
    DISABLED.load(Acquire) > 0
}

/// Takes the lock over a `fork`; a thread that holds collections off has it already.
pub fn hold_for_fork() {
    hold();
}

/// Ends [`hold_for_fork`], in the parent and in the child.
///
/// # Safety
/// This thread took it.
pub unsafe fn unlock_after_fork() {
    release();
}

/// In the child of a `fork`: the library's threads are gone.
pub fn after_fork() {
    markers::after_fork();
    background::after_fork();
    steps::after_fork();
    limits::after_fork();
}
