//! Mark workers: threads that sleep between cycles and join the driver's markers while its gate is
//! open; and threads of the program that mark instead of waiting for the cycle (assists).
//!
//! Invariant `[cycle.inv.gate]`: a worker marks only between passing the open gate and
//! leaving. The driver shuts the gate when marking is done and waits until everybody has left. A
//! worker that wakes too late finds the gate shut and sleeps again, so a late wake-up costs the
//! pause nothing. Helpers have the markers' places from 1 on, assisting threads those from the last
//! one down. The driver's functions are called by who has the driver token.
//!
//! # Safety
//! What workers share is made once, in memory of its own, and never freed. The marker of an
//! assisting thread belongs to whoever has its slot.

#![allow(unsafe_code)]

pub mod gate;

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::addr::PAGE_BYTES;
use crate::cycle::report::record::CYCLES;
use crate::cycle::report::spans::{SpanKind, timed};
use crate::heap::HEAP;
use crate::mark::drain::Marker;
use crate::mark::markers::{MOST_MARKERS, Markers, Until};
use crate::sys::own_thread::{self, Sleeper};
use crate::sys::side_stack::Kept;
use crate::sys::{futex, map, print};
use gate::{Gate, Slots};

/// Threads of the program that mark at the same time, at most.
const MOST_ASSISTS: usize = 4;
/// Helpers that are kept off the driver's processor. Where there are more, the scheduler has
/// processors enough to choose from.
const SLEEPERS: usize = 3;

/// Looks at the gate, some microseconds, before who shuts it sleeps between two of them: who is
/// inside with nothing to do leaves at once, unless it has lost its processor. Larger: more
/// processor time; smaller: more sleep.
const LOOKS: u32 = 500;
const BETWEEN_LOOKS_NS: u64 = 20_000;

/// What workers share. Outside the library's data, since mark stacks hold words that must not be
/// taken for roots.
pub struct Workers {
    markers: Markers,
    /// What helpers and assisting threads pass to get to the markers.
    gate: Gate,
    /// The places of assisting threads.
    slots: Slots<{ MOST_ASSISTS as u32 }>,
    /// Their markers, made when first needed; each belongs to whoever has its slot.
    assisting: [UnsafeCell<Option<Marker<'static>>>; MOST_ASSISTS],
    /// Where they stand if there may be no room on their own; as above.
    stacks: [Kept; MOST_ASSISTS],
    /// Counts cycles that wanted helpers; helpers sleep on it.
    calls: AtomicU32,
    /// The first helpers.
    sleepers: [Sleeper; SLEEPERS],
    /// Helper threads that exist. Written by the driver.
    helpers: AtomicUsize,
    /// The most workers that were inside at once since the gate was opened.
    most_inside: AtomicU32,
    /// What helpers do before they mark. Written by the driver, the gate shut; read inside.
    before: UnsafeCell<Option<&'static Task>>,
}

/// Something that several threads do at once, each with its own marker.
type Task = dyn Fn(&mut Marker<'static>) + Sync;

// SAFETY: a marker in `assisting` is reached only by the thread that has its slot, and `before` is
// written while nobody is inside; everything else is made to be shared.
unsafe impl Sync for Workers {}

/// Address of the process's [`Workers`]; 0 before [`prepare`].
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Makes the process's workers. Called once, at start-up.
pub fn prepare() -> &'static Workers {
    let memory = map::allocate(size_of::<Workers>().next_multiple_of(PAGE_BYTES));
    let Ok(memory) = memory else {
        print::fatal(format_args!("no memory for the markers' deques"))
    };
    let workers = memory.pointer::<Workers>();
    // SAFETY: fresh memory, large enough and page-aligned, and never freed.
    unsafe { workers.write(Workers::with(Markers::new())) };
    WORKERS.store(memory.0, Release);
    of_process()
}

/// The process's workers.
pub fn of_process() -> &'static Workers {
    // SAFETY: stored once, by `prepare`, after it was written; never freed.
    unsafe { &*(WORKERS.load(Acquire) as *const Workers) }
}

impl Workers {
    /// Nobody but a driver.
    fn with(markers: Markers) -> Self {
        Self {
            markers,
            gate: Gate::new(),
            slots: Slots::new(),
            assisting: [const { UnsafeCell::new(None) }; MOST_ASSISTS],
            stacks: [const { Kept::new() }; MOST_ASSISTS],
            calls: AtomicU32::new(0),
            sleepers: [const { Sleeper::new() }; SLEEPERS],
            helpers: AtomicUsize::new(0),
            most_inside: AtomicU32::new(0),
            before: UnsafeCell::new(None),
        }
    }

    /// The markers.
    pub fn markers(&self) -> &Markers {
        &self.markers
    }

    /// Makes sure that so many helpers exist, as far as the system allows; gives how many do. Not
    /// while the world is stopped.
    pub fn ensure(&self, helpers: usize) -> usize {
        while self.existing() < helpers.min(MOST_MARKERS - 1 - MOST_ASSISTS) {
            let place = self.existing() + 1;
            if !own_thread::start(help, place as *mut c_void) {
                break;
            }
            self.helpers.store(place, Relaxed);
        }
        self.existing()
    }

    /// Helpers that exist.
    pub fn existing(&self) -> usize {
        self.helpers.load(Relaxed)
    }

    /// The places that markers may have where so many helpers are wanted: any of those that exist
    /// may be the ones that wake.
    pub fn places_for(&self, helpers: usize) -> usize {
        if helpers == 0 { 1 } else { 1 + self.existing() }
    }

    /// Opens the gate and wakes so many helpers, if there are as many.
    pub fn open(&self, helpers: usize) {
        self.most_inside.store(0, Relaxed);
        self.gate.open();
        let existing = self.existing();
        let helpers = helpers.min(existing);
        if helpers > 0 {
            // Which of them will be woken nobody knows.
            self.sleepers[..existing.min(SLEEPERS)].iter().for_each(Sleeper::keep_off_here);
            self.calls.fetch_add(1, Release);
            futex::wake(&self.calls, helpers as u32);
        }
    }

    /// Shuts the gate and waits until every worker has left; says how many were there at once, at
    /// most.
    pub fn shut(&self) -> usize {
        let mut looks = 0;
        self.gate.shut(|| {
            looks += 1;
            if looks < LOOKS {
                core::hint::spin_loop();
            } else {
                futex::sleep(BETWEEN_LOOKS_NS);
            }
        });
        self.most_inside.load(Relaxed) as usize
    }

    /// Follows grey words with so many helpers and whoever else comes to help; says how many did at
    /// once, at most.
    pub fn work(&self, marker: &mut Marker<'_>, helpers: usize) -> usize {
        self.markers.done.become_active();
        self.open(helpers);
        marker.work_as_driver();
        self.shut()
    }

    /// The same with the world stopped; each does what it is told `before`.
    pub fn work_after(
        &self,
        marker: &mut Marker<'static>,
        helpers: usize,
        before: &(dyn Fn(&mut Marker<'static>) + Sync + '_),
    ) {
        // SAFETY: the same but for how long it lives; helpers use it inside the gate only, and all
        // of them have left when this returns.
        let task: &'static Task = unsafe { core::mem::transmute(before) };
        // SAFETY: the gate is shut.
        unsafe { *self.before.get() = Some(task) };
        self.markers.done.become_active();
        self.open(helpers);
        before(marker);
        marker.work_as_driver();
        self.shut();
        // SAFETY: the gate is shut.
        unsafe { *self.before.get() = None };
    }

    /// What a helper does inside the gate.
    fn help(&self, marker: &mut Marker<'static>) {
        self.markers.done.become_active();
        // SAFETY: it is written while nobody is inside.
        if let Some(task) = unsafe { *self.before.get() } {
            task(marker);
        }
        marker.work_as_driver();
    }

    /// Passes the gate if it is open.
    fn enter(&self) -> bool {
        let inside = self.gate.enter();
        if let Some(inside) = inside {
            self.most_inside.fetch_max(inside, Relaxed);
            self.markers.enter();
        }
        inside.is_some()
    }

    fn leave(&self) {
        self.markers.leave();
        self.gate.leave();
    }

    /// Marks with the markers until they are done, or it is over for the calling one, if they are
    /// at work with the world running; false if there is nothing to help with. On a mutator in a
    /// critical section: who stops the world waits for it. `aside`: it may stand on a small stack.
    pub fn assist(&'static self, until: Until<'static>, aside: bool) -> bool {
        let Some(slot) = self.slots.take() else { return false };
        let place = MOST_MARKERS - 1 - slot as usize;
        let mut helped = self.enter();
        if helped {
            if place < self.markers.members() {
                let mark = || {
                    // SAFETY: this thread has the slot.
                    let assisting = unsafe { &mut *self.assisting[slot as usize].get() };
                    let new = || Marker::new(&self.markers, &HEAP, place);
                    let marker = assisting.get_or_insert_with(new);
                    let span = timed(SpanKind::Assist);
                    let helped = marker.work_until(until);
                    marker.report();
                    span.over_on_program(CYCLES.load(Relaxed) + 1);
                    helped
                };
                helped = match aside {
                    true => self.stacks[slot as usize].on(mark).unwrap_or(false),
                    false => mark(),
                };
            }
            self.leave();
        }
        self.slots.give_back(slot);
        helped
    }
}

extern "C" fn help(place: *mut c_void) -> *mut c_void {
    let (workers, place) = (of_process(), place as usize);
    let mut seen = 0;
    let mut marker = Marker::new(&workers.markers, &HEAP, place);
    let sleeper = workers.sleepers.get(place - 1);
    sleeper.inspect(|sleeper| sleeper.begin());
    loop {
        futex::wait(&workers.calls, seen, None);
        sleeper.inspect(|sleeper| sleeper.woken());
        seen = workers.calls.load(Acquire);
        if workers.enter() {
            if place < workers.markers.members() {
                let span = timed(SpanKind::Help);
                workers.help(&mut marker);
                marker.report();
                span.over(CYCLES.load(Relaxed) + 1);
            }
            workers.leave();
        }
    }
}

/// In the child of a `fork`: there are no helpers, and whatever they were doing is over.
pub fn after_fork() {
    let workers = WORKERS.load(Acquire) as *mut Workers;
    if !workers.is_null() {
        // SAFETY: the child has one thread, and it is not marking. What they owned stays
        // mapped: a lock in it may be held for ever.
        unsafe {
            let markers = (&raw const (*workers).markers).read().in_child();
            workers.write(Workers::with(markers));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_assists_while_the_gate_is_shut() {
        let workers = prepare();
        assert!(!workers.assist(Until::Clock(u64::MAX), true));
        workers.markers().begin(MOST_MARKERS, true);
        workers.open(0);
        for aside in [false, true] {
            let helped = workers.assist(Until::Clock(u64::MAX), aside);
            assert!(helped, "the gate is open, and there is nothing to do");
        }
        assert_eq!(workers.shut(), 1);
        assert!(!workers.assist(Until::Clock(u64::MAX), false));
    }

    /// Opens the gate to so many helpers while there is work that nobody shares; says how many came
    /// at once.
    fn come(workers: &Workers, helpers: usize) -> usize {
        workers.markers.done.become_active();
        workers.open(helpers);
        std::thread::sleep(std::time::Duration::from_millis(50));
        workers.markers.done.become_idle();
        workers.shut()
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn no_more_helpers_come_than_are_wanted() {
        let workers = prepare();
        assert_eq!(workers.ensure(3), 3);
        workers.markers().begin(MOST_MARKERS, true);
        // Who was started comes by for the first time.
        assert_eq!(come(workers, 3), 3);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!([come(workers, 0), come(workers, 1)], [0, 1]);
    }
}
