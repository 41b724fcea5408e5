//! Processing weak handles: those whose object is not marked become null.
//!
//! Invariant: a slot is changed only from the word that was looked at, so a handle that is freed or
//! set meanwhile keeps what the program gave it; all of this works with the world stopped and with
//! it running. Called by the cycle, one thread: short ones once marking is complete, long ones
//! after finalizers. An expired handle stays its owner's until it is freed.

use super::domain::Space;
use super::handle::replace;
use super::segment::{Class, SLOTS, Segment};
use super::slot::{Kind, Word};
use crate::refs::marking::Marking;
use crate::sync::atomic::Ordering::*;

/// How far ahead an object's header and its mark bits are fetched. Larger: more of them wait in the
/// cache; smaller: marks are waited for.
const HEADERS_AHEAD: usize = 24;
const BITS_AHEAD: usize = 12;

/// What became of the weak handles of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// How many were looked at.
    pub seen: usize,
    /// How many became null.
    pub expired: usize,
}

/// The handles of one segment that have to be looked at.
pub(crate) struct Batch {
    slots: [(u32, Word); SLOTS as usize],
    count: usize,
}

impl Batch {
    /// Without one.
    pub(crate) const fn new() -> Self {
        Self { slots: [(0, Word(0)); SLOTS as usize], count: 0 }
    }

    /// Takes the slots of `kind` of a segment that have a target.
    pub(crate) fn fill(&mut self, segment: &Segment, kind: Kind) {
        self.count = 0;
        for index in segment.used() {
            let word = Word(segment.slot(index).load(Acquire));
            if word.kind() == kind && word.target() != 0 {
                self.slots[self.count] = (index, word);
                self.count += 1;
            }
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds one; there are never more than a segment has.
    pub(crate) fn push(&mut self, index: u32, word: Word) {
        self.slots[self.count] = (index, word);
        self.count += 1;
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Word)> + '_ {
        self.slots[..self.count].iter().copied()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Calls `each` with every one and whether its object is marked. What is asked of memory is
    /// asked ahead.
    pub(crate) fn with_marks<M: Marking>(
        &self,
        marking: &M,
        object: &impl Fn(u64) -> usize,
        mut each: impl FnMut(u32, Word, bool),
    ) {
        let slots = &self.slots[..self.count];
        let address = |place: usize| object(slots[place].1.target());
        for place in 0..slots.len().min(HEADERS_AHEAD) {
            marking.prefetch_header(address(place));
        }
        for place in 0..slots.len().min(BITS_AHEAD) {
            marking.prefetch_marks(address(place));
        }
        for (place, &(index, word)) in slots.iter().enumerate() {
            if place + HEADERS_AHEAD < slots.len() {
                marking.prefetch_header(address(place + HEADERS_AHEAD));
            }
            if place + BITS_AHEAD < slots.len() {
                marking.prefetch_marks(address(place + BITS_AHEAD));
            }
            each(index, word, marking.is_marked(address(place)));
        }
    }
}

/// Makes the handles of `kind` in segments of `class` null whose objects are not marked. `object`
/// gives the object that a target names.
pub(crate) fn expire<M: Marking>(
    space: &Space,
    class: Class,
    kind: Kind,
    marking: &M,
    object: &impl Fn(u64) -> usize,
) -> Expired {
    let mut sum = Expired::default();
    if !space.buckets.has_class(class) {
        return sum;
    }
    let mut batch = Batch::new();
    for segment in space.buckets.of_class(class) {
        batch.fill(segment, kind);
        sum.seen += batch.len();
        batch.with_marks(marking, object, |index, word, marked| {
            if !marked && replace(segment, index, word, word.with_target(0)) {
                sum.expired += 1;
            }
        });
    }
    sum
}

/// Whether a weak handle in segments of `class`, or part of an ephemeron, refers to an object that
/// is not marked. World stopped.
pub(crate) fn any_dies<M: Marking>(
    space: &Space,
    class: Class,
    marking: &M,
    object: &impl Fn(u64) -> usize,
) -> bool {
    let dies = |segment: &Segment, index: u32| {
        let word = Word(segment.slot(index).load(Relaxed));
        let refers = word.kind() != Kind::Free && !word.kind().is_strong() && word.target() != 0;
        refers && !marking.is_marked(object(word.target()))
    };
    space.buckets.of_class(class).any(|segment| {
        segment
            .used()
            .any(|index| dies(segment, index) || class == Class::Pair && dies(segment, index + 1))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::domain::DomainId;
    use super::super::handle::{Cache, Handle};
    use super::*;
    use crate::refs::fake_marking::FakeMarking;

    fn target(space: &Space, handle: Handle) -> u64 {
        space.look_up(handle).unwrap().2.target()
    }

    #[test]
    fn handles_of_unmarked_objects_expire_and_can_be_freed() {
        let (space, cache) = (Space::new(), Cache::new());
        let handles: Vec<_> = (1..=2000)
            .map(|object| {
                let kind = if object % 4 == 0 { Kind::WeakLong } else { Kind::Weak };
                space.allocate(&cache, DomainId::DEFAULT, kind, object, 0).unwrap()
            })
            .collect();
        let mut marking = FakeMarking::new(&[]);
        for object in (1..=2000).filter(|object| object % 3 == 0) {
            marking.mark(object);
        }
        marking.drain();
        let object = |target: u64| target as usize;
        let short = expire(&space, Class::Weak, Kind::Weak, &marking, &object);
        assert_eq!(short, Expired { seen: 1500, expired: 1000 });
        for (number, &handle) in (1..).zip(&handles) {
            let alive = number % 3 == 0 || number % 4 == 0;
            assert_eq!(target(&space, handle), if alive { number } else { 0 });
        }
        marking.mark(4);
        marking.drain();
        let long = expire(&space, Class::Weak, Kind::WeakLong, &marking, &object);
        assert_eq!(long, Expired { seen: 500, expired: 500 - 166 - 1 });
        assert_eq!((target(&space, handles[3]), target(&space, handles[7])), (4, 0));
        for handle in handles {
            space.free_handle(&cache, handle).unwrap();
        }
    }

    #[test]
    fn an_expired_handle_can_be_set_again() {
        let (space, cache) = (Space::new(), Cache::new());
        let handle = space.allocate(&cache, DomainId::DEFAULT, Kind::Weak, 5, 0).unwrap();
        let mut marking = FakeMarking::new(&[]);
        marking.drain();
        expire(&space, Class::Weak, Kind::Weak, &marking, &|target| target as usize);
        assert_eq!(space.set(handle, 6).map(Word::target), Ok(0));
        assert_eq!(target(&space, handle), 6);
    }
}
