//! Threads of workers: begun through the collector's `pthread_create`, or by the standard library
//! behind its back.
//!
//! Invariant: who begins a thread waits for its end. What a worker leaves over is kept for the last
//! audit.

use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError};

use crate::options;
use crate::shadow::graph::Graph;
use crate::shadow::hidden::pattern;
use crate::shadow::places::empty_slots;
use crate::worker::Worker;
use crate::{ensure, fail};
use neap_core::api::{self, Kind};

/// Graphs of workers that have ended, all of whose objects are dead.
pub static LEFT: Mutex<Vec<Graph>> = Mutex::new(Vec::new());
static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
/// Allocations that were refused.
pub static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// Threads that beget each other at most.
const MOST_DEPTH: u32 = 2;
/// Words of the object that a thread is begun with.
const ARGUMENT_WORDS: usize = 6;

/// What a worker's thread is to do.
#[derive(Clone, Copy)]
pub struct Start {
    number: usize,
    seed: u64,
    operations: u64,
    depth: u32,
    generation: u32,
}

impl Start {
    /// A worker of its own number.
    pub fn new(seed: u64, operations: u64, depth: u32, generation: u32) -> Self {
        Self { number: NEXT_NUMBER.fetch_add(1, Relaxed), seed, operations, depth, generation }
    }
}

/// The life of a worker, on the calling thread.
#[inline(never)]
fn live(start: Start) {
    let slots = empty_slots();
    let mut worker = Worker::new(start.number, start.seed, start.depth, &slots);
    worker.generation = start.generation;
    worker.run(start.operations);
    REFUSED.fetch_add(worker.refused as usize, Relaxed);
    let graph = worker.finish();
    core::hint::black_box(&slots);
    keep(graph, start.generation);
}

/// Keeps what is left of a graph; its links are registered, so it must not be dropped.
fn keep(graph: Graph, generation: u32) {
    if generation == 0 {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(graph);
    } else {
        // In a forked child the list may be locked for ever.
        core::mem::forget(graph);
    }
}

/// A thread that can be waited for.
pub enum Thread {
    /// Of the standard library: attached when it allocates first.
    Lazy(std::thread::JoinHandle<()>),
    /// Of the collector's `pthread_create`.
    Attached(libc::pthread_t),
}

extern "C" fn begin(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `begin_attached` filled the object, and the argument is all that keeps it.
    let words = unsafe { core::slice::from_raw_parts(argument.cast::<usize>(), ARGUMENT_WORDS) };
    for (index, word) in words.iter().enumerate().skip(1) {
        ensure!(
            *word == pattern(options::get().seed, 0, index),
            "stale contents: word {index} of a new thread's argument is {word:#x}"
        );
    }
    // SAFETY: made of a box by `begin_attached`.
    let start = unsafe { Box::from_raw(words[0] as *mut Start) };
    live(*start);
    core::ptr::null_mut()
}

/// Begins a thread through the collector, with an object that nothing but the argument keeps alive.
fn begin_attached(start: Start) -> Option<Thread> {
    let argument = api::allocate(ARGUMENT_WORDS * 8, Kind::Conservative).cast::<usize>();
    if argument.is_null() {
        return None;
    }
    let mut thread = 0;
    // SAFETY: a fresh object of that many words; the function takes what it is given.
    let result = unsafe {
        argument.write(Box::into_raw(Box::new(start)) as usize);
        for index in 1..ARGUMENT_WORDS {
            argument.add(index).write(pattern(options::get().seed, 0, index));
        }
        api::pthread_create(&mut thread, core::ptr::null(), begin, argument.cast())
    };
    // The thread's beginning is an object too, and may be refused like any other.
    let refused = result == libc::EAGAIN && options::get().neap_value("max_heap").is_some();
    ensure!(result == 0 || refused, "pthread_create: error {result}");
    (!refused).then_some(Thread::Attached(thread))
}

/// Begins a worker's thread in one of the two ways.
pub fn begin_worker(start: Start, attached: bool) -> Option<Thread> {
    if attached {
        return begin_attached(start);
    }
    match std::thread::Builder::new().spawn(move || live(start)) {
        Ok(handle) => Some(Thread::Lazy(handle)),
        Err(error) => fail!("cannot begin a thread: {error}"),
    }
}

/// Waits for its end.
pub fn join(thread: Thread) {
    match thread {
        Thread::Lazy(handle) => {
            if handle.join().is_err() {
                fail!("a worker died");
            }
        }
        Thread::Attached(thread) => {
            // SAFETY: a thread that nobody else joins.
            let result = unsafe { libc::pthread_join(thread, core::ptr::null_mut()) };
            ensure!(result == 0, "pthread_join: error {result}");
        }
    }
}

/// A worker begins another one and waits for it.
pub fn beget(worker: &mut Worker) {
    if worker.depth >= MOST_DEPTH {
        return;
    }
    let random = &mut worker.random;
    let start = Start::new(random.u64(..), random.u64(1..400), worker.depth + 1, worker.generation);
    let (attached, blocked) = (random.bool(), random.bool());
    let Some(thread) = begin_worker(start, attached) else { return };
    if !blocked {
        worker.graph_operations(30);
    }
    match blocked {
        true => api::blocked(|| join(thread)),
        false => join(thread),
    }
}
