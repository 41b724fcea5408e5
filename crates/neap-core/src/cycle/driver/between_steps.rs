//! Where the driver token and the marking mode are between the steps of a cycle.
//!
//! Invariant `[cycle.inv.driver]`: there is one [`CycleState`]. It is at home while no cycle is
//! under way and while a step is on offer; otherwise one thread has it. It is taken and put back
//! under the collector's lock, so who finds the phase idle there finds it at home.
//!
//! # Safety
//! The only two places that make a reference to it: at start-up, and in the child of a `fork`,
//! whose one thread is not the one that may have had it.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::addr::PAGE_BYTES;
use crate::cycle::collector::Collector;
use crate::cycle::modes::Mode;
use crate::cycle::report::record::CycleRecord;
use crate::cycle::token::{Driver, RESERVED_ENTRIES};
use crate::cycle::workers;
use crate::heap::HEAP;
use crate::mark::drain::Marker;
use crate::rank::Rank;
use crate::sync::{Lock, me};
use crate::sys::{map, print};
use crate::world;

/// The driver token and what goes with it.
pub struct CycleState {
    /// The token.
    pub driver: Driver,
    /// How cycles beside the program mark; None where they stop the world.
    pub mode: Option<Mode>,
}

/// At home, or with a thread.
static HOME: Lock<Option<&'static mut CycleState>> = Lock::new(Rank::CycleState, None);
/// The thread that has it, by [`me`]; 0 for none. Written by that thread.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Address of the state; 0 before [`prepare`].
static ADDRESS: AtomicUsize = AtomicUsize::new(0);

/// Makes the workers, the driver token and its marker. Called once, at start-up.
pub fn prepare() {
    let workers = workers::prepare();
    // Outside the library's data: a mark stack holds words that must not be taken for roots.
    let memory = map::allocate(size_of::<CycleState>().next_multiple_of(PAGE_BYTES));
    let mut marker = Marker::new(workers.markers(), &HEAP, 0);
    let (Ok(memory), true) = (memory, marker.reserve(RESERVED_ENTRIES)) else {
        print::fatal(format_args!(
            "no memory for the mark stack; raise the limit on address space (ulimit -v)"
        ));
    };
    let record = CycleRecord::default();
    let driver = Driver {
        heap: &HEAP,
        world: world::the(),
        workers,
        marker,
        record,
        helpers_beside: 0,
        stood_before: None,
    };
    let state = memory.pointer::<CycleState>();
    // SAFETY: fresh memory, large enough and page-aligned, never freed; nobody knows it yet.
    let state = unsafe {
        state.write(CycleState { driver, mode: None });
        &mut *state
    };
    ADDRESS.store(memory.0, Release);
    *HOME.lock() = Some(state);
}

/// The state, if it is at home. `_` is the collector's lock.
pub fn take(_: &mut Collector) -> Option<&'static mut CycleState> {
    let state = HOME.lock().take();
    if state.is_some() {
        OWNER.store(me(), Relaxed);
    }
    state
}

/// Whether the calling thread has it.
pub fn is_mine() -> bool {
    OWNER.load(Relaxed) == me()
}

/// The state, for a cycle that begins now: the phase was idle. `_` is the collector's lock.
pub fn begin(collector: &mut Collector) -> &'static mut CycleState {
    match take(collector) {
        Some(state) => {
            state.driver.world = world::the();
            state
        }
        None => print::fatal(format_args!("[cycle.inv.one] two cycles at once")),
    }
}

/// Ends a [`take`] or a [`begin`]. `_` is the collector's lock.
pub fn put_back(_: &mut Collector, state: &'static mut CycleState) {
    OWNER.store(0, Relaxed);
    *HOME.lock() = Some(state);
}

/// In the child of a `fork`: the state, wherever it was.
pub fn reclaim(collector: &mut Collector) -> Option<&'static mut CycleState> {
    let state = ADDRESS.load(Acquire) as *mut CycleState;
    match take(collector) {
        // SAFETY: 0 or what `prepare` wrote. The thread that had it does not exist here.
        None => unsafe { state.as_mut() },
        home => home,
    }
}
