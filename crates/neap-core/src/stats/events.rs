//! What happened lately: steps of cycles with their times, stops, what else took time, and cycles
//! that are over, each in a ring that exporters read. The lists themselves are declared in
//! `neap-record`.
//!
//! Invariant: writing takes no lock and waits for nobody, so it may happen with the world stopped;
//! what is read is whole or counted as lost. Written by the threads that drive cycles or help,
//! while anybody has asked for it; each reader keeps a place of its own. Times are nanoseconds of
//! the monotonic clock.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*, fence};

use neap_record::{Cycle, CycleEvent, Span};

use super::KEPT;
use crate::sys::futex;

/// Entries of the rings of steps and cycles: what comes in the time that a reader sleeps should
/// fit.
const SLOTS: usize = 512;
/// The same of stops and of what else takes time. Nobody waits for the reader, so what comes before
/// it has got a processor should fit as well: it is woken when a quarter is new, and there are some
/// ten thousand stops or spans in a second at most. Memory of a ring that is not written is not
/// touched.
pub const SPAN_SLOTS: usize = 8192;

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
pub struct Ring<const WORDS: usize, const SLOTS: usize> {
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

impl<const WORDS: usize, const SLOTS: usize> Ring<WORDS, SLOTS> {
    /// An empty one.
    pub const fn new() -> Self {
        Self { head: AtomicU64::new(0), slots: [const { Slot::empty() }; SLOTS] }
    }

    /// Writes an entry over the oldest; gives its number.
    pub fn push(&self, words: &[u64; WORDS]) -> u64 {
        let number = self.head.fetch_add(1, AcqRel);
        let slot = &self.slots[number as usize % SLOTS];
        slot.sequence.store(number * 2 + 1, Relaxed);
        fence(Release);
        for (place, word) in slot.words.iter().zip(words) {
            place.store(*word, Relaxed);
        }
        slot.sequence.store(number * 2 + 2, Release);
        number
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

impl<const WORDS: usize, const SLOTS: usize> Default for Ring<WORDS, SLOTS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Steps: number and time.
pub static STEPS: Ring<2, SLOTS> = Ring::new();
/// Stops.
pub static STOPS: Ring<{ Span::COUNT }, SPAN_SLOTS> = Ring::new();
/// What else took time.
pub static SPANS: Ring<{ Span::COUNT }, SPAN_SLOTS> = Ring::new();
/// Cycles; `ended_ns` is by the monotonic clock.
pub static CYCLES: Ring<{ Cycle::COUNT }, SLOTS> = Ring::new();
/// Counts reasons for a reader to look, which may sleep on it.
pub static WAKES: AtomicU32 = AtomicU32::new(0);
/// When readers were woken last.
static WOKEN_NS: AtomicU64 = AtomicU64::new(0);
/// A reader is woken at most so often, unless the ring fills. Smaller: system calls in programs
/// with many short cycles; larger: fewer cycles whose heap can be looked at.
const WAKE_NS: u64 = 10_000_000;

/// Whether anybody reads the rings. Set before the first cycle or at any time, never cleared.
static WANTED: AtomicBool = AtomicBool::new(false);

/// The process ends. Stops are not counted any more, so that everything that is written then tells
/// of the same ones.
static ENDS: AtomicBool = AtomicBool::new(false);

/// The process ends, or (in the child of a `fork`) begins.
pub fn set_ends(ends: bool) {
    ENDS.store(ends, Relaxed);
}

/// Whether it ends.
pub fn ends() -> bool {
    ENDS.load(Relaxed)
}

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

/// Something took time; `began_ns` is by the monotonic clock. Stops have a ring of their own, which
/// nothing else fills.
pub fn note_span(span: &Span) {
    let ring = if span.kind.is_stop() { &STOPS } else { &SPANS };
    let number = ring.push(&span.values());
    if (number + 1).is_multiple_of(SPAN_SLOTS as u64 / 4) {
        wake();
    }
}

fn wake() {
    WAKES.fetch_add(1, Release);
    futex::wake(&WAKES, i32::MAX as u32);
}

/// A cycle is over.
pub fn note_cycle(cycle: &Cycle) {
    CYCLES.push(&cycle.values());
    let last = WOKEN_NS.load(Relaxed);
    // A cycle has eight steps: the smaller ring is a quarter full.
    let fills = cycle.number.is_multiple_of(SLOTS as u64 / 32);
    if fills || cycle.ended_ns >= last + WAKE_NS {
        WOKEN_NS.store(cycle.ended_ns, Relaxed);
        wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_record::SpanKind;

    #[test]
    fn entries_come_in_order_and_lost_ones_are_counted() {
        let ring: Box<Ring<2, SLOTS>> = Box::default();
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

    /// Who reads is woken long before what it has not read is overwritten.
    #[test]
    #[cfg_attr(miri, ignore = "rustix makes a pointer of an integer to wake")]
    fn readers_are_woken_before_stops_are_lost() {
        let (mut place, woken) = (STOPS.end(), WAKES.load(Relaxed));
        let stop = |began_ns| Span {
            kind: SpanKind::ShortStop,
            thread: 1,
            cycle: 1,
            began_ns,
            length_ns: 1,
        };
        (0..SPAN_SLOTS as u64 / 2).for_each(|number| note_span(&stop(number)));
        assert!(WAKES.load(Relaxed).wrapping_sub(woken) >= 2);
        let read = core::iter::from_fn(|| STOPS.take(&mut place)).count();
        assert_eq!((read, place.lost), (SPAN_SLOTS / 2, 0));
    }

    #[test]
    fn what_is_read_while_it_is_written_is_whole() {
        let ring: Box<Ring<4, SLOTS>> = Box::default();
        let entries = if cfg!(miri) { 500 } else { 20_000_u64 };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..entries).for_each(|entry| _ = ring.push(&[entry; 4])));
            scope.spawn(|| (0..entries).for_each(|entry| _ = ring.push(&[entry; 4])));
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
