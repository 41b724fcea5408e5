//! Running what was found dead: taking calls off batches and making them, on whatever thread that
//! is.
//!
//! Invariant: no lock is held during a call, and what a thread has taken is on record, so that a
//! thread which ends in the middle of a call (pthread_exit) leaves no batch unfinished. The frames
//! between a call and its thread's end own nothing. A thread takes a call and says so in one
//! critical section, and so it finishes: in the child of a fork, which a handler of the program's
//! may make, the two agree. Called by mutators: those of the pool, and threads of the program that
//! ask for it.
//!
//! # Safety
//!
//! Calls functions of the program with the words that they were registered with, once for each
//! registration, and uses a pthread key whose value is a number.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use super::batch::{self, Batch, Call, Filling};
use super::site::Name;
use crate::sync::function::{AtomicFunction, function_at};
use crate::sys::program_call::{self, Lost, guard};
use crate::sys::{futex, print, thread};
use crate::world::mutator::Mutator;
use crate::world::{attach, blocked, current};

/// A thread that runs finalizers. Written by that thread; read by the pool's watch.
pub(crate) struct Runner {
    /// The kernel's id; 0: nobody's.
    pub(crate) thread: AtomicU32,
    /// Calls taken off `batch` that are not counted as over.
    taken: AtomicUsize,
    batch: AtomicUsize,
    /// Counts calls.
    pub(crate) calls: AtomicU64,
    /// The function that runs, or 0.
    pub(crate) function: AtomicUsize,
}

/// Threads on record at once; more run finalizers too, and are not watched.
pub(crate) const RUNNERS: usize = 128;
static ALL: [Runner; RUNNERS] = [const {
    Runner {
        thread: AtomicU32::new(0),
        taken: AtomicUsize::new(0),
        batch: AtomicUsize::new(0),
        calls: AtomicU64::new(0),
        function: AtomicUsize::new(0),
    }
}; RUNNERS];
/// The pthread key whose destructor ends what a thread left behind, plus one.
static KEY: AtomicU32 = AtomicU32::new(0);
/// Counts batches that are over; who waits for that sleeps on it.
static OVER: AtomicU32 = AtomicU32::new(0);
static WAITERS: AtomicU32 = AtomicU32::new(0);
/// How many forks lie between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Messages about exceptions in one process.
const MOST_MESSAGES: u32 = 10;

/// All places for runners.
pub(crate) fn all() -> &'static [Runner] {
    &ALL
}

/// Whether the calling thread is in a finalizer.
pub(crate) fn is_running() -> bool {
    let me = thread::current() as u32;
    ALL.iter().any(|runner| runner.thread.load(Relaxed) == me)
}

fn key() -> Option<u32> {
    if let Some(key) = KEY.load(Acquire).checked_sub(1) {
        return Some(key);
    }
    let mut key = 0;
    // SAFETY: `key` is valid; the destructor has the right type. The key that came second is
    // deleted unused.
    unsafe {
        if libc::pthread_key_create(&mut key, Some(end_of_thread)) != 0 {
            return None;
        }
        match KEY.compare_exchange(0, key + 1, AcqRel, Acquire) {
            Ok(_) => Some(key),
            Err(other) => {
                libc::pthread_key_delete(key);
                Some(other - 1)
            }
        }
    }
}

fn enlist() -> Option<&'static Runner> {
    let me = thread::current() as u32;
    let free = |runner: &&Runner| {
        runner.thread.load(Relaxed) == 0
            && runner.thread.compare_exchange(0, me, AcqRel, Relaxed).is_ok()
    };
    let runner = ALL.iter().find(free)?;
    if !is_worker() {
        mark_thread(VISITOR);
    }
    Some(runner)
}

/// Values of the key.
const VISITOR: usize = 1;
const WORKER: usize = 2;

fn mark_thread(value: usize) {
    if let Some(key) = key() {
        // SAFETY: the key exists; its value is a number.
        unsafe { libc::pthread_setspecific(key, value as *const c_void) };
    }
}

/// Told on a thread of the pool that ends in the middle of a finalizer.
static WORKER_ENDED: AtomicFunction<fn()> = AtomicFunction::none();

/// Says whether the calling thread is one of the pool's, and whom to tell when it ends as one.
pub(crate) fn set_worker(ended: Option<fn()>) {
    if ended.is_some() {
        WORKER_ENDED.set(ended);
    }
    mark_thread(if ended.is_some() { WORKER } else { 0 });
}

/// Whether it is.
pub(crate) fn is_worker() -> bool {
    // SAFETY: the key exists.
    key().is_some_and(|key| unsafe { libc::pthread_getspecific(key) } as usize == WORKER)
}

impl Runner {
    fn leave(&self) {
        self.finish();
        self.thread.store(0, Release);
    }

    /// Counts what was taken as over.
    fn finish(&self) {
        let _unstopped = current::get().map(|mutator| mutator.critical());
        self.function.store(0, Relaxed);
        let taken = self.taken.swap(0, Relaxed);
        let batch = self.batch.swap(0, Relaxed) as *const Batch;
        // SAFETY: 0 or a batch, whose memory is never given back.
        if let Some(batch) = unsafe { batch.as_ref() } {
            finish(batch, taken);
        }
    }
}

unsafe extern "C" fn end_of_thread(value: *mut c_void) {
    let me = thread::current() as u32;
    for runner in ALL.iter().filter(|runner| runner.thread.load(Relaxed) == me) {
        runner.leave();
    }
    if value as usize == WORKER
        && let Some(ended) = WORKER_ENDED.get()
    {
        ended();
    }
}

/// In a critical section, where the thread is a mutator still.
fn finish(batch: &Batch, calls: usize) {
    if batch.finish(calls) {
        OVER.fetch_add(1, SeqCst);
        if WAITERS.load(SeqCst) > 0 {
            futex::wake(&OVER, i32::MAX as u32);
        }
    }
}

/// A batch that has calls to take, of those up to this number. Who is to hear of their objects does
/// so before.
fn batch(last: u64) -> Option<&'static Batch> {
    tell_ready();
    let is_begun =
        |batch: &&Batch| batch.is_begun() && batch.left() > 0 && batch.number.load(Relaxed) <= last;
    let begun = {
        let _unstopped = attach::current().critical();
        batch::begin(last, OBSERVER.is_set())
    };
    begun.or_else(|| batch::all().find(is_begun))
}

/// Told of each object whose finalizer became ready, before it runs; may run any code.
pub type ReadyObserver = unsafe extern "C" fn(object: *mut c_void);

static OBSERVER: AtomicFunction<ReadyObserver> = AtomicFunction::none();

/// Sets who is told from now on, of what becomes ready from now on.
pub fn set_ready_observer(observer: Option<ReadyObserver>) {
    if !OBSERVER.is_set() {
        batch::all().for_each(Batch::tell_no_more);
    }
    OBSERVER.set(observer);
}

/// Tells of what is ready and was not told of, on this thread, with no lock held. An observer that
/// is left by a jump has heard of that object, and hears of the others next time. On a mutator.
pub fn tell_ready() {
    if !OBSERVER.is_set() || batch::waiting() == 0 {
        return;
    }
    // As with a call that is taken: from then on our stack keeps the object alive.
    let take = |batch: &Batch| {
        let _unstopped = attach::current().critical();
        batch.untold()
    };
    for batch in batch::all() {
        while let Some(observer) = OBSERVER.get()
            && let Some(object) = take(batch)
        {
            let (function, words) = (observer as usize, [object, 0, 0, 0]);
            // SAFETY: the program's, for this.
            unsafe { program_call::call("observer of finalizers", Lost::Nothing, function, words) };
        }
    }
}

/// Runs what is ready of the batches up to this number; gives how many ran. An exception is told of
/// and dropped.
pub(crate) fn run_up_to(last: u64) -> usize {
    if batch::waiting() == 0 {
        return 0;
    }
    let runner = enlist();
    let mut count = 0;
    while let Some(batch) = batch(last) {
        count += run_batch(batch, runner);
    }
    if let Some(runner) = runner {
        runner.leave();
    }
    count
}

/// Takes a call off the batch, and has `note` say so.
#[inline]
fn take(mutator: &Mutator, batch: &Batch, mut note: impl FnMut(&Call)) -> Option<Call> {
    let _unstopped = mutator.critical();
    batch.call().inspect(&mut note)
}

fn run_batch(batch: &'static Batch, runner: Option<&Runner>) -> usize {
    let mutator = attach::current();
    let mut count = 0;
    if let Some(runner) = runner {
        runner.batch.store(core::ptr::from_ref(batch) as usize, Relaxed);
    }
    let mut forks = 0;
    while let Some(call) = take(mutator, batch, |call| {
        count += 1;
        forks = FORKS.load(Relaxed);
        if let Some(runner) = runner {
            runner.taken.store(count, Relaxed);
            runner.calls.store(runner.calls.load(Relaxed) + 1, Relaxed);
            runner.function.store(call.function, Relaxed);
        }
    }) {
        let (first, second) = words(&call);
        // SAFETY: the function was registered for these words, and each registration is taken once.
        if unsafe { guard::call(call.function, [first, second, 0, 0]) }.is_none() {
            tell_exception(call.function);
        }
        if runner.is_none() {
            let _unstopped = mutator.critical();
            // Without a record the call was over when the child began.
            if FORKS.load(Relaxed) == forks {
                finish(batch, 1);
            }
        }
    }
    if let Some(runner) = runner {
        runner.finish();
    }
    count
}

/// Runs at most `most` of what is ready; gives how many. Where an exception may pass through,
/// nothing is on record: a call counts as over before it is made.
pub(crate) fn run_passing(most: usize) -> usize {
    let mutator = attach::current();
    let mut count = 0;
    while count < most
        && let Some(batch) = batch(u64::MAX)
    {
        while count < most
            && let Some(call) = take(mutator, batch, |_| finish(batch, 1))
        {
            let (first, second) = words(&call);
            // SAFETY: as in `run_batch`.
            unsafe {
                function_at::<unsafe extern "C" fn(usize, usize)>(call.function)(first, second);
            }
            count += 1;
        }
    }
    count
}

/// A finalizer gets the object and its data, a cleaner its argument.
fn words(call: &Call) -> (usize, usize) {
    if call.object == 0 { (call.data, 0) } else { (call.object, call.data) }
}

#[cold]
fn tell_exception(function: usize) {
    static MESSAGES: AtomicU32 = AtomicU32::new(0);
    if MESSAGES.fetch_add(1, Relaxed) < MOST_MESSAGES {
        print::message(format_args!(
            "an exception left the finalizer {}; it is dropped, and the other finalizers run. \
             Catch it there.",
            Name(function)
        ));
    }
}

/// Batches that are over so far.
pub(crate) fn over() -> u32 {
    OVER.load(SeqCst)
}

/// Sleeps until a batch is over that was not when `seen` was read, for so long at most.
pub(crate) fn wait_for_batch(seen: u32, at_most_ns: u64) {
    WAITERS.fetch_add(1, SeqCst);
    blocked::blocked(attach::current(), || futex::wait(&OVER, seen, Some(at_most_ns)));
    WAITERS.fetch_sub(1, SeqCst);
}

/// In the child of a `fork`, where `me` is the forking thread's former id: what other threads had
/// taken is run by the parent, and is over here.
pub(crate) fn after_fork(me: u32, filling: &Filling) {
    for runner in &ALL {
        if runner.thread.load(Relaxed) == me && me != 0 {
            runner.thread.store(thread::current() as u32, Relaxed);
        } else {
            runner.thread.store(0, Relaxed);
            runner.taken.store(0, Relaxed);
            runner.batch.store(0, Relaxed);
            runner.function.store(0, Relaxed);
        }
    }
    WAITERS.store(0, Relaxed);
    FORKS.fetch_add(1, Relaxed);
    // Several on one thread are nested runs; they work on batches of their own or of one another.
    let own = |batch| {
        let at_it = ALL.iter().filter(|runner| runner.batch.load(Relaxed) == batch);
        at_it.map(|runner| runner.taken.load(Relaxed)).sum()
    };
    batch::after_fork(own, filling);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch that is put twice on the list of free ones would be filled beyond its end.
    #[test]
    fn a_call_without_a_record_that_forks_is_over_once_in_the_child() {
        unsafe extern "C" fn fork(_: usize, _: usize) {
            after_fork(0, &Filling::new());
        }
        ALL.iter().for_each(|runner| runner.thread.store(u32::MAX, Relaxed));
        let mut filling = Filling::new();
        let mut fill = |calls| {
            for data in 1..=calls {
                filling.reserve().unwrap();
                filling.push(Call { function: fork as *const () as usize, object: 0, data });
            }
            filling.publish();
        };
        fill(1);
        assert_eq!((run_up_to(u64::MAX), batch::waiting()), (1, 0));
        fill(2 * batch::CALLS);
        assert_eq!(batch::waiting(), 2 * batch::CALLS);
    }
}
