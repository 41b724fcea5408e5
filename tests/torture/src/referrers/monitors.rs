//! Monitors: of a worker's own objects, which stay alive while it is in them, and of a few that all
//! workers meet in.
//!
//! Invariant: a worker is in the monitors of its graph's `held` nodes, so often as it says there,
//! and in no other between operations. Who is in one of the common monitors alone counts in it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ensure;
use crate::referrers::handles;
use crate::shadow::graph::Graph;
use crate::worker::Worker;
use neap_core::api::handles::{DomainId, Handle, HandleKind};
use neap_core::api::monitors::{self, MonitorError};
use neap_core::api::{self, Kind};

/// Own objects that a worker is in at once, at most.
const MOST_HELD: usize = 6;
const COMMON: usize = 4;
/// Words of a common object: what is counted twice, by who is in its monitor.
const COMMON_BYTES: usize = 16;

/// Strong handles to the common objects; made before there are several threads.
static OBJECTS: [AtomicU64; COMMON] = [const { AtomicU64::new(0) }; COMMON];

/// Makes the common objects.
pub fn initialize() {
    for place in &OBJECTS {
        let object = api::allocate(COMMON_BYTES, Kind::Conservative);
        ensure!(!object.is_null(), "no memory for the first objects");
        let handle = handles::allocate(DomainId::DEFAULT, HandleKind::Strong, object as usize);
        place.store(handle.0, Relaxed);
    }
}

fn common(number: usize) -> *const core::ffi::c_void {
    handles::get(Handle(OBJECTS[number].load(Relaxed))) as *const _
}

/// One operation on some monitor.
pub fn something(worker: &mut Worker) {
    match worker.random.u32(0..3) {
        0 => on_common(worker),
        1 => enter_own(&mut worker.graph, &mut worker.random),
        _ => on_held(&mut worker.graph, &mut worker.random),
    }
}

/// Enters the monitor of an object of the worker's own.
fn enter_own(graph: &mut Graph, random: &mut fastrand::Rng) {
    if graph.held.len() >= MOST_HELD {
        return;
    }
    let Some((_, index)) = graph.walk(random) else { return };
    let object = graph.node(index).address.reveal() as *const _;
    let timeout = [None, Some(0), Some(1000)][random.usize(0..3)];
    let entered = monitors::enter(object, timeout);
    ensure!(
        entered == Ok(true),
        "nobody else enters {}: {entered:?}",
        graph.node(index).describe()
    );
    match graph.held.iter_mut().find(|held| held.0 == index) {
        Some(held) => held.1 += 1,
        None => graph.held.push((index, 1)),
    }
}

/// Something in a monitor that the worker is in.
fn on_held(graph: &mut Graph, random: &mut fastrand::Rng) {
    if graph.held.is_empty() {
        return;
    }
    let place = random.usize(0..graph.held.len());
    let index = graph.held[place].0;
    graph.check(index, false, random);
    let object = graph.node(index).address.reveal() as *const _;
    match random.u32(0..5) {
        0 => {
            let waited = monitors::wait(object, Some(random.u64(0..200_000)));
            ensure!(waited.is_ok(), "wait: {waited:?}");
        }
        1 => {
            let told = monitors::notify(object, random.bool());
            ensure!(told == Ok(()), "notify: {told:?}");
        }
        _ => leave(graph, place),
    }
}

/// Leaves a monitor once.
fn leave(graph: &mut Graph, place: usize) {
    let (index, depth) = graph.held[place];
    let object = graph.node(index).address.reveal() as *const _;
    let left = monitors::exit(object);
    ensure!(left == Ok(()), "exit from {}: {left:?}", graph.node(index).describe());
    if depth > 1 {
        graph.held[place].1 -= 1;
        return;
    }
    graph.held.swap_remove(place);
    let again = monitors::exit(object);
    ensure!(again == Err(MonitorError::NotOwner), "left once more than entered: {again:?}");
}

/// Leaves all that the calling thread is in.
pub fn leave_all(graph: &mut Graph) {
    while !graph.held.is_empty() {
        leave(graph, 0);
    }
}

/// Enters a monitor that others enter too, and counts in it.
fn on_common(worker: &mut Worker) {
    let object = common(worker.random.usize(0..COMMON));
    let timeout = [None, Some(0), Some(worker.random.u64(1..300_000))][worker.random.usize(0..3)];
    let entered = monitors::enter(object, timeout);
    ensure!(entered == Ok(true) || entered == Ok(false) && timeout.is_some(), "enter: {entered:?}");
    if entered == Ok(false) {
        return;
    }
    count(worker, object);
    match worker.random.u32(0..8) {
        0 => {
            let waited = monitors::wait(object, Some(worker.random.u64(0..300_000)));
            ensure!(waited.is_ok(), "wait: {waited:?}");
            count(worker, object);
        }
        1 | 2 => {
            let told = monitors::notify(object, worker.random.bool());
            ensure!(told == Ok(()), "notify: {told:?}");
        }
        _ => {}
    }
    let left = monitors::exit(object);
    ensure!(left == Ok(()), "exit: {left:?}");
}

/// Counts, and fails if another thread does meanwhile.
fn count(worker: &mut Worker, object: *const core::ffi::c_void) {
    // SAFETY: the object has two words, and this thread is in its monitor.
    let words = unsafe { &*object.cast::<[AtomicU64; 2]>() };
    let before = words[0].load(Relaxed);
    ensure!(words[1].load(Relaxed) == before, "two threads are in one monitor");
    words[0].store(before + 1, Relaxed);
    match worker.random.u32(0..20) {
        0 => worker.pause(),
        1 => worker.graph_operations(2),
        _ => {}
    }
    ensure!(words[0].load(Relaxed) == before + 1, "two threads are in one monitor");
    words[1].store(before + 1, Relaxed);
}

/// In a forked child: nobody is in the common monitors, whoever was in the parent.
pub fn in_child() {
    for object in (0..COMMON).map(common) {
        let entered = monitors::enter(object, Some(0));
        ensure!(entered == Ok(true), "in a child somebody is in a monitor: {entered:?}");
        // SAFETY: as in `count`; a thread of the parent may have been between its two words.
        let words = unsafe { &*object.cast::<[AtomicU64; 2]>() };
        words[1].store(words[0].load(Relaxed), Relaxed);
        let left = monitors::exit(object);
        ensure!(left == Ok(()), "exit: {left:?}");
    }
}
