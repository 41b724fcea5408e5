//! The marker threads: they sleep between cycles and join the driver's team while its gate is open. So do threads of the program that would have to wait for the cycle: guests.
//!
//! Invariant `[cycle.inv.gate]`: a helper works on a team only between passing the open gate and leaving; the driver shuts the gate when marking is done and waits until everybody has left.
//! A helper that wakes too late finds the gate shut and sleeps again, so a late wake-up costs the stop nothing. Helpers have the team's places from 1 on, guests those from the last one down.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use super::gate::{Gate, Seats};
use crate::heap::HEAP;
use crate::mark::drain::Marker;
use crate::mark::team::{MOST_MARKERS, Team};
use crate::sys::own_thread::{self, Sleeper};
use crate::sys::{futex, map, print};

/// Counts cycles that wanted helpers; helpers sleep on it.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// The first helpers. Where there are more, the scheduler has processors enough to choose from.
static SLEEPERS: [Sleeper; 3] = [const { Sleeper::new() }; 3];
/// Helper threads that exist.
static HELPERS: AtomicUsize = AtomicUsize::new(0);
/// Address of the [`Kept`], outside the library's data: it holds words that must not be taken for roots.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// What must be there before the first cycle, in memory of its own.
struct Kept {
    team: Team,
    /// What helpers and guests pass to get to it.
    gate: Gate,
    /// The guests' places.
    seats: Seats<{ GUESTS as u32 }>,
    /// The marker of place 0, with its stack's memory, kept from cycle to cycle: a cycle that a refusal of memory caused has room to mark.
    driver: UnsafeCell<Marker<'static>>,
    /// Markers of guests, made when first needed; each belongs to whoever has its seat.
    guests: [UnsafeCell<Option<Marker<'static>>>; GUESTS],
}

/// Threads of the program that mark at the same time, at most.
const GUESTS: usize = 4;
/// The most helpers and guests that were inside at once since the gate was opened.
static MOST_INSIDE: AtomicU32 = AtomicU32::new(0);

/// Entries of the driver's stack that are there from the beginning.
const KEPT_ENTRIES: usize = 1 << 16;

/// Makes the team and the driver's marker. Called once, at start-up.
pub fn prepare() {
    let memory = map::allocate(size_of::<Kept>().next_multiple_of(crate::addr::PAGE_BYTES));
    let Ok(memory) = memory else {
        print::fatal(format_args!("no memory for the markers' deques"))
    };
    let kept = memory.pointer::<Kept>();
    // SAFETY: fresh memory, large enough and page-aligned; the team stays where it is and is written before the marker that points to it.
    let reserved = unsafe {
        (&raw mut (*kept).team).write(Team::new());
        (&raw mut (*kept).gate).write(Gate::new());
        (&raw mut (*kept).seats).write(Seats::new());
        let mut driver = Marker::new(&(*kept).team, &HEAP, 0);
        let reserved = driver.reserve(KEPT_ENTRIES);
        (&raw mut (*kept).driver).write(UnsafeCell::new(driver));
        (&raw mut (*kept).guests).write([const { UnsafeCell::new(None) }; GUESTS]);
        reserved
    };
    if !reserved {
        print::fatal(format_args!(
            "no memory for the mark stack; raise the limit on address space (ulimit -v)"
        ));
    }
    KEPT.store(memory.0, Release);
}

fn kept() -> &'static Kept {
    // SAFETY: stored once, by `prepare`, after it was written; never freed.
    unsafe { &*(KEPT.load(Acquire) as *const Kept) }
}

/// The team.
pub fn team() -> &'static Team {
    &kept().team
}

/// The marker of place 0.
///
/// # Safety
/// The caller owns the cycle: it drives a stop under the collector's lock, or is the collector's thread while no step is on offer. It keeps no other reference.
pub unsafe fn driver() -> &'static mut Marker<'static> {
    // SAFETY: the caller's promise.
    unsafe { &mut *kept().driver.get() }
}

/// Makes sure that so many helpers exist, as far as the system allows; gives how many do. Not while the world is stopped.
pub fn ensure(helpers: usize) -> usize {
    while HELPERS.load(Relaxed) < helpers.min(MOST_MARKERS - 1 - GUESTS) {
        let place = HELPERS.load(Relaxed) + 1;
        if !own_thread::start(help, place as *mut c_void) {
            break;
        }
        HELPERS.store(place, Relaxed);
    }
    HELPERS.load(Relaxed)
}

/// Helpers that exist.
pub fn existing() -> usize {
    HELPERS.load(Relaxed)
}

/// Opens the gate and wakes helpers.
pub fn open() {
    MOST_INSIDE.store(0, Relaxed);
    kept().gate.open();
    let helpers = HELPERS.load(Relaxed);
    if helpers > 0 {
        SLEEPERS[..helpers.min(SLEEPERS.len())].iter().for_each(Sleeper::keep_off_here);
        CALLS.fetch_add(1, Release);
        futex::wake(&CALLS, u32::MAX >> 1);
    }
}

/// Shuts the gate and waits until every helper has left; says how many were there at once, at most.
pub fn shut() -> usize {
    kept().gate.shut(core::hint::spin_loop);
    MOST_INSIDE.load(Relaxed) as usize
}

/// Follows grey words with whoever comes to help; says how many helpers did at once, at most.
pub fn work(team: &Team, marker: &mut Marker<'_>) -> usize {
    team.done.become_active();
    open();
    marker.work_as_driver();
    shut()
}

/// Passes the gate if it is open.
fn enter() -> bool {
    let inside = kept().gate.enter();
    if let Some(inside) = inside {
        MOST_INSIDE.fetch_max(inside, Relaxed);
        team().enter();
    }
    inside.is_some()
}

fn leave() {
    team().leave();
    kept().gate.leave();
}

extern "C" fn help(place: *mut c_void) -> *mut c_void {
    let place = place as usize;
    let mut seen = 0;
    let mut marker = Marker::new(team(), &HEAP, place);
    let sleeper = SLEEPERS.get(place - 1);
    sleeper.inspect(|sleeper| sleeper.begin());
    loop {
        futex::wait(&CALLS, seen, None);
        sleeper.inspect(|sleeper| sleeper.woken());
        seen = CALLS.load(Acquire);
        if enter() {
            if place < team().members() {
                marker.work();
                marker.report();
            }
            leave();
        }
    }
}

/// Marks with the team until it is done, if it is at work with the world running; false if there was nothing to help with. On a mutator in a critical section: who stops the world waits for it.
pub fn assist() -> bool {
    let Some(seat) = kept().seats.take() else { return false };
    let place = MOST_MARKERS - 1 - seat as usize;
    let entered = enter();
    if entered {
        if place < team().members() {
            // SAFETY: this thread has the seat's bit.
            let guest = unsafe { &mut *kept().guests[seat as usize].get() };
            let marker = guest.get_or_insert_with(|| Marker::new(team(), &HEAP, place));
            marker.work();
            marker.report();
        }
        leave();
    }
    kept().seats.give_back(seat);
    entered
}

/// In the child of a `fork`: there are no helpers, and whatever the team was doing is over.
pub fn after_fork() {
    HELPERS.store(0, Relaxed);
    SLEEPERS.iter().for_each(Sleeper::forget);
    let kept = KEPT.load(Acquire) as *mut Kept;
    if !kept.is_null() {
        // SAFETY: the child has one thread, and it is not marking. What the old team owns stays mapped: a lock in it may be held for ever.
        unsafe {
            (&raw mut (*kept).team).write(Team::new());
            (&raw mut (*kept).gate).write(Gate::new());
            (&raw mut (*kept).seats).write(Seats::new());
            (&raw mut (*kept).guests).write([const { UnsafeCell::new(None) }; GUESTS]);
            driver().forget_work();
        }
    }
}
