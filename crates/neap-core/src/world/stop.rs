//! Stopping and resuming the mutators by a signal.
//!
//! Invariant: the epoch is odd from the first request until the resume. A running mutator obeys in
//! the signal's handler, or at the end of its critical section; a blocked one is not asked, and
//! cannot leave its region while the epoch is odd (`blocked` has the argument). Everything here
//! between the request and the resume is a system call or plain memory: no malloc, no lock that a
//! mutator may hold.
//!
//! # Safety
//!
//! A handler of signals: it reads the interrupted thread's registers from what the kernel hands it,
//! and keeps that thread's errno.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use super::mutator::{Activity, Asker, Mutator};
use super::registry::Registry;
use super::roots::Images;
use super::stop_signal::{self, Asked};
use super::{Standing, Stopped, World, answers, current, root_copy};
use crate::sys::{clock, futex, signal, thread};

/// Odd while the world is stopped or being stopped. Written by who stops it.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// The one mutator that the stop under way is about, by its address; 0: all of them. Written by who
/// stops, before the epoch becomes odd.
static ONLY: AtomicUsize = AtomicUsize::new(0);
/// The mutator of the thread that stops the world, by its address; 0 between stops, and where that
/// thread is none. Written by itself.
static DRIVER: AtomicUsize = AtomicUsize::new(0);
/// When the mutator of [`ONLY`] began to stand, in nanoseconds of the monotonic clock. Written by
/// itself before it answers; else by who stops.
static STANDS_SINCE: AtomicU64 = AtomicU64::new(0);
/// For how long it stood, if it did not wait to be resumed. As above.
static STOOD_NS: AtomicU64 = AtomicU64::new(0);

/// Installs the handler for `number` (0: the default). False if the kernel refuses.
pub fn install(number: c_int) -> bool {
    PROCESSORS.store(thread::processors(), Relaxed);
    stop_signal::install(number, handler)
}

extern "C" fn handler(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: errno is this thread's; what we interrupt may be about to read it.
    let errno = unsafe { *libc::__errno_location() };
    let mutator = current::get();
    let is_asked = mutator.is_some_and(is_asked);
    // SAFETY: the kernel's own arguments.
    let is_for_program = unsafe { stop_signal::is_for_program(mutator, is_asked, number, info) };
    if let Some(mutator) = mutator {
        if !mutator.defers_stop(Asker::Signal) {
            obey(mutator);
            mutator.stand_if_suspended();
        }
        // All signals are blocked in here.
        // SAFETY: the kernel's context for this handler.
        let is_alone =
            || unsafe { signal::has_ended_a_call(context) && !signal::is_another_due(context) };
        if !is_for_program && is_alone() {
            mutator.interruptions.store(mutator.interruptions.load(Relaxed) + 1, Relaxed);
        }
    }
    // SAFETY: as above.
    unsafe {
        *libc::__errno_location() = errno;
        if is_for_program {
            stop_signal::pass_on(number, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// Whether the stop under way asks this mutator.
fn is_asked(mutator: &Mutator) -> bool {
    under_way().is_some_and(|epoch| mutator.asked.load(Acquire) == epoch)
}

/// Stands still if the world is being stopped. In the handler the interrupted registers lie in the
/// signal frame above us; elsewhere the ones that a caller expects kept are spilled here.
pub fn obey(mutator: &Mutator) {
    thread::with_registers_spilled(|position| obey_at(mutator, position));
}

fn obey_at(mutator: &Mutator, position: usize) {
    let epoch = EPOCH.load(SeqCst);
    // Only who was asked in this stop answers: a signal that an earlier one left behind must not
    // stand for another thread's answer.
    let asked = mutator.asked.load(Acquire) == epoch;
    if epoch.is_multiple_of(2) || !asked || mutator.obeyed.load(Relaxed) == epoch {
        return;
    }
    mutator.position.store(position, Relaxed);
    let alone = ONLY.load(Relaxed) != 0;
    if alone {
        STANDS_SINCE.store(clock::now_ns(), Relaxed);
    }
    let goes_on = alone && root_copy::take(mutator);
    if goes_on {
        let since = STANDS_SINCE.load(Relaxed);
        STOOD_NS.store(clock::now_ns().saturating_sub(since), Relaxed);
    }
    // Release: who stopped us reads our stack and runs after seeing this.
    mutator.obeyed.store(epoch, Release);
    answers::give();
    if !goes_on {
        wait_for_resume(epoch);
    }
}

/// Whether the world is stopped, or being stopped.
pub fn is_under_way() -> bool {
    !EPOCH.load(Relaxed).is_multiple_of(2)
}

/// Stands still if the world is being stopped: a thread that comes by here needs no signal. Outside
/// critical sections, its registers spilled above `position`.
#[inline]
pub fn poll(position: usize) {
    if is_under_way() {
        obey_unsignalled(position);
    }
}

#[cold]
fn obey_unsignalled(position: usize) {
    if let Some(mutator) = current::get()
        && mutator.is_at_ease()
        && mutator.activity() == Activity::Running
    {
        // A signal that comes meanwhile waits until this answer is given.
        let _critical = mutator.critical();
        obey_at(mutator, position);
    }
}

/// Looks so often before it sleeps, some forty microseconds: where little is live a stop takes no
/// longer, and waking costs as much again.
const SPINS: u32 = 2000;
/// With more threads than this it takes some of them longer to be signalled than to come by.
const FEW_THREADS: usize = 8;
/// Who stops the world looks so often whether others come by without a signal, which costs more.
const UNSIGNALLED_SPINS: u32 = 300;

/// Waits a moment for `condition` to end; says whether it did.
fn spin_while(spins: u32, mut condition: impl FnMut() -> bool) -> bool {
    for _ in 0..spins {
        if !condition() {
            return true;
        }
        core::hint::spin_loop();
    }
    !condition()
}

/// Processors of the process; written at start-up.
static PROCESSORS: AtomicUsize = AtomicUsize::new(1);
/// More threads than processors run and are being stopped: one that waits awake keeps another from
/// answering. Written by who stops the world.
static CROWDED: AtomicBool = AtomicBool::new(false);
/// Pages are protected in the stop: the kernel interrupts each processor that is awake for that,
/// and passes over one whose thread sleeps. Written by who stops the world.
pub static PROTECTS: AtomicBool = AtomicBool::new(false);

/// Threads that sleep until a stop is over, or are about to: there may be none to wake.
static SLEEPERS: AtomicU32 = AtomicU32::new(0);

/// Sleeps while the stop numbered `epoch` lasts, or for `longest_ns`; false if that ran out.
fn sleep(epoch: u32, longest_ns: Option<u64>) -> bool {
    SLEEPERS.fetch_add(1, SeqCst);
    let is_over = futex::wait(&EPOCH, epoch, longest_ns);
    SLEEPERS.fetch_sub(1, Relaxed);
    is_over
}

/// Sleeps until the stop numbered `epoch` is over.
pub(super) fn wait_for_resume(epoch: u32) {
    if !CROWDED.load(Relaxed) && !PROTECTS.load(Relaxed) {
        spin_while(SPINS, || EPOCH.load(Acquire) == epoch);
    }
    while EPOCH.load(Acquire) == epoch {
        sleep(epoch, None);
    }
}

/// The same for `longest_ns` at most.
pub(super) fn wait_a_while(epoch: u32, longest_ns: u64) {
    let until = clock::now_ns().saturating_add(longest_ns);
    while EPOCH.load(Acquire) == epoch {
        let left = until.saturating_sub(clock::now_ns());
        if left == 0 || !sleep(epoch, Some(left)) {
            return;
        }
    }
}

/// Waits for the end of the stop under way if `mutator`, which is the calling thread's, has
/// answered: it stands where signals are open, and a handler of the program's came.
pub(super) fn wait_if_standing(mutator: &Mutator) {
    if let Some(epoch) = under_way().filter(|epoch| mutator.obeyed.load(Relaxed) == *epoch) {
        wait_for_resume(epoch);
    }
}

/// The number of the stop that is under way, if one is.
pub(super) fn under_way() -> Option<u32> {
    let epoch = EPOCH.load(SeqCst);
    (!epoch.is_multiple_of(2)).then_some(epoch)
}

/// The same, if that stop is about `mutator`.
pub(super) fn under_way_for(mutator: &Mutator) -> Option<u32> {
    let epoch = under_way()?;
    // Of this stop or a later one, which sees that the mutator runs, and asks it if it is the one.
    let only = ONLY.load(SeqCst);
    (only == 0 || only == address(mutator)).then_some(epoch)
}

fn address(mutator: &Mutator) -> usize {
    core::ptr::from_ref(mutator) as usize
}

/// The threads of a POSIX process, stopped by the signal.
pub struct Posix;

impl World for Posix {
    fn stops_under_loader_lock(&self) -> bool {
        true
    }

    fn may_be_stopped_here(&self) -> bool {
        true
    }

    fn stop(&self, registry: &mut Registry, own: Option<&Mutator>) -> Option<Stopped> {
        let epoch = begin();
        stop_the_rest(registry, own, epoch);
        Some(Stopped(Standing(PhantomData)))
    }

    fn stops_one_by_one(&self) -> bool {
        true
    }

    fn resume(&self, _: Stopped) -> u64 {
        end()
    }

    fn names_roots_of(&self, _: &Mutator, _: &Stopped) -> bool {
        false
    }

    fn for_each_root(&self, _: Option<&Mutator>, _: &Stopped, _: &mut dyn FnMut(Range<usize>)) {}
}

/// The number of the stop that begins now, of all mutators.
pub(super) fn begin() -> u32 {
    begin_for(0)
}

fn begin_for(only: usize) -> u32 {
    answers::begin();
    DRIVER.store(current::get().map_or(0, address), Relaxed);
    ONLY.store(only, SeqCst);
    EPOCH.fetch_add(1, SeqCst) + 1
}

/// Whether the calling thread, whose mutator this is, is the one that stops the world.
#[inline]
pub(super) fn is_driven_by(mutator: &Mutator) -> bool {
    DRIVER.load(Relaxed) == address(mutator)
}

/// Stops by signal whoever runs and has not obeyed this stop in another way.
pub(super) fn stop_the_rest(registry: &mut Registry, own: Option<&Mutator>, epoch: u32) {
    let wanted = |mutator: &Mutator| !own.is_some_and(|own| core::ptr::eq(own, mutator));
    stop_those(registry, wanted, epoch);
}

/// A mutator whose roots can be read beside the others: it stands, or it has copied them and runs.
pub enum One {
    /// Until [`resume_one`].
    Stands(Standing),
    /// They are in this range, until the next such stop.
    Copied(Range<usize>),
    /// Its thread has ended, and may have no stack any more.
    Gone,
}

/// Stops one mutator, which is not the caller; the others go on. The registry stays locked until
/// [`resume_one`]. Where [`World::stops_one_by_one`].
pub fn stop_one(images: &Images, registry: &mut Registry, mutator: &Mutator) -> One {
    // A blocked one would stand from here on if it wanted to run.
    STANDS_SINCE.store(clock::now_ns(), Relaxed);
    let count = registry.count();
    let copy = root_copy::offered(images, || {
        let epoch = begin_for(address(mutator));
        // Of a thousand that sleep each is found without a look at the others.
        if mutator.activity() != Activity::Blocked {
            stop_those(registry, |other| core::ptr::eq(other, mutator), epoch);
        }
    });
    match copy {
        _ if registry.count() < count => One::Gone,
        Some(words) => One::Copied(words),
        None => One::Stands(Standing(PhantomData)),
    }
}

/// Lets the mutator of [`stop_one`] run again; says since when it stood by the clock, and for how
/// many nanoseconds. Until it answered it was no less free to run than any other thread.
pub fn resume_one(one: One) -> (u64, u64) {
    let since = STANDS_SINCE.load(Relaxed);
    let stood = clock::now_ns().saturating_sub(since);
    end();
    match one {
        One::Stands(_) | One::Gone => (since, stood),
        One::Copied(_) => (since, STOOD_NS.load(Relaxed)),
    }
}

/// Stops those of the mutators that `wanted` chooses which run and have not obeyed this stop in
/// another way: they may come by [`poll`] at once, and are sent a signal if they do not.
fn stop_those(registry: &mut Registry, wanted: impl Fn(&Mutator) -> bool, epoch: u32) {
    let stands = |mutator: &Mutator| {
        mutator.obeyed.load(Acquire) == epoch || mutator.activity() == Activity::Blocked
    };
    let runs = |mutator: &Mutator| wanted(mutator) && !stands(mutator);
    // Who sleeps takes no processor from anybody, and may be one of a thousand.
    let running = registry.iter().filter(|mutator| runs(mutator)).count();
    if running == 0 {
        return;
    }
    let own = usize::from(DRIVER.load(Relaxed) != 0);
    CROWDED.store(running + own > PROCESSORS.load(Relaxed), Relaxed);
    if wait_unsignalled(registry, runs, running, epoch) {
        return;
    }
    // Those that have answered since they were asked, and those that will for the signal.
    let mut wanted_answers = 0;
    for mutator in registry.iter().filter(|mutator| wanted(mutator)) {
        if mutator.obeyed.load(Acquire) == epoch {
            wanted_answers += (mutator.asked.load(Relaxed) == epoch) as u32;
        } else if mutator.activity() != Activity::Blocked {
            match answers::ask(mutator, epoch) {
                Asked::Sent => wanted_answers += 1,
                Asked::Gone => registry.remove(mutator),
                Asked::Unsent => {}
            }
        }
    }
    if !spin_while(SPINS, || answers::given() < wanted_answers) {
        answers::sleep_until(wanted_answers);
    }
    // A signal that an earlier stop left behind may have made a blocked thread answer for another.
    if registry.iter().any(runs) {
        answers::wait_one_by_one(registry, wanted, epoch);
    }
}

/// Asks those mutators, of which so many run, without a signal and waits a moment; says whether
/// they all stand. Where that has failed lately it asks many only: who comes by while others are
/// sent signals needs none.
fn wait_unsignalled(
    registry: &mut Registry,
    runs: impl Fn(&Mutator) -> bool,
    count: usize,
    epoch: u32,
) -> bool {
    // A thread that is stopped alone is met in the middle of its work, and goes on as soon as it
    // has answered.
    if ONLY.load(Relaxed) != 0 {
        return false;
    }
    let may_do = registry.backoff.is_there();
    if !may_do && count <= FEW_THREADS {
        return false;
    }
    let running = || registry.iter().filter(|mutator| runs(mutator));
    running().for_each(|mutator| mutator.asked.store(epoch, Release));
    if !may_do {
        return false;
    }
    // Who was seen to stand, or to be blocked, while the epoch is odd goes on only when the stop
    // is over: each is waited for in turn, and none is looked at again.
    let mut rest = running();
    let mut next = rest.next();
    let stand = spin_while(UNSIGNALLED_SPINS, || {
        while next.is_some_and(|mutator| !runs(mutator)) {
            next = rest.next();
        }
        next.is_some()
    });
    registry.backoff.note(stand);
    stand
}

/// The stop is over, from the moment that is given, by the clock in nanoseconds: whoever obeyed the
/// signal goes on. That is when the last may run; where many have to be woken, waking them is a
/// part of the stop. What the caller then waits for a processor, which those that it woke are
/// using, is none.
pub(super) fn end() -> u64 {
    DRIVER.store(0, Relaxed);
    let is_crowded = CROWDED.swap(false, Relaxed);
    let worked_ns = if is_crowded { clock::own_processor_ns() } else { 0 };
    EPOCH.fetch_add(1, SeqCst);
    let over_ns = clock::now_ns();
    // Who is not counted yet finds the epoch changed and does not sleep.
    if SLEEPERS.load(SeqCst) != 0 {
        futex::wake(&EPOCH, i32::MAX as u32);
    }
    if !is_crowded {
        return over_ns;
    }
    // Some of that work was before the moment read above: the end is not yet to come.
    (over_ns + clock::own_processor_ns().saturating_sub(worked_ns)).min(clock::now_ns())
}

/// In the child of a `fork`, whose only thread is the caller.
pub fn after_fork() {
    let epoch = EPOCH.load(Relaxed);
    EPOCH.store(epoch + epoch % 2, Relaxed);
    DRIVER.store(0, Relaxed);
}

/// The same where that interrupted the library: nobody ends the stop that was under way, if it was
/// not the caller's own.
pub fn after_fork_within() {
    if !current::get().is_some_and(is_driven_by) {
        after_fork();
    }
}
