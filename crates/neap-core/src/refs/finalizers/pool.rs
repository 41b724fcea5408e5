//! The threads that run finalizers for the program, and what keeps the backlog bounded.
//!
//! Invariant `[refs.inv.backlog]`: while more calls wait than the limit says, a thread that
//! registers waits until some have run; it does not if it runs finalizers itself, and no longer
//! than a moment if nothing moves, for the finalizers may be waiting for it. The threads are
//! mutators. One more, which is none, starts them, starts others where one is stuck, and tells of
//! that. Started by the first registration; again by the first one of a forked child.

use crate::sys::clock::Instant;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use core::time::Duration;

use super::site::Name;
use super::{batch, runner};
use crate::options::FinalizerThreads;
use crate::sys::{futex, own_thread, print, signal, thread};
use crate::world::{attach, blocked, stop_signal};

/// Calls that may wait before who registers is slowed down; 0 asks for the pool to be started,
/// `usize::MAX` is without a pool.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// What the option says.
static BACKLOG: AtomicUsize = AtomicUsize::new(1 << 20);
/// Threads that run finalizers, as the option says.
static WANTED: AtomicUsize = AtomicUsize::new(1);
/// Whether the library runs finalizers by itself.
static ON: AtomicBool = AtomicBool::new(false);
/// Threads that exist.
static WORKERS: AtomicUsize = AtomicUsize::new(0);
/// Changes when there is work; idle threads sleep on it.
static WORK: AtomicU32 = AtomicU32::new(0);
static IDLE: AtomicU32 = AtomicU32::new(0);
/// Whether the watch exists.
static WATCHING: AtomicBool = AtomicBool::new(false);
/// The watch sleeps until it is needed.
static WATCH_SLEEPS: AtomicU32 = AtomicU32::new(0);
/// A registration waited in vain: the next ones wait for a moment only.
static STALLED: AtomicBool = AtomicBool::new(false);

/// Threads at most where the user leaves the number to us. More: a faster finalization on many
/// processors; fewer: a smaller program.
const MOST_BY_ITSELF: usize = 8;
/// More threads than wanted that stuck finalizers may lead to.
const MOST_EXTRA: usize = 32;
/// How often the watch looks while something runs.
const LOOK: Duration = Duration::from_millis(100);
/// After this long in one finalizer another thread does its thread's work.
const SLOW: Duration = Duration::from_millis(300);
/// After this long a finalizer is told of.
const STUCK: Duration = Duration::from_secs(10);
/// How long a registration waits while nothing moves.
const BACKOFF: Duration = Duration::from_secs(1);
/// An idle thread beyond those wanted ends after this long.
const LINGER_NS: u64 = 1_000_000_000;

/// Takes the options over. A choice of `manual` that was not there before switches the threads off.
pub(crate) fn configure(threads: FinalizerThreads, backlog: usize) {
    static MANUAL: AtomicBool = AtomicBool::new(false);
    let wanted = match threads {
        FinalizerThreads::Auto => (thread::processors() / 2).clamp(1, MOST_BY_ITSELF),
        FinalizerThreads::Manual => 1,
        FinalizerThreads::Count(count) => count as usize,
    };
    WANTED.store(wanted, Relaxed);
    BACKLOG.store(backlog.max(1), Relaxed);
    let limit = LIMIT.load(Relaxed);
    if limit != 0 && limit != usize::MAX {
        LIMIT.store(backlog.max(1), Relaxed);
    }
    let manual = threads == FinalizerThreads::Manual;
    if MANUAL.swap(manual, Relaxed) != manual && manual {
        set_automatic(false);
    }
}

/// Whether the library runs finalizers on threads of its own from now on.
pub fn set_automatic(on: bool) {
    ON.store(on, SeqCst);
    LIMIT.store(if on { 0 } else { usize::MAX }, SeqCst);
    if on {
        start_if_needed();
    }
}

/// Starts what runs finalizers if some wait and nobody does, as in a forked child. On a thread of
/// the program, outside critical sections.
pub fn start_if_needed() {
    if ON.load(Relaxed) && batch::waiting() > 0 {
        start();
        wake();
    }
}

/// Whether it does.
pub fn is_automatic() -> bool {
    ON.load(Relaxed)
}

/// Before an object is given a finalizer or cleaner, outside critical sections.
#[inline]
pub(crate) fn before_registration() {
    if batch::waiting() >= LIMIT.load(Relaxed) {
        start_or_wait();
    }
}

#[cold]
fn start_or_wait() {
    start();
    let limit = LIMIT.load(Relaxed);
    if batch::waiting() < limit || runner::is_running() {
        return;
    }
    let mut moved = Instant::now();
    let mut seen = runner::over();
    while batch::waiting() >= limit && ON.load(Relaxed) {
        runner::wait_for_batch(seen, 10_000_000);
        if runner::over() != seen {
            seen = runner::over();
            moved = Instant::now();
            STALLED.store(false, Relaxed);
        } else if STALLED.load(Relaxed) || moved.elapsed() > BACKOFF {
            STALLED.store(true, Relaxed);
            return;
        }
    }
}

/// Starts the watch, which starts the others. On a thread of the program, outside critical
/// sections.
pub(crate) fn start() {
    if !ON.load(SeqCst) {
        return;
    }
    LIMIT.store(BACKLOG.load(Relaxed), Relaxed);
    if !WATCHING.swap(true, AcqRel) && !own_thread::start(watch, core::ptr::null_mut()) {
        WATCHING.store(false, Release);
    }
}

/// Batches were published. Also with the world stopped.
pub(crate) fn wake() {
    if !ON.load(Relaxed) || batch::waiting() == 0 {
        return;
    }
    WORK.fetch_add(1, SeqCst);
    if IDLE.load(SeqCst) > 0 {
        futex::wake(&WORK, i32::MAX as u32);
    }
    if WATCH_SLEEPS.swap(0, SeqCst) == 1 {
        futex::wake(&WATCH_SLEEPS, 1);
    }
}

/// A thread of the pool has ended in the middle of a finalizer. On that thread.
fn worker_ended() {
    WORKERS.fetch_sub(1, SeqCst);
    print::message(format_args!(
        "a finalizer ended its thread (pthread_exit or cancellation); the others go on on another \
         one"
    ));
    wake();
}

extern "C" fn work(_: *mut c_void) -> *mut c_void {
    attach::at_beginning();
    let mutator = attach::current();
    signal::unblock_for_program(stop_signal::number());
    runner::set_worker(Some(worker_ended));
    loop {
        let seen = WORK.load(SeqCst);
        if ON.load(Relaxed) && runner::run_up_to(u64::MAX) > 0 {
            // Nothing that this thread held is to keep an object while it idles.
            thread::clear_stack_below::<4096>();
            continue;
        }
        let one_less = |workers: usize| (workers > WANTED.load(Relaxed)).then(|| workers - 1);
        let linger_ns = (WORKERS.load(Relaxed) > WANTED.load(Relaxed)).then_some(LINGER_NS);
        IDLE.fetch_add(1, SeqCst);
        let woken = blocked::blocked(mutator, || futex::wait(&WORK, seen, linger_ns));
        IDLE.fetch_sub(1, SeqCst);
        if !woken && WORKERS.fetch_update(SeqCst, SeqCst, one_less).is_ok() {
            runner::set_worker(None);
            return core::ptr::null_mut();
        }
    }
}

/// What the watch saw of a runner.
#[derive(Clone, Copy)]
struct Sight {
    calls: u64,
    since: Instant,
    told: bool,
}

extern "C" fn watch(_: *mut c_void) -> *mut c_void {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    let mut sights = [Sight { calls: 0, since: Instant::now(), told: false }; runner::RUNNERS];
    loop {
        WATCH_SLEEPS.store(1, SeqCst);
        if (batch::waiting() == 0 || !ON.load(Relaxed)) && !is_anything_running() {
            futex::wait(&WATCH_SLEEPS, 1, None);
        }
        WATCH_SLEEPS.store(0, SeqCst);
        let slow = look(&mut sights, Instant::now());
        let wanted = WANTED.load(Relaxed) + slow.min(MOST_EXTRA);
        while ON.load(Relaxed) && batch::is_any_left() && WORKERS.load(SeqCst) < wanted {
            WORKERS.fetch_add(1, SeqCst);
            if !own_thread::start_for_program(work, core::ptr::null_mut()) {
                WORKERS.fetch_sub(1, SeqCst);
                break;
            }
        }
        futex::wait(&NEVER, 0, Some(LOOK.as_nanos() as u64));
    }
}

fn is_anything_running() -> bool {
    runner::all().iter().any(|runner| runner.function.load(SeqCst) != 0)
}

/// Looks at who runs finalizers; tells of the stuck ones, and gives how many are slow.
fn look(sights: &mut [Sight; runner::RUNNERS], now: Instant) -> usize {
    let mut slow = 0;
    for (runner, sight) in runner::all().iter().zip(sights) {
        let (function, calls) = (runner.function.load(Relaxed), runner.calls.load(Relaxed));
        if function == 0 || calls != sight.calls {
            *sight = Sight { calls, since: now, told: false };
            continue;
        }
        let lasted = now.saturating_duration_since(sight.since);
        slow += (lasted >= SLOW) as usize;
        if lasted >= STUCK && !sight.told {
            sight.told = true;
            print::message(format_args!(
                "the finalizer {} has been running for {} s, in thread {}; the others go on \
                 without that thread",
                Name(function),
                lasted.as_secs(),
                runner.thread.load(Relaxed)
            ));
        }
    }
    slow
}

/// In the child of a `fork`: there are no threads; the next registration or cycle starts them anew.
pub(crate) fn after_fork() {
    WORKERS.store(runner::is_worker() as usize, Relaxed);
    IDLE.store(0, Relaxed);
    WATCHING.store(false, Relaxed);
    WATCH_SLEEPS.store(0, Relaxed);
    LIMIT.store(if ON.load(Relaxed) { 0 } else { usize::MAX }, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_and_stuck_ones_are_told_apart_from_busy_ones() {
        let start = Instant::now();
        let mut sights = [Sight { calls: 0, since: start, told: false }; runner::RUNNERS];
        // The last place: other tests' threads take the first free one.
        let runner = &runner::all()[runner::RUNNERS - 1];
        runner.function.store(1, Relaxed);
        let place = |sights: &[Sight]| sights[runner::RUNNERS - 1];
        for tick in 1..=200 {
            runner.calls.store(tick, Relaxed);
            look(&mut sights, start + LOOK * tick as u32);
            assert!(!place(&sights).told);
        }
        let later = start + LOOK * 200;
        assert!(look(&mut sights, later + SLOW) >= 1);
        assert!(!place(&sights).told);
        look(&mut sights, later + STUCK);
        assert!(place(&sights).told);
        runner.function.store(0, Relaxed);
        look(&mut sights, later + STUCK * 2);
        assert!(!place(&sights).told);
    }
}
