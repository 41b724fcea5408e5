//! Who takes which step of a concurrent cycle: the collector's thread takes all of them, but where the program takes part in a stop it offers that one to the first mutator that comes by the slow path of its allocation.
//!
//! Invariant `[cycle.inv.offer]`: a step is taken once, under the collector's lock, by whoever finds it still offered there. A stop in which the program's own functions are called belongs to a mutator because they may need their thread's
//! state. While nobody comes, the collector's thread goes on scanning what is written, so that the stop stays short however late it is.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use super::collector::{self, COLLECTOR, Collector};
use super::concurrent::background_helpers;
use super::generation::{Generation, Generations};
use super::phase::{Phase, Step};
use super::report::CYCLES;
use super::way::Way;
use super::{background, due, events, markers, root_callback};
use crate::addr::{Address, PAGE_BYTES};
use crate::heap::HEAP;
use crate::heap::state::Snapshot;
use crate::sys::{futex, map, print, thread};
use crate::watch::choose::Watching;
use crate::world::{self, attach, blocked, host};

const NOTHING: u32 = 0;
const FIRST_STOP: u32 = 1;
const REMARK: u32 = 2;
/// Somebody is taking the step. The last one settles references with the world running: nobody is to wait for that.
const TAKEN: u32 = 3;
/// Between the two others.
const MIDDLE_STOP: u32 = 4;

/// The step on offer.
static OFFERED: AtomicU32 = AtomicU32::new(NOTHING);
/// Counts steps offered and taken; who waits for a cycle sleeps on it.
static PROGRESS: AtomicU32 = AtomicU32::new(0);
/// Whether a cycle was asked for: nobody has, who did had leave to begin one if it is still due then, or somebody waits for one in any case. Without being asked the collector's thread begins none, since the program may have a gate.
static REQUESTED: AtomicU32 = AtomicU32::new(UNASKED);
const UNASKED: u32 = 0;
const IF_DUE: u32 = 1;
const IN_ANY_CASE: u32 = 2;
/// From the beginning of a cycle to its end.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);
/// A cycle ended on the collector's thread: the next mutator tells the program.
static TELL_END: AtomicBool = AtomicBool::new(false);
/// Address of the [`Way`]; 0 where cycles stop the world.
static CONCURRENT: AtomicUsize = AtomicUsize::new(0);

const STATE_BYTES: usize = size_of::<Way>().next_multiple_of(PAGE_BYTES);
/// In a forked child before its first cycle: the parent's way of watching, as a number; 0 for none.
static INHERITED: AtomicU32 = AtomicU32::new(Watching::None as u32);

/// How long the last stop waits for a mutator before the pages written meanwhile are scanned once more; twice as long each time after.
const OFFER_NS: u64 = 2_000_000;
const LONGEST_OFFER_NS: u64 = 100_000_000;
/// Who waits for a cycle looks this often whether it still has to.
const LOOK_NS: u64 = 2_000_000;

/// Cycles are run beside the program from now on, if this way of watching has such. False if the system does not allow it.
pub fn enable(watching: Watching) -> bool {
    let Some(way) = Way::open(watching) else { return watching == Watching::None };
    let Ok(memory) = map::allocate(STATE_BYTES) else { return false };
    // SAFETY: fresh memory, large enough and page-aligned; nobody knows it yet.
    unsafe { memory.pointer::<Way>().write(way) };
    CONCURRENT.store(memory.0, Release);
    true
}

/// Whether cycles run concurrently.
#[inline(always)]
pub fn enabled() -> bool {
    CONCURRENT.load(Acquire) != 0
}

/// What is in use, or will be from the first cycle on.
pub fn watching() -> Watching {
    let way = CONCURRENT.load(Acquire) as *const Way;
    // SAFETY: stored by `enable`; which way it is never changes.
    match unsafe { way.as_ref() } {
        Some(way) => way.watching(),
        None => Watching::from_number(INHERITED.load(Relaxed)),
    }
}

/// # Safety
/// The caller owns the cycle's state: it is the collector's thread while nothing is offered, or it took the offered step under the collector's lock.
unsafe fn state() -> &'static mut Way {
    // SAFETY: the caller's promise; stored once by `enable`.
    unsafe { &mut *(CONCURRENT.load(Acquire) as *mut Way) }
}

/// Wakes the thread that runs cycles, unless it is at it: it begins one if one is due, or in any case if that is `forced`. False if there is no thread.
pub fn request(forced: bool) -> bool {
    if UNDER_WAY.load(Acquire) {
        return true;
    }
    REQUESTED.fetch_max(if forced { IN_ANY_CASE } else { IF_DUE }, AcqRel);
    background::wake()
}

/// Whether [`take_offered`] has something to do.
#[inline]
pub fn is_offered() -> bool {
    OFFERED.load(Acquire) != NOTHING || TELL_END.load(Relaxed)
}

/// Takes the step on offer, if there is one. On a mutator, outside critical sections, its registers spilled above `position`.
#[inline]
pub fn take_offered(position: usize) {
    let step = OFFERED.load(Acquire);
    if is_on_offer(step) {
        take(step, Some(position));
    }
    if TELL_END.load(Relaxed) && TELL_END.swap(false, AcqRel) {
        events::after_cycle();
    }
}

fn is_on_offer(step: u32) -> bool {
    matches!(step, FIRST_STOP | MIDDLE_STOP | REMARK)
}

#[cold]
fn take(step: u32, position: Option<usize>) {
    let mutator = position.map(|_| attach::current());
    if mutator.is_some_and(|mutator| mutator.holds.load(Relaxed) > 0)
        || !world::the().may_be_stopped_here()
    {
        return;
    }
    let mut collector = COLLECTOR.lock();
    if OFFERED.load(Acquire) != step {
        return;
    }
    OFFERED.store(TAKEN, Release);
    if let (Some(mutator), Some(position)) = (mutator, position) {
        mutator.holds.store(1, Relaxed);
        mutator.position.store(position, Relaxed);
    }
    events::set_heard(mutator.is_some());
    // SAFETY: the step was still on offer, under the lock.
    let concurrent = unsafe { state() };
    collector::with_room(|| match step {
        FIRST_STOP => concurrent.first_stop(&mut collector, mutator),
        MIDDLE_STOP => concurrent.middle_stop(&mut collector, mutator),
        _ => concurrent.remark(&mut collector, mutator),
    });
    if step == REMARK {
        TELL_END.store(true, Release);
    }
    events::set_heard(true);
    OFFERED.store(NOTHING, Release);
    progress();
    if let Some(mutator) = mutator {
        mutator.holds.store(0, Relaxed);
    }
}

fn progress() {
    PROGRESS.fetch_add(1, AcqRel);
    futex::wake(&PROGRESS, i32::MAX as u32);
}

/// Has a step taken: by a mutator if the program takes part in it, otherwise here and now. `meanwhile` runs now and then while nobody comes, with nothing on offer. On the collector's thread.
fn have_taken(step: u32, takes_part: bool, mut meanwhile: impl FnMut()) {
    OFFERED.store(step, Release);
    if !takes_part {
        return take(step, None);
    }
    let mut wait_ns = OFFER_NS;
    progress();
    loop {
        let seen = PROGRESS.load(Acquire);
        if OFFERED.load(Acquire) == NOTHING {
            return;
        }
        if !futex::wait(&PROGRESS, seen, Some(wait_ns)) && withdraw(step) {
            meanwhile();
            wait_ns = (wait_ns * 2).min(LONGEST_OFFER_NS);
            OFFERED.store(step, Release);
            progress();
        }
    }
}

/// Takes an offer back; false if somebody took the step.
fn withdraw(step: u32) -> bool {
    let _collector = COLLECTOR.lock();
    OFFERED.compare_exchange(step, NOTHING, AcqRel, Relaxed).is_ok()
}

/// Whether a stop calls the program: its functions may rely on the thread that they run on.
pub fn program_takes_part() -> bool {
    host::get().is_some() || HEAP.layouts.has_functions() || events::program_takes_part()
}

/// The end of a cycle was not told: the next mutator that comes by tells it.
pub fn tell_end() {
    TELL_END.store(true, Release);
}

/// Runs a cycle that nobody asked for. On the collector's thread.
pub fn drive_unasked() {
    REQUESTED.store(IN_ANY_CASE, Release);
    drive();
}

/// Runs a cycle if one was requested. On the collector's thread.
pub fn drive() {
    let requested = REQUESTED.swap(UNASKED, AcqRel);
    let forced = requested == IN_ANY_CASE;
    if !enabled() || requested == UNASKED || !(forced || due::is_due()) {
        return;
    }
    let mut collector = COLLECTOR.lock();
    if collector.phase != Phase::Idle || collector::is_disabled() {
        return;
    }
    markers::ensure(background_helpers(&collector));
    let generation = if forced { Generation::Full } else { collector.next_generation() };
    collector.step(Step::Begin);
    UNDER_WAY.store(true, Release);
    // Who asked for this one while it was about to begin anyway does not want another.
    REQUESTED.store(UNASKED, Release);
    drop(collector);
    run_steps(generation);
    UNDER_WAY.store(false, Release);
    progress();
}

fn run_steps(generation: Generation) {
    // SAFETY: this is the collector's thread, and nothing is offered.
    if unsafe { state() }.arm(generation).is_err() {
        // SAFETY: as above.
        if unsafe { state() }.was_closed() {
            // As daemons do with all descriptors they find. The next cycle opens another; the old one's memory stays, since somebody may be asking it what it is.
            INHERITED.store(watching() as u32, Relaxed);
            HEAP.inner().granules.forget_registrations();
        } else {
            print::message(format_args!(
                "the system no longer watches pages; cycles stop the world from now on"
            ));
        }
        let mut collector = COLLECTOR.lock();
        CONCURRENT.store(0, Release);
        give_up(&mut collector);
        return;
    }
    let in_a_stop = (root_callback::is_set() && events::program_takes_part())
        || !world::the().stops_one_by_one();
    // SAFETY: as above.
    if in_a_stop || !unsafe { state() }.first_roots(&mut COLLECTOR.lock()) {
        // SAFETY: as above.
        unsafe { state() }.before_first_stop(&mut COLLECTOR.lock());
        have_taken(FIRST_STOP, program_takes_part(), || {});
    }
    // SAFETY: as above.
    unsafe { state() }.mark();
    // SAFETY: as above.
    if unsafe { state() }.wants_middle_stop() {
        have_taken(MIDDLE_STOP, program_takes_part(), || {});
        // SAFETY: as above.
        unsafe { state() }.mark_again();
    }
    have_taken(REMARK, program_takes_part(), || {
        // SAFETY: as above: the offer was taken back.
        unsafe { state() }.keep_up();
    });
}

/// Ends a cycle that cannot go on; the next one is full.
fn give_up(collector: &mut Collector) {
    HEAP.state.set_snapshot(Snapshot::None);
    let mut inner = HEAP.inner();
    inner.put_off.free(&HEAP, usize::MAX);
    HEAP.state.marking.store(false, Relaxed);
    HEAP.state.allocate_black.store(false, Relaxed);
    drop(inner);
    // SAFETY: nobody marks: this is the collector's thread with nothing on offer, or the only one of a forked child.
    unsafe { markers::driver() }.forget_work();
    collector.generations = Generations::new();
    collector.phase = Phase::Idle;
}

/// All blocks are swept. On the collector's thread, between cycles.
pub fn swept() {
    if enabled() {
        // SAFETY: this is the collector's thread, and nothing is offered.
        unsafe { state() }.swept();
    }
}

/// Waits for the end of a cycle that begins after this call, taking steps as they are offered; false if collections were disabled meanwhile. On a mutator that holds nothing.
pub fn run_cycle(position: usize) -> bool {
    let begun = (COLLECTOR.lock().phase != Phase::Idle) as u64;
    let wanted = CYCLES.load(Acquire) + 1 + begun;
    run_until(position, true, || CYCLES.load(Acquire) >= wanted)
}

/// The same until `enough` says so; with `forced` the cycle that begins is a full one.
pub fn run_until(position: usize, forced: bool, enough: impl Fn() -> bool) -> bool {
    loop {
        let seen = PROGRESS.load(Acquire);
        if enough() {
            take_offered(position);
            return true;
        }
        if collector::is_disabled() || !enabled() {
            return false;
        }
        if is_on_offer(OFFERED.load(Acquire)) {
            take_offered(position);
        } else if assist() {
            // Marking is done, or others do the rest.
        } else if request(forced) {
            wait_at(position, seen);
        } else {
            return false;
        }
    }
}

/// Waits for progress. Blocked, so that no stop has to ask this thread, and none reads what earlier calls left on its stack below `position`; a host knows of its threads itself.
fn wait_at(position: usize, seen: u32) {
    let wait = || futex::wait(&PROGRESS, seen, Some(LOOK_NS));
    if host::get().is_some() {
        wait();
    } else {
        blocked::blocked_at(attach::current(), position, wait);
    }
}

/// Marks with the collector's thread instead of waiting for it. In a critical section: a stop for something else waits until this round of marking is done.
fn assist() -> bool {
    // A host's threads may stand on small stacks.
    if host::get().is_some() {
        return false;
    }
    let _critical = attach::current().critical();
    let assisted = markers::assist();
    thread::clear_vector_registers();
    assisted
}

/// Whether marks of one cycle can serve the next. Under the collector's lock.
pub fn has_minor_cycles() -> bool {
    // SAFETY: as above, under the lock.
    enabled() && unsafe { state() }.has_minor_cycles()
}

/// Bytes allocated while the last cycle ran.
pub fn allocated_during_last() -> usize {
    // SAFETY: called under the collector's lock, at the end of a step or before any.
    if enabled() { unsafe { state() }.allocated_during_last() } else { 0 }
}

/// In the child of a `fork`: a cycle that was under way is given up; its marks mean nothing and the next cycle clears them.
pub fn after_fork() {
    OFFERED.store(NOTHING, Relaxed);
    REQUESTED.store(UNASKED, Relaxed);
    UNDER_WAY.store(false, Relaxed);
    INHERITED.store(watching() as u32, Relaxed);
    let old = CONCURRENT.swap(0, AcqRel) as *mut Way;
    if !old.is_null() {
        // SAFETY: the child has one thread, which is not using it; nobody finds it any more.
        unsafe { old.read() }.leave_to_parent();
        map::release(Address(old as usize), STATE_BYTES);
    }
    HEAP.inner().granules.forget_registrations();
    let mut collector = COLLECTOR.lock();
    // Another thread may have been between a mark and its note.
    if collector.phase != Phase::Idle {
        HEAP.state.unnoted_marks.store(true, Relaxed);
    }
    give_up(&mut collector);
}

/// In a child of `fork`: watches as its parent did, now that there is to be a cycle. A child that never collects does without; one that is refused what its parent was allowed stops the world.
pub fn reopen() {
    const NONE: u32 = Watching::None as u32;
    if INHERITED.load(Relaxed) != NONE {
        let _ = enable(Watching::from_number(INHERITED.swap(NONE, AcqRel)));
    }
}
