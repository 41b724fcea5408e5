//! The marker threads: they sleep between cycles and join the driver's team while its gate is open.
//!
//! Invariant `[cycle.inv.gate]`: a helper works on a team only between passing the open gate and leaving; the driver shuts the gate when marking is done and waits until everybody has left.
//! A helper that wakes too late finds the gate shut and sleeps again, so a late wake-up costs the stop nothing.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::heap::HEAP;
use crate::mark::drain::Marker;
use crate::mark::team::{MOST_MARKERS, Team};
use crate::sys::{futex, map, own_thread, print};

const OPEN: u32 = 1 << 31;
/// The open flag and the number of helpers inside.
static GATE: AtomicU32 = AtomicU32::new(0);
/// Counts cycles that wanted helpers; helpers sleep on it.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// Helper threads that exist.
static HELPERS: AtomicUsize = AtomicUsize::new(0);
/// Address of the team, outside the library's data: its deques hold words that must not be taken for roots.
static TEAM: AtomicUsize = AtomicUsize::new(0);

/// The team; the first call makes it.
pub fn team() -> &'static Team {
    if TEAM.load(Acquire) == 0 {
        let memory = map::allocate(size_of::<Team>().next_multiple_of(crate::addr::PAGE_BYTES))
            .unwrap_or_else(|_| print::fatal(format_args!("no memory for the markers' deques")));
        // SAFETY: fresh memory, large enough and page-aligned.
        unsafe { memory.pointer::<Team>().write(Team::new()) };
        TEAM.store(memory.0, Release);
    }
    // SAFETY: stored once, after it was written; never freed.
    unsafe { &*(TEAM.load(Acquire) as *const Team) }
}

/// Makes sure that so many helpers exist, as far as the system allows; gives how many do. Not while the world is stopped.
pub fn ensure(helpers: usize) -> usize {
    team();
    while HELPERS.load(Relaxed) < helpers.min(MOST_MARKERS - 1) {
        let place = HELPERS.load(Relaxed) + 1;
        if !own_thread::start(help, place as *mut c_void) {
            break;
        }
        HELPERS.store(place, Relaxed);
    }
    HELPERS.load(Relaxed)
}

/// Opens the gate and wakes helpers.
pub fn open() {
    GATE.fetch_or(OPEN, Release);
    CALLS.fetch_add(1, Release);
    futex::wake(&CALLS, u32::MAX >> 1);
}

/// Shuts the gate and waits until every helper has left.
pub fn shut() {
    let mut inside = GATE.fetch_and(!OPEN, AcqRel) & !OPEN;
    while inside != 0 {
        core::hint::spin_loop();
        inside = GATE.load(Acquire);
    }
}

extern "C" fn help(place: *mut c_void) -> *mut c_void {
    let place = place as usize;
    let mut seen = 0;
    let mut marker = Marker::new(team(), &HEAP, place);
    loop {
        futex::wait(&CALLS, seen, None);
        seen = CALLS.load(Acquire);
        let entered = GATE
            .fetch_update(AcqRel, Acquire, |gate| (gate & OPEN != 0).then_some(gate + 1))
            .is_ok();
        if entered {
            if place < team().members() {
                marker.work();
                marker.report();
            }
            GATE.fetch_sub(1, Release);
        }
    }
}

/// In the child of a `fork`: there are no helpers, and whatever the team was doing is over.
pub fn after_fork() {
    HELPERS.store(0, Relaxed);
    GATE.store(0, Relaxed);
    let team = TEAM.load(Acquire) as *mut Team;
    if !team.is_null() {
        // SAFETY: the child has one thread, and it is not marking; what the old value owns stays mapped, since a lock in it may be held for ever.
        unsafe { team.write(Team::new()) };
    }
}
