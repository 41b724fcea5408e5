//! The handshake between the collector's thread and the program's: who takes which step of a cycle
//! beside the program. The collector's thread takes all of them; but where the program takes part
//! in a pause it offers that one to the first mutator that comes by the slow path of its
//! allocation.
//!
//! Invariant `[cycle.inv.offer]`: a step is taken once, under the collector's lock, by whoever
//! finds it still offered there, and the driver token with it. A pause in which the program's own
//! functions are called belongs to a mutator because they may need their thread's state. While
//! nobody comes, the collector's thread goes on scanning what is written, so that the pause stays
//! short however late it is.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use super::assist::assist;
use super::between_steps::{self, CycleState};
use super::disabling::{is_disabled, wait_until_enabled, when_enabled};
use super::{given_up, progress, wake, watch_in_use};
use crate::cycle::collector::{self, COLLECTOR, Collector};
use crate::cycle::modes::marking_mode::{Left, MarkingMode};
use crate::cycle::phase::{Phase, Step};
use crate::cycle::policy::generation::Generation;
use crate::cycle::report::record::CYCLES;
use crate::cycle::report::{callbacks, root_callback};
use crate::cycle::token::Driver;
use crate::cycle::{patience, schedule, workers};
use crate::heap::HEAP;
use crate::sys::{print, side_stack, thread};
use crate::watch::choose::Watching;
use crate::world::mutator::Mutator;
use crate::world::{self, attach, host};

const NOTHING: u32 = 0;
const FIRST_PAUSE: u32 = 1;
const REMARK: u32 = 2;
/// Somebody is taking the step: nobody is to wait for that.
const TAKEN: u32 = 3;
/// Between the two others.
const MIDDLE_PAUSE: u32 = 4;

/// The step on offer. Written under the collector's lock.
static OFFERED: AtomicU32 = AtomicU32::new(NOTHING);
/// Whether a cycle was asked for: nobody has, who did had leave to begin one if it is still due
/// then, the program is idle, somebody waits for one, or one is wanted in any case. Without being
/// asked the collector's thread begins none, since the program may have a gate. Written by who
/// asks, and by that thread.
static REQUESTED: AtomicU32 = AtomicU32::new(UNASKED);
const UNASKED: u32 = 0;
const IF_DUE: u32 = 1;
const IDLE: u32 = 2;
const AWAITED: u32 = 3;
const IN_ANY_CASE: u32 = 4;
/// Somebody waits until so many cycles are completed, the last a full one; or did, and one was
/// given up. Under the collector's lock.
static AWAITED_CYCLES: AtomicU64 = AtomicU64::new(0);
/// From the beginning of a cycle to its end. Written by the collector's thread.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);
/// A cycle ended on the collector's thread: the next mutator tells the program.
static TELL_END: AtomicBool = AtomicBool::new(false);
/// A pause of the cycle under way could not be: its collector's thread gives it up. Under the
/// collector's lock.
static COULD_NOT_STOP: AtomicBool = AtomicBool::new(false);
/// The last pause left what [`process_left`] does. Under the collector's lock.
static CONCLUSION_LEFT: AtomicBool = AtomicBool::new(false);

/// How long the last pause waits for a mutator before the pages written meanwhile are scanned once
/// more; twice as long each time after.
const OFFER_NS: u64 = 2_000_000;
const LONGEST_OFFER_NS: u64 = 100_000_000;

/// Wakes the thread that runs cycles, unless it is at it: it begins one if one is due, or if it is
/// `forced` to. False if there is no thread.
pub fn request(forced: bool) -> bool {
    if UNDER_WAY.load(Acquire) {
        return true;
    }
    let asked = REQUESTED.fetch_max(if forced { IN_ANY_CASE } else { IF_DUE }, AcqRel);
    if asked != UNASKED && !forced { wake::wake_again() } else { wake::wake() }
}

/// The same for who waits for a cycle: not where that has begun or `is_over`, asked under the lock.
fn request_unless(is_over: impl Fn() -> bool) -> bool {
    let Some(collector) = COLLECTOR.try_lock() else { return true };
    if collector.phase != Phase::Idle || is_over() {
        return true;
    }
    REQUESTED.fetch_max(AWAITED, AcqRel);
    drop(collector);
    wake::wake()
}

/// Whether a cycle is under way or about to be.
pub fn is_asked() -> bool {
    UNDER_WAY.load(Acquire) || REQUESTED.load(Relaxed) != UNASKED
}

/// Whether [`take_offered`] or [`tell_ended`] has something to do.
#[inline]
pub fn is_offered() -> bool {
    OFFERED.load(Acquire) != NOTHING || TELL_END.load(Relaxed)
}

/// Takes the step on offer; false if there is none, or as [`patience::lock`] says. On a mutator,
/// outside critical sections, its registers spilled above `position`; [`tell_ended`] follows.
#[inline]
pub fn take_offered(position: usize, waits: bool) -> bool {
    let step = OFFERED.load(Acquire);
    is_on_offer(step) && take(step, position, waits)
}

/// Tells the program of a cycle that ended, if nobody has: where the program's functions may run,
/// for as long as they like.
#[inline]
pub fn tell_ended() {
    if TELL_END.load(Relaxed) && TELL_END.swap(false, AcqRel) {
        callbacks::after_cycle();
    }
}

fn is_on_offer(step: u32) -> bool {
    matches!(step, FIRST_PAUSE | MIDDLE_PAUSE | REMARK)
}

#[cold]
fn take(step: u32, position: usize, waits: bool) -> bool {
    let mutator = attach::current();
    if mutator.keeps_off() || !world::the().may_be_stopped_here() {
        return false;
    }
    let Some(collector) = &mut patience::lock(waits) else { return false };
    if OFFERED.load(Acquire) != step || is_disabled() {
        return true;
    }
    let Some(state) = between_steps::take(collector) else { return true };
    OFFERED.store(TAKEN, Release);
    mutator.holds.store(1, Relaxed);
    mutator.position.store(position, Relaxed);
    with_room(|| run_step(step, state, collector, Some(mutator)));
    between_steps::put_back(collector, state);
    OFFERED.store(NOTHING, Release);
    progress::note();
    mutator.holds.store(0, Relaxed);
    true
}

/// Runs a step here and now; `own` is the calling mutator, if it is one.
fn run_step(step: u32, state: &mut CycleState, of: &mut Collector, own: Option<&Mutator>) {
    let Some((driver, mode)) = parts(state) else { return };
    // A host that the collector's thread can stop hears of that there too.
    callbacks::set_heard(own.is_some() || host::get().is_some());
    let has_stopped = match step {
        FIRST_PAUSE => mode.first_pause(driver, of, own).is_some(),
        MIDDLE_PAUSE => mode.middle_pause(driver, of, own).is_some(),
        _ => {
            let left = mode.remark(driver, of, own);
            match left {
                Left::Nothing => TELL_END.store(true, Release),
                Left::Conclusion => CONCLUSION_LEFT.store(true, Relaxed),
                Left::All => {}
            }
            left != Left::All
        }
    };
    callbacks::set_heard(true);
    if !has_stopped {
        COULD_NOT_STOP.store(true, Release);
    }
}

/// Whether the last pause left that. Under the collector's lock.
pub fn is_conclusion_left() -> bool {
    CONCLUSION_LEFT.load(Relaxed)
}

/// Concludes the cycle if the last pause left that. On the collector's thread, or on one that holds
/// collections off: at the heap's limit others wait for it in critical sections, and the child of a
/// `fork` would not know what is to stay.
pub fn process_left(collector: &mut Collector) {
    if !is_conclusion_left() {
        return;
    }
    CONCLUSION_LEFT.store(false, Relaxed);
    let Some(state) = between_steps::take(collector) else { return };
    if let Some((driver, mode)) = parts(state) {
        with_room(|| mode.conclude(driver, collector));
    }
    between_steps::put_back(collector, state);
    TELL_END.store(true, Release);
}

fn parts(state: &mut CycleState) -> Option<(&mut Driver, &mut dyn MarkingMode)> {
    let CycleState { driver, mode } = state;
    Some((driver, mode.as_mut()?.steps()))
}

/// Runs a part of a cycle on a stack that has room for it: the program's threads may stand on small
/// ones. Functions of the program that it calls stand where they would, by [`side_stack::off`].
pub fn with_room(f: impl FnOnce()) {
    side_stack::on(f);
    thread::clear_vector_registers();
}

fn offer(step: u32, state: &'static mut CycleState) {
    let collector = &mut *COLLECTOR.lock();
    between_steps::put_back(collector, state);
    OFFERED.store(step, Release);
    progress::note();
}

/// Takes an offer back; None if somebody took the step.
fn withdraw(step: u32) -> Option<&'static mut CycleState> {
    let collector = &mut *COLLECTOR.lock();
    if OFFERED.load(Acquire) != step {
        return None;
    }
    OFFERED.store(NOTHING, Release);
    between_steps::take(collector)
}

/// Waits until a mutator has taken the step. `meanwhile` runs now and then while nobody comes, with
/// nothing on offer, and who asks for a snapshot is answered. On the collector's thread.
fn have_taken(
    step: u32,
    mut state: &'static mut CycleState,
    mut meanwhile: impl FnMut(&mut CycleState),
) {
    let mut wait_ns = OFFER_NS;
    loop {
        if !wait_until_enabled() {
            between_steps::put_back(&mut COLLECTOR.lock(), state);
            return COULD_NOT_STOP.store(true, Release);
        }
        offer(step, state);
        state = loop {
            let seen = progress::seen();
            if OFFERED.load(Acquire) == NOTHING {
                return;
            }
            if !progress::wait_for(seen, wait_ns)
                && let Some(state) = withdraw(step)
            {
                break state;
            }
        };
        meanwhile(state);
        wake::answer();
        wait_ns = (wait_ns * 2).min(LONGEST_OFFER_NS);
    }
}

/// Has a step that is not the last taken: by a mutator if the program takes part in it, otherwise
/// here and now.
fn pass(step: u32, state: &'static mut CycleState) -> &'static mut CycleState {
    if program_takes_part() {
        have_taken(step, state, |_| {});
        return state_of_cycle();
    }
    match when_enabled() {
        Some(mut collector) => run_step(step, state, &mut collector, None),
        None => COULD_NOT_STOP.store(true, Release),
    }
    state
}

/// The state, of the cycle under way, after a step that another thread took.
fn state_of_cycle() -> &'static mut CycleState {
    match between_steps::take(&mut COLLECTOR.lock()) {
        Some(state) => state,
        None => print::fatal(format_args!("[cycle.inv.driver] the driver token is lost")),
    }
}

/// Whether a pause calls the program, or a host: their functions may rely on the thread that they
/// run on.
pub fn program_takes_part() -> bool {
    HEAP.layouts.has_calls() || host::get().is_some() || callbacks::program_takes_part()
}

/// Whether the collector's thread takes the last pause although there is a host: where the program
/// writes fast, what it writes until somebody comes by would be left to the pause. It can stop the
/// host, and nothing else of the program's is called.
fn stops_host_at_once(state: &mut CycleState) -> bool {
    host::get().is_some()
        && !HEAP.layouts.has_calls()
        && !root_callback::is_set()
        && state.driver.world.stops_for_collector()
        && parts(state).is_some_and(|(_, mode)| mode.stops_at_once())
}

/// The end of a cycle was not told: the next mutator that comes by tells it.
pub fn tell_end() {
    TELL_END.store(true, Release);
}

/// Runs a cycle that nobody asked for. On the collector's thread.
pub fn drive_unasked() {
    REQUESTED.fetch_max(IDLE, AcqRel);
    drive();
}

/// Runs a cycle if one was requested. On the collector's thread.
pub fn drive() {
    let requested = REQUESTED.swap(UNASKED, AcqRel);
    let is_wanted = requested >= IDLE || requested == IF_DUE && schedule::is_due();
    if !collector::runs_beside() || !is_wanted {
        return;
    }
    let mut collector = COLLECTOR.lock();
    let is_off = requested <= IDLE && !collector::is_automatic();
    if collector.phase != Phase::Idle || is_disabled() || is_off {
        return;
    }
    // Who asked for one while it was about to begin anyway wants no other.
    let requested = requested.max(REQUESTED.swap(UNASKED, AcqRel));
    let is_awaited = CYCLES.load(Relaxed) < AWAITED_CYCLES.load(Relaxed);
    if requested == AWAITED && !is_awaited {
        // The world was stopped for it meanwhile.
        return;
    }
    let forced = matches!(requested, IDLE | IN_ANY_CASE) || is_awaited;
    let state = between_steps::begin(&mut collector);
    let can_be_minor = parts(state).is_some_and(|(driver, mode)| {
        mode.has_minor_cycles() && driver.markers().aside.are_traced_known()
    });
    let generation = match forced {
        true => Generation::Full,
        false => collector.next_generation(can_be_minor),
    };
    let helpers = match forced {
        true => collector.helpers_for_who_waits(),
        false => collector.background_helpers(),
    };
    state.driver.helpers_beside = state.driver.workers.ensure(helpers).min(helpers);
    collector.step(Step::Begin);
    UNDER_WAY.store(true, Release);
    drop(collector);
    run_steps(state, generation);
    UNDER_WAY.store(false, Release);
    progress::note();
}

/// The steps of a cycle that has begun. On the collector's thread.
pub(super) fn run_steps(mut state: &'static mut CycleState, generation: Generation) {
    let protected =
        parts(state).is_some_and(|(driver, mode)| mode.write_protect(driver, generation).is_ok());
    if !protected {
        return give_up_watching(state);
    }
    let names_roots = root_callback::is_set() && callbacks::program_takes_part();
    let in_a_pause = names_roots || !state.driver.world.stops_one_by_one();
    let read = |state: &mut CycleState| {
        let (driver, mode) = parts(state)?;
        Some(mode.read_roots(driver, &mut when_enabled()?))
    };
    if in_a_pause || read(state) != Some(true) {
        if let Some((driver, mode)) = parts(state) {
            mode.before_first_pause(driver, &mut COLLECTOR.lock());
        }
        state = pass(FIRST_PAUSE, state);
        if COULD_NOT_STOP.load(Acquire) {
            return give_up_unstopped(state);
        }
    }
    let mut goes_on = mark(state);
    while goes_on {
        state = pass(MIDDLE_PAUSE, state);
        if COULD_NOT_STOP.load(Acquire) {
            return give_up_unstopped(state);
        }
        goes_on = parts(state).is_some_and(|(driver, mode)| mode.mark_again(driver));
    }
    if program_takes_part() && !stops_host_at_once(state) {
        have_taken(REMARK, state, |state| {
            if let Some((driver, mode)) = parts(state) {
                mode.keep_up(driver);
            }
        });
        if !COULD_NOT_STOP.load(Acquire) {
            return process_left(&mut COLLECTOR.lock());
        }
    } else if let Some(mut collector) = when_enabled() {
        run_step(REMARK, state, &mut collector, None);
        between_steps::put_back(&mut collector, state);
        if !COULD_NOT_STOP.load(Acquire) {
            return process_left(&mut collector);
        }
    } else {
        between_steps::put_back(&mut COLLECTOR.lock(), state);
    }
    give_up_unstopped(state_of_cycle());
}

/// Marks; whether a pause in the middle makes the last one shorter.
fn mark(state: &mut CycleState) -> bool {
    let Some((driver, mode)) = parts(state) else { return false };
    mode.mark(driver);
    mode.wants_middle_pause(driver)
}

/// The world could not be stopped, or was not to be for too long: the cycle is given up. On the
/// collector's thread.
fn give_up_unstopped(state: &'static mut CycleState) {
    let collector = &mut *COLLECTOR.lock();
    COULD_NOT_STOP.store(false, Relaxed);
    given_up::end_unstopped(state, collector);
    between_steps::put_back(collector, state);
    tell_end();
}

/// The system refused to watch: the cycle is given up, and the next one stops the world or, if it
/// was the program that closed the watch, as daemons do with all they find, opens another.
fn give_up_watching(state: &'static mut CycleState) {
    if let Some((_, mode)) = parts(state).filter(|(_, mode)| mode.was_closed()) {
        mode.end_closed();
        watch_in_use::open_again_later();
        HEAP.inner().frames.forget_registrations();
    } else {
        print::message(format_args!(
            "the system no longer watches pages; cycles stop the world from now on"
        ));
    }
    // It is not closed: what it had open may be the program's by now.
    core::mem::forget(state.mode.take());
    let collector = &mut *COLLECTOR.lock();
    collector::set_watching(Watching::None);
    given_up::end(state, collector);
    between_steps::put_back(collector, state);
}

/// Waits for the end of a cycle that begins after this call, taking steps as they are offered;
/// false if collections were disabled meanwhile, or the cycle was given up. On a mutator that holds
/// nothing.
pub fn run_cycle(position: usize) -> bool {
    let collector = COLLECTOR.lock();
    let begun = (collector.phase != Phase::Idle) as u64;
    let (wanted, unstopped) = (CYCLES.load(Relaxed) + 1 + begun, given_up::unstopped());
    AWAITED_CYCLES.fetch_max(wanted, Relaxed);
    REQUESTED.fetch_max(AWAITED, AcqRel);
    drop(collector);
    wake::wake();
    let is_counted = || CYCLES.load(Relaxed) >= wanted;
    // Who ends a cycle counts it, and lets go of the lock when its end can be told.
    let lets_go = || drop(COLLECTOR.lock());
    let has_run = || is_counted().then(lets_go).is_some();
    // That one that was under way is given up says nothing of the next.
    let is_given_up = || given_up::unstopped() > unstopped + begun;
    let ask = || collector::runs_beside() && request_unless(|| is_counted() || is_given_up());
    run(position, true, || has_run() || is_given_up(), ask) && has_run()
}

/// The same until `enough` says so, where a cycle begins only if one is due.
pub fn run_until(position: usize, enough: impl Fn() -> bool) -> bool {
    run(position, false, enough, || collector::runs_beside() && request(false))
}

/// The same; who `waits` in any case marks until that is done, and `ask` asks for a cycle and says
/// whether somebody runs it.
fn run(position: usize, waits: bool, enough: impl Fn() -> bool, ask: impl Fn() -> bool) -> bool {
    loop {
        let seen = progress::seen();
        if enough() {
            take_offered(position, waits);
            return true;
        }
        if is_disabled() {
            return false;
        }
        if take_offered(position, waits) || assist(waits) {
            // It is taken, or marking is done, or others do the rest.
        } else if !ask() {
            return false;
        } else if !enough() {
            progress::wait_at(position, seen);
        }
    }
}

/// Whether a cycle beside the program is under way.
pub fn is_under_way() -> bool {
    UNDER_WAY.load(Acquire)
}

/// Waits for the end of the cycle beside the program that is under way, if there is one, taking
/// steps as they are offered; not while collections are disabled. On a mutator that holds nothing.
pub fn finish(position: usize) {
    run(position, true, || !is_under_way(), || true);
}

/// In the child of a `fork`: a cycle under way is given up; the next one clears its marks.
pub fn after_fork() {
    OFFERED.store(NOTHING, Relaxed);
    REQUESTED.store(UNASKED, Relaxed);
    UNDER_WAY.store(false, Relaxed);
    COULD_NOT_STOP.store(false, Relaxed);
    watch_in_use::open_again_later();
    collector::set_watching(Watching::None);
    workers::after_fork();
    HEAP.inner().frames.forget_registrations();
    collector::held(attach::current(), given_up::in_child);
    tell_end();
}
