//! The markers of one cycle: their deques, who is active, what was put aside for the driver,
//! whether a mark stack overflowed.
//!
//! Invariant: a helper works only between [`Markers::begin`] and the moment they are done; the
//! driver (place 0) leaves last. Used by the marker threads and by the thread that drives the
//! cycle.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::*};

use super::aside::Aside;
use super::deque::{Deque, Steal};
use super::deques::Deques;
use super::done::Done;
use super::entry::Entry;
use super::sharing::idle_markers::Idle;
use super::sharing::leftover::Leftover;
use crate::sys::{clock, thread};

/// When a marker leaves the rest to others.
#[derive(Clone, Copy, Debug)]
pub enum Until<'t> {
    /// When all markers are done.
    Done,
    /// At this moment, by the clock in nanoseconds.
    Clock(u64),
    /// When this is not 0: somebody wants its thread.
    Wanted(&'t AtomicU8),
}

impl Until<'_> {
    /// Whether it is over. Looking at the clock takes as long as marking an object.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Done => false,
            Self::Clock(end_ns) => clock::now_ns() >= *end_ns,
            Self::Wanted(by) => by.load(Relaxed) != 0,
        }
    }
}

/// Markers at most.
pub const MOST_MARKERS: usize = 16;

/// What markers share.
pub struct Markers {
    deques: Deques<MOST_MARKERS>,
    /// Markers of this cycle, the driver included.
    members: AtomicUsize,
    /// Markers at it now, the driver included.
    present: AtomicUsize,
    /// Who has work.
    pub done: Done,
    overflowed: AtomicBool,
    /// Whether the world runs while they mark.
    concurrent: AtomicBool,
    /// Objects that only the driver may scan.
    pub aside: Aside,
    /// What markers left whose time was up.
    leftover: Leftover,
    /// Markers that wait for work.
    idle: Idle,
}

/// A marker without work looks for some so often, and yields its processor each time it has looked
/// [`LOOKS_BETWEEN_YIELDS`] times; then it sleeps. Larger: work is found sooner; smaller: less time
/// is taken from the program where there is none.
const MOST_LOOKS: u32 = 512;
const LOOKS_BETWEEN_YIELDS: u32 = 64;

impl Markers {
    /// One marker alone.
    pub fn new() -> Self {
        Self::with(Deques::new())
    }

    /// The same in the child of a `fork`, which has one thread. What the others left in the middle
    /// of a change stays where it is, but for the deques: it may have no memory for new ones.
    pub fn in_child(self) -> Self {
        let Self { deques, aside, leftover, .. } = self;
        core::mem::forget((aside, leftover));
        deques.iter().for_each(Deque::forget);
        Self::with(deques)
    }

    fn with(deques: Deques<MOST_MARKERS>) -> Self {
        Self {
            deques,
            members: AtomicUsize::new(1),
            present: AtomicUsize::new(1),
            done: Done::new(),
            overflowed: AtomicBool::new(false),
            concurrent: AtomicBool::new(false),
            aside: Aside::new(),
            leftover: Leftover::new(),
            idle: Idle::new(),
        }
    }

    /// Says how many markers there are at most, and whether the world runs meanwhile. Nobody is
    /// working.
    pub fn begin(&self, members: usize, concurrent: bool) {
        self.members.store(members.clamp(1, MOST_MARKERS), Relaxed);
        self.present.store(1, Relaxed);
        self.concurrent.store(concurrent, Relaxed);
    }

    /// Whether the program's own trace functions are called now: by the driver, with the world
    /// stopped.
    pub fn runs_functions(&self) -> bool {
        !self.concurrent.load(Relaxed)
    }

    /// The helpers have left: the driver marks alone from here on, the world stopped.
    pub fn alone(&self) {
        self.begin(1, false);
    }

    /// Markers of this cycle.
    pub fn members(&self) -> usize {
        self.members.load(Relaxed)
    }

    /// Whether bits are set by others at the same time: by other markers, or by threads that are
    /// handed marked buffers.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.members.load(Relaxed) > 1 || self.concurrent.load(Relaxed)
    }

    /// A marker besides the driver has come.
    pub fn enter(&self) {
        self.present.fetch_add(1, Relaxed);
    }

    /// It has left.
    pub fn leave(&self) {
        self.present.fetch_sub(1, Relaxed);
    }

    /// Whether a marker has nothing to do while another has work on offer to give.
    #[inline(always)]
    pub fn wants_work(&self) -> bool {
        // The driver that marks for reference processing counts as idle, and is alone.
        let present = self.present.load(Relaxed);
        present > 1 && self.done.active() < present
    }

    /// The deque of a marker.
    pub fn deque(&self, place: usize) -> &Deque {
        &self.deques[place]
    }

    /// The calling marker has no work.
    pub fn become_idle(&self) {
        if self.done.become_idle() {
            self.idle.wake();
        }
    }

    /// The calling marker has put work into its deque.
    pub fn note_shared(&self) {
        self.idle.wake();
    }

    /// Leaves `entries`, all that the calling marker has, to the others; it is idle then. False,
    /// and nothing happened, without memory.
    pub fn leave_work(&self, entries: &[usize]) -> bool {
        let left = self.leftover.leave(entries, &self.done);
        self.idle.wake();
        left
    }

    /// Forgets what was left and what was put aside, when a cycle is given up. Nobody is working.
    pub fn forget_work(&self) {
        self.leftover.forget(&self.done);
        self.aside.forget();
    }

    /// Whether the marker at `place` could find work, or all are done.
    fn has_news(&self, place: usize) -> bool {
        let members = self.members.load(Relaxed);
        let aside = self.runs_functions() && self.aside.has_some();
        (1..members).any(|next| !self.deques[(place + next) % members].is_empty())
            || !self.leftover.is_empty()
            || (place == 0 && aside)
            || (self.done.is_done() && !aside)
    }

    /// Work from any other marker; None when all are done, or it is over for the calling one, which
    /// then does not sleep here either: its thread has other things to wait for. The driver leaves
    /// only when everything put aside is done too. What was left goes to `push`.
    pub fn steal(
        &self,
        place: usize,
        until: Until<'_>,
        mut push: impl FnMut(usize),
    ) -> Option<usize> {
        let members = self.members.load(Relaxed);
        let mut tries = 0_u32;
        loop {
            for next in 1..members {
                let victim = &self.deques[(place + next) % members];
                if victim.is_empty() {
                    continue;
                }
                self.done.become_active();
                loop {
                    match victim.steal() {
                        Steal::Stolen(entry) => return Some(entry),
                        Steal::Lost => core::hint::spin_loop(),
                        Steal::Empty => break,
                    }
                }
                self.become_idle();
            }
            if !self.leftover.is_empty() {
                self.done.become_active();
                let mut first = None;
                self.leftover.take(&self.done, |entry| {
                    if let Some(entry) = first.replace(entry) {
                        push(entry);
                    }
                });
                if first.is_some() {
                    return first;
                }
                self.become_idle();
            }
            if place == 0 && self.runs_functions() && self.aside.has_some() {
                self.done.become_active();
                if let Some(object) = self.aside.take() {
                    return Some(Entry::Rest(object).encode());
                }
                self.become_idle();
            }
            if self.done.is_done() && !(self.runs_functions() && self.aside.has_some()) {
                return None;
            }
            tries += 1;
            if !tries.is_multiple_of(LOOKS_BETWEEN_YIELDS) {
                core::hint::spin_loop();
                continue;
            }
            if until.is_over() {
                return None;
            }
            if tries < MOST_LOOKS {
                thread::yield_now();
            } else if matches!(until, Until::Done) {
                self.idle.sleep(|| self.has_news(place));
            } else {
                return None;
            }
        }
    }

    /// Keeps an object for the driver. Called by an active marker, so they are not done before
    /// the count is seen.
    pub fn put_aside(&self, object: usize) {
        if self.aside.put(object).is_err() {
            self.note_overflow();
        }
        if self.runs_functions() {
            self.idle.wake();
        }
    }

    /// A mark stack got no memory: some grey word was dropped.
    #[cold]
    pub fn note_overflow(&self) {
        self.overflowed.store(true, Relaxed);
    }

    /// Whether a grey word was dropped since this was asked last.
    pub fn take_overflow(&self) -> bool {
        self.overflowed.swap(false, Relaxed)
    }
}

impl Default for Markers {
    fn default() -> Self {
        Self::new()
    }
}
