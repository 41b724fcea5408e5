//! What happened lately: steps of cycles with their times, and cycles that are over, each in a ring
//! that exporters read. The lists themselves are declared in `neap-record`.
//!
//! Invariant: writing takes no lock and waits for nobody, so it may happen with the world stopped;
//! what is read is whole or counted as lost. Written by the threads that drive cycles, while
//! anybody has asked for it; each reader keeps a place of its own. Times are nanoseconds of the
//! monotonic clock.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*, fence};

use neap_record::{Cycle, CycleEvent};

use super::KEPT;
use crate::sys::futex;

/// Rings of so many entries: what comes in the time that a reader sleeps should fit.
const SLOTS: usize = 512;

struct Slot<const WORDS: usize> {
    /// Twice the number of the entry plus 2 when it is complete, odd while it is written.
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Slot<WORDS> {
    const fn empty() -> Self {
        Self { sequence: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] }
    }
}

/// The last entries of `WORDS` words that were written.
pub struct Ring<const WORDS: usize> {
    /// Entries written or being written.
    head: AtomicU64,
    slots: [Slot<WORDS>; SLOTS],
}

/// A reader's place in a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    next: u64,
    /// Entries that were overwritten before they were read.
    pub lost: u64,
}

impl Place {
    /// Before the first entry.
    pub const START: Self = Self { next: 0, lost: 0 };
}

impl<const WORDS: usize> Ring<WORDS> {
    /// An empty one.
    pub const fn new() -> Self {
        Self { head: AtomicU64::new(0), slots: [const { Slot::empty() }; SLOTS] }
    }

    /// Writes an entry over the oldest.
    pub fn push(&self, words: &[u64; WORDS]) {
        let number = self.head.fetch_add(1, AcqRel);
        let slot = &self.slots[number as usize % SLOTS];
        slot.sequence.store(number * 2 + 1, Relaxed);
        fence(Release);
        for (place, word) in slot.words.iter().zip(words) {
            place.store(*word, Relaxed);
        }
        slot.sequence.store(number * 2 + 2, Release);
    }

    /// The next entry behind `place`, which moves on; None when there is none yet.
    pub fn take(&self, place: &mut Place) -> Option<[u64; WORDS]> {
        loop {
            let head = self.head.load(Acquire);
            if place.next >= head {
                return None;
            }
            let oldest = head.saturating_sub(SLOTS as u64);
            if place.next < oldest {
                place.lost += oldest - place.next;
                place.next = oldest;
            }
            let slot = &self.slots[place.next as usize % SLOTS];
            let complete = place.next * 2 + 2;
            let before = slot.sequence.load(Acquire);
            if before < complete {
                // Its writer is not done: it is there next time.
                return None;
            }
            let words = core::array::from_fn(|index| slot.words[index].load(Relaxed));
            fence(Acquire);
            let whole = before == complete && slot.sequence.load(Relaxed) == complete;
            place.next += 1;
            if whole {
                return Some(words);
            }
            place.lost += 1;
        }
    }

    /// The place behind everything that was written.
    pub fn end(&self) -> Place {
        Place { next: self.head.load(Acquire), lost: 0 }
    }
}

impl<const WORDS: usize> Default for Ring<WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Steps: number and time.
pub static STEPS: Ring<2> = Ring::new();
/// Cycles; `ended_ns` is by the monotonic clock.
pub static CYCLES: Ring<{ Cycle::COUNT }> = Ring::new();
/// Counts reasons for a reader to look, which may sleep on it.
pub static WAKES: AtomicU32 = AtomicU32::new(0);
/// When readers were woken last.
static WOKEN_NS: AtomicU64 = AtomicU64::new(0);
/// A reader is woken at most so often, unless the ring fills. Smaller: system calls in programs
/// with many short cycles; larger: fewer cycles whose heap can be looked at.
const WAKE_NS: u64 = 10_000_000;

/// Whether anybody reads the rings. Set before the first cycle or at any time, never cleared.
static WANTED: AtomicBool = AtomicBool::new(false);

/// From now on the rings are written.
pub fn want() {
    WANTED.store(true, Relaxed);
}

/// Whether the rings are written.
#[inline(always)]
pub fn are_wanted() -> bool {
    KEPT && WANTED.load(Relaxed)
}

/// A step was taken now.
pub fn note_step(step: CycleEvent, now_ns: u64) {
    STEPS.push(&[step as u64, now_ns]);
}

/// A cycle is over.
pub fn note_cycle(cycle: &Cycle) {
    CYCLES.push(&cycle.values());
    let last = WOKEN_NS.load(Relaxed);
    // A cycle has eight steps: the smaller ring is a quarter full.
    let fills = cycle.number.is_multiple_of(SLOTS as u64 / 32);
    if fills || cycle.ended_ns >= last + WAKE_NS {
        WOKEN_NS.store(cycle.ended_ns, Relaxed);
        WAKES.fetch_add(1, Release);
        futex::wake(&WAKES, i32::MAX as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_and_lost_ones_are_counted() {
        let ring: Box<Ring<2>> = Box::default();
        let mut place = Place::default();
        assert_eq!(ring.take(&mut place), None);
        ring.push(&[1, 2]);
        ring.push(&[3, 4]);
        assert_eq!(ring.take(&mut place), Some([1, 2]));
        assert_eq!(ring.take(&mut place), Some([3, 4]));
        assert_eq!(ring.take(&mut place), None);
        for entry in 0..SLOTS as u64 + 3 {
            ring.push(&[entry, entry]);
        }
        assert_eq!(ring.take(&mut place), Some([3, 3]));
        assert_eq!(place.lost, 3);
        assert_eq!(core::iter::from_fn(|| ring.take(&mut place)).count(), SLOTS - 1);
        assert_eq!(ring.end().next, SLOTS as u64 + 5);
    }

    #[test]
    fn what_is_read_while_it_is_written_is_whole() {
        let ring: Box<Ring<4>> = Box::default();
        let entries = if cfg!(miri) { 500 } else { 20_000_u64 };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..entries).for_each(|entry| ring.push(&[entry; 4])));
            scope.spawn(|| (0..entries).for_each(|entry| ring.push(&[entry; 4])));
            let (mut place, mut read) = (Place::default(), 0);
            while read + place.lost < entries * 2 {
                if let Some(words) = ring.take(&mut place) {
                    assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
                    read += 1;
                }
            }
        });
    }
}
