//! The way in to a cycle: a mutator that wants one begins it, or waits here for the one under way.
//!
//! Invariant: the collector's lock is waited for outside critical sections, so a thread that waits
//! can be stopped by the cycle it waits for. Called by mutators, from the slow path of allocation
//! and where the program asks.

use crate::sys::clock::Instant;
use core::sync::atomic::{AtomicU64, Ordering::*};
use core::time::Duration;

use super::assist::assist;
use super::between_steps;
use super::disabling::{self, is_disabled};
use super::{given_up, handshake, holding, wake, watch_in_use};
use crate::cycle::collector::{self, COLLECTOR, Collector};
use crate::cycle::modes::stop_the_world::{self, Length, NotRun};
use crate::cycle::phase::Phase;
use crate::cycle::policy::stall::Stall;
use crate::cycle::report::callbacks;
use crate::cycle::report::record::{self, CYCLES, Kind};
use crate::cycle::report::spans::{SpanKind, timed};
use crate::cycle::{limits, patience, schedule};
use crate::heap::HEAP;
use crate::stats::{assists, events};
use crate::sync::Guard;
use crate::sys::{clock, futex, print, thread};
use crate::world::mutator::Mutator;
use crate::world::{self, attach, current, host, registry, stop};

/// A program that asks for one cycle after the other stops its other threads for half of the time,
/// but waits no longer than this before each. Larger: the others get more of it; smaller: who asks
/// waits less.
const LONGEST_REST: Duration = Duration::from_millis(1);
/// Until then nobody who asks for a cycle stops the world, by the clock in nanoseconds. Written by
/// who stopped it.
static RESTS_UNTIL_NS: AtomicU64 = AtomicU64::new(0);

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

/// Whether no cycle comes that nobody asks for. One that is under way is helped and waited for,
/// whether they are switched off meanwhile or not.
fn is_off() -> bool {
    !collector::is_automatic() && !handshake::is_under_way()
}

/// Runs a cycle on this thread, or waits for the one that runs; false if none was run because
/// collections are disabled or held off by this thread, or because another thread's has just made
/// this one unnecessary. Outside critical sections.
pub fn collect(reason: Reason) -> bool {
    thread::with_registers_spilled(|position| collect_from(position, reason))
}

/// The same for a caller that has spilled its registers above `position`: nothing below it is the
/// program's.
pub fn collect_from(position: usize, reason: Reason) -> bool {
    let mutator = attach::current();
    if mutator.is_critical() {
        print::reentered();
    }
    if is_disabled() || mutator.keeps_off() || !world::the().may_be_stopped_here() {
        return false;
    }
    let refused = reason == Reason::Allocated && (is_off() || is_too_early());
    if refused || (reason != Reason::Explicit && !callbacks::may_begin(reason == Reason::NoMemory))
    {
        schedule::postpone();
        return false;
    }
    if reason == Reason::Explicit {
        limits::note_explicit();
    }
    let mut may_stop = true;
    loop {
        match in_collector(|| collect_as_wanted(position, reason, may_stop)) {
            Collected::Stopped => {
                callbacks::after_cycle();
                return true;
            }
            Collected::GivenUp => {
                // Who was told of its beginning is told of its end.
                if callbacks::program_takes_part() {
                    callbacks::note_end();
                    callbacks::after_cycle();
                }
                may_stop = false;
            }
            Collected::Beside(collected) => {
                handshake::tell_ended();
                return collected;
            }
        }
    }
}

/// Runs a part of a cycle, or a wait for one, whose time counts as spent in the collector. Nothing
/// of the program's is called in it but in stops.
fn in_collector<R>(f: impl FnOnce() -> R) -> R {
    // At every refill while a cycle is due: the span takes clocks of its own.
    if !events::are_wanted() {
        return assists::counted(clock::now_ns, f);
    }
    let (span, before) = (timed(SpanKind::InCollector), record::moment());
    let result = assists::counted(clock::now_ns, f);
    span.over_on_program(before.cycle_until(record::moment()));
    result
}

/// What became of a wish for a cycle.
enum Collected {
    /// This thread ran it with the world stopped, and has not told the program of its end.
    Stopped,
    /// The stop for it was given up: it may go on beside the program.
    GivenUp,
    /// Others ran it, or took part; or nobody did.
    Beside(bool),
}

/// The same, where nothing speaks against a cycle; `may_stop` unless a stop has ended early for it.
fn collect_as_wanted(position: usize, reason: Reason, may_stop: bool) -> Collected {
    let mutator = attach::current();
    let mut kind = Kind::Stopped;
    // Twice, for a watch that turns out to be closed.
    for _ in 0..2 {
        let fits = may_stop && schedule::fits_in_a_stop();
        let waits = reason != Reason::Allocated;
        if (waits || !fits) && !watch_in_use::open(waits) {
            return Collected::Beside(false);
        }
        kind = if is_alone(reason) { Kind::Alone } else { Kind::Stopped };
        // Without the collector's thread the world is stopped for this cycle.
        if kind == Kind::Stopped && collector::runs_beside() && !fits && wake::ensure() {
            let unstopped = given_up::unstopped();
            let collected = concurrently(position, reason);
            // Who asked has the world stopped where another thread only tried to start that one.
            let had_none =
                reason != Reason::Allocated && given_up::unstopped() == unstopped && !is_disabled();
            if collected || (collector::runs_beside() && !had_none) {
                return Collected::Beside(collected);
            }
        }
    }
    if reason == Reason::Explicit {
        let_others_run();
    }
    let Some(mut collector) = lock_for(reason) else { return Collected::Beside(false) };
    // Under the lock, for who has switched them off and waited for it since.
    let may_be = collector::is_automatic() || collector.phase != Phase::Idle;
    let is_wanted = reason != Reason::Allocated || may_be && schedule::is_due();
    if is_disabled() || !is_wanted {
        return Collected::Beside(false);
    }
    if collector.phase != Phase::Idle {
        drop(collector);
        return Collected::Beside(concurrently(position, reason));
    }
    mutator.holds.store(1, Relaxed);
    mutator.position.store(position, Relaxed);
    let began = Instant::now();
    let length = match kind {
        Kind::Stopped if may_stop && may_go_beside(reason) => {
            Length::Planned { if_due: reason == Reason::Allocated }
        }
        _ => Length::Any,
    };
    let mut result = Ok(());
    handshake::with_room(|| result = stopped(&mut collector, Some(mutator), kind, length));
    mutator.holds.store(0, Relaxed);
    match result {
        Ok(()) => {}
        Err(NotRun::Unstopped) => return Collected::Beside(false),
        Err(NotRun::MuchToRead | NotRun::OutOfTime) => return Collected::GivenUp,
    }
    let rest = match collector.mutators {
        0 | 1 => Duration::ZERO,
        _ => began.elapsed().min(LONGEST_REST),
    };
    RESTS_UNTIL_NS.store(clock::now_ns() + rest.as_nanos() as u64, Relaxed);
    let between_ms = match collector.has_processor_to_spare() {
        true => BETWEEN_SWEEPS_MS,
        false => LET_SWEEP_MS,
    };
    drop(collector);
    if wake::is_worth_it(between_ms, reason == Reason::Explicit) {
        wake::wake();
    }
    Collected::Stopped
}

/// Waits for the end of the cycle under way, if there is one. Who has disabled collections or holds
/// them off does not wait.
fn finish() {
    let mutator = attach::current();
    if !mutator.keeps_off() && world::the().may_be_stopped_here() {
        // A cycle that another thread runs with the world stopped, or is about to begin.
        drop(COLLECTOR.lock());
        thread::with_registers_spilled(|position| in_collector(|| handshake::finish(position)));
        handshake::tell_ended();
    }
}

/// The same for who may be called anywhere: in a cycle's own steps it does not wait. Once
/// [`collector::set_automatic`] has switched them off, what ends here is the last cycle that nobody
/// asked for.
pub fn finish_under_way() {
    let is_inside = current::get().is_some_and(|mutator| mutator.is_critical());
    if !is_inside && !COLLECTOR.is_mine() && !is_disabled() {
        finish();
    }
}

/// Disables collections when none is under way.
pub fn finish_and_disable() {
    while !is_disabled() && !attach::current().keeps_off() {
        finish();
        disabling::disable();
        if !handshake::is_under_way() {
            return;
        }
        // Another one began.
        disabling::enable();
    }
    disabling::disable();
}

/// Ends of cycles that [`finish_and_hold`] waits for at most. Larger: it finds marks whole where
/// other threads begin one cycle after the other; smaller: it keeps its caller less long.
const MOST_ENDS: u32 = 8;

/// Holds collections off once the cycle under way, if there is one, has ended. Who holds them off
/// already or has disabled them does not wait. The end is not told here, where the program's
/// functions may not run: its caller may hold locks of its own. The next allocation tells it.
pub fn finish_and_hold() {
    for _ in 0..MOST_ENDS {
        if is_disabled() || attach::current().keeps_off() || !world::the().may_be_stopped_here() {
            break;
        }
        if holding::hold_if_idle() {
            return;
        }
        thread::with_registers_spilled(|position| in_collector(|| handshake::finish(position)));
    }
    holding::hold();
}

/// Waits until the other threads have had as much time as the last stop took from them: woken from
/// it, they get nothing done before they have a processor again.
fn let_others_run() {
    let rest_ns = RESTS_UNTIL_NS.load(Relaxed).saturating_sub(clock::now_ns());
    if rest_ns > 0 {
        futex::sleep(rest_ns);
    }
}

/// Whether the only thread asks for a cycle, so that nothing would run beside it
/// `[cycle.why.alone]`. Where every cycle stops the world, that one is no exception.
fn is_alone(reason: Reason) -> bool {
    reason == Reason::Explicit
        && collector::runs_beside()
        && host::get().is_none()
        && registry::lock().count() == 1
        && COLLECTOR.lock().max_pause_ns > 0
}

/// Whether a first cycle for what was allocated is put off: a program that takes part in cycles may
/// not be ready for one so early. Crystal's function that names roots allocates when it is called
/// before its runtime has begun, and under libgc, which counts static data, it never is.
fn is_too_early() -> bool {
    CYCLES.load(Relaxed) == 0 && schedule::grew_little() && handshake::program_takes_part()
}

/// Whether a cycle that was to stop the world may be given up for one beside the program: not where
/// a host was told that it began.
fn may_go_beside(reason: Reason) -> bool {
    reason != Reason::NoMemory && collector::may_run_beside() && host::get().is_none()
}

/// A cycle of this kind on the calling thread; `own` is its mutator, if it has one. The phase is
/// idle, and is so again.
pub(super) fn stopped(
    collector: &mut Collector,
    own: Option<&Mutator>,
    kind: Kind,
    length: Length,
) -> Result<(), NotRun> {
    let state = between_steps::begin(collector);
    let result = stop_the_world::run(&mut state.driver, collector, own, kind, length);
    match result {
        Ok(()) => {}
        Err(NotRun::Unstopped) => given_up::end_unstopped(state, collector),
        Err(NotRun::MuchToRead | NotRun::OutOfTime) => given_up::end(state, collector),
    }
    between_steps::put_back(collector, state);
    result
}

/// The collector's lock. Who only allocated enough does not wait for it while another thread is
/// about to run the cycle, unless that takes long: it goes on, and so comes by where it is to
/// stand. Nor for one that holds collections off for long.
fn lock_for(reason: Reason) -> Option<Guard<'static, Collector>> {
    let allocated = HEAP.state.grown_since_cycle();
    if reason == Reason::Allocated && allocated < schedule::stalls_at() {
        return COLLECTOR.try_lock();
    }
    patience::lock(reason != Reason::Allocated)
}

/// How often the collector's thread is woken to sweep where the program's own threads keep all
/// processors busy. Larger: memory goes back later; smaller: it takes a processor from them more
/// often, and the next stop has to wait for the thread that lost it.
const LET_SWEEP_MS: u64 = 50;
/// The same where they leave it a processor: cycles that follow each other faster have little to
/// sweep, and sweeping it beside a thread that allocates takes both of them longer. Larger: the
/// program sweeps more itself.
const BETWEEN_SWEEPS_MS: u64 = 2;

/// Has the collector's thread begin a cycle; who asked for one waits for its end, who only
/// allocated enough goes on. Who allocates faster than the cycle marks pays for it at each refill,
/// as [`Stall`] says.
fn concurrently(position: usize, reason: Reason) -> bool {
    if reason != Reason::Allocated {
        return handshake::run_cycle(position);
    }
    match stall() {
        Stall::Nothing => _ = handshake::request(false),
        Stall::Assists => {
            handshake::request(false);
            assist(false);
        }
        Stall::Waits(_) | Stall::UntilOver => {
            let began = Instant::now();
            let enough =
                || stall().is_over(began.elapsed()) || patience::is_hold_long() || is_off();
            return handshake::run_until(position, enough);
        }
    }
    false
}

/// In the slow path of an allocation: takes a step of the cycle under way, or begins one if it is
/// due.
#[inline]
pub fn poll(position: usize) {
    stop::poll(position);
    if handshake::is_offered() {
        in_collector(|| handshake::take_offered(position, false));
        handshake::tell_ended();
    }
    if schedule::is_due() && !(handshake::is_asked() && stall() == Stall::Nothing) {
        collect_from(position, Reason::Allocated);
    }
}

/// What a refill costs the thread now.
fn stall() -> Stall {
    Stall::at(HEAP.state.grown_since_cycle(), schedule::stalls_at())
}
