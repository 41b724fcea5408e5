//! A segment: a page of slots of one class and one domain, with its free list. One thread at a time
//! owns it and allocates from it without atomic read-modify-writes; every other thread gives slots
//! back through a list of its own, which the owner takes as a whole.
//!
//! Invariant `[refs.inv.segment]`: a free slot is in exactly one of the owner's list, the returned
//! list, the part never used, or in the hands of the thread that freed or took it. A segment is
//! owned, or listed as available in its domain, or *full*: then nothing is free in it, and the
//! thread that returns the first slot lists it. Model-checked in `tests/loom_handles.rs`.

use super::slot::{Kind, Word};
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// Slots of a segment: with the header a page. They are numbered from 1.
#[cfg(not(loom))]
pub const SLOTS: u32 = 504;
#[cfg(loom)]
pub const SLOTS: u32 = 2;

/// In `returned`: nothing is free, nobody owns it, and it is not listed.
const FULL: u32 = 1 << 31;

/// What the slots of a segment hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Class {
    /// Strong and pinned handles: roots.
    Strong = 0,
    /// Weak handles, both kinds.
    Weak = 1,
    /// Ephemerons: two slots each, the even-numbered part never taken by itself.
    Pair = 2,
}
/// How many classes there are.
pub const CLASSES: usize = 3;

/// One page. All zero is a segment that nobody has used; memory is never given back while the
/// process lives.
#[repr(C, align(64))]
pub struct Segment {
    /// Who allocates from it, 0 for nobody. Written by the owner, and by who takes it from the list
    /// of available ones.
    pub owner: AtomicUsize,
    /// First slot of the owner's list; read and written by the owner.
    local: AtomicU32,
    /// Slots handed out from the part never used; as `local`.
    used: AtomicU32,
    /// First slot of the returned list, 0 for none, or [`FULL`].
    returned: AtomicU32,
    /// Its domain's number; written once.
    pub domain: AtomicU32,
    /// Its class; written once.
    pub class: AtomicU32,
    /// Its own number; written once.
    pub number: AtomicU32,
    /// The next of its class, plus one; written once.
    pub next_of_class: AtomicU32,
    /// The next of its domain, plus one; written once.
    pub next_of_domain: AtomicU32,
    /// The next available one of its domain, plus one; written by who lists it.
    pub next_available: AtomicU32,
    /// 1 if an owner gave the segment up since a closing of its domain has walked it. Set before
    /// `owner` is cleared; cleared by who closes the domain, where nobody owns the segment.
    pub left: AtomicU32,
    /// 1 if a strong slot was written since the segment was scanned. Set by mutators after the
    /// write, cleared by the cycle before scanning.
    pub dirty: AtomicU32,
    /// The cycle that scanned it as roots last. Written by the cycle.
    pub scanned_in: AtomicU64,
    slots: [AtomicU64; SLOTS as usize],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Segment>() == 4096);

impl Segment {
    /// A segment that nobody has used.
    #[cfg(any(loom, test))]
    pub fn new() -> Self {
        Self {
            owner: AtomicUsize::new(0),
            local: AtomicU32::new(0),
            used: AtomicU32::new(0),
            returned: AtomicU32::new(0),
            domain: AtomicU32::new(0),
            class: AtomicU32::new(0),
            number: AtomicU32::new(0),
            next_of_class: AtomicU32::new(0),
            next_of_domain: AtomicU32::new(0),
            next_available: AtomicU32::new(0),
            left: AtomicU32::new(0),
            dirty: AtomicU32::new(0),
            scanned_in: AtomicU64::new(0),
            slots: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The slot numbered `index`, from 1 to [`SLOTS`].
    #[inline(always)]
    pub fn slot(&self, index: u32) -> &AtomicU64 {
        &self.slots[(index - 1) as usize]
    }

    /// Slots that one allocation takes.
    #[inline(always)]
    fn stride(&self) -> u32 {
        if self.class.load(Relaxed) == Class::Pair as u32 { 2 } else { 1 }
    }

    /// The numbers of the slots that have been in use.
    pub fn used(&self) -> impl Iterator<Item = u32> + use<> {
        (1..=self.used.load(Acquire)).step_by(self.stride() as usize)
    }

    /// A free slot, which is the caller's. Owner only.
    #[inline(always)]
    pub fn take(&self) -> Option<u32> {
        let first = self.local.load(Relaxed);
        if first == 0 {
            return self.take_slowly();
        }
        let word = Word(self.slot(first).load(Relaxed));
        self.local.store(word.target() as u32, Relaxed);
        Some(first)
    }

    #[cold]
    fn take_slowly(&self) -> Option<u32> {
        let (used, stride) = (self.used.load(Relaxed), self.stride());
        if used + stride <= SLOTS {
            // Release: who walks the slots sees them zero or written.
            self.used.store(used + stride, Release);
            return Some(used + 1);
        }
        // Acquire: the links of the returned slots are seen.
        let first = self.returned.swap(0, Acquire);
        if first == 0 {
            return None;
        }
        let word = Word(self.slot(first).load(Relaxed));
        self.local.store(word.target() as u32, Relaxed);
        Some(first)
    }

    /// The owner gives the segment up because nothing is free in it; false if something is again,
    /// and the segment is still the owner's.
    pub fn leave_full(&self, owner: usize) -> bool {
        // Before the segment can be listed, and taken by another. Release: who sees that nobody
        // owns it sees that it was left.
        self.owner.store(0, Release);
        let left = self.returned.compare_exchange(0, FULL, AcqRel, Relaxed).is_ok();
        if !left {
            self.owner.store(owner, Relaxed);
        }
        left
    }

    /// Whether all of its slots are free because nobody has owned it since its domain was closed
    /// before. By who closes the domain: what is found here is walked then.
    pub fn is_untouched(&self) -> bool {
        // Acquire: who sees that it has no owner any more sees that it was left. Who takes it later
        // than this look sees that the domain is closed.
        self.owner.load(Acquire) == 0 && self.left.swap(0, AcqRel) == 0
    }

    /// Whether the owner would find a free slot. Owner only.
    pub fn has_free(&self) -> bool {
        self.local.load(Relaxed) != 0
            || self.used.load(Relaxed) + self.stride() <= SLOTS
            || self.returned.load(Relaxed) != 0
    }

    /// Puts a slot back that the caller made free, its word given. True if the caller has to list
    /// the segment as available.
    #[inline(always)]
    #[must_use]
    pub fn put_back(&self, index: u32, freed: Word, caller: usize) -> bool {
        if self.owner.load(Relaxed) == caller && caller != 0 {
            let word = freed.with_target(self.local.load(Relaxed) as u64);
            self.slot(index).store(word.0, Relaxed);
            self.local.store(index, Relaxed);
            return false;
        }
        self.put_back_from_elsewhere(index, freed)
    }

    #[cold]
    fn put_back_from_elsewhere(&self, index: u32, freed: Word) -> bool {
        let mut first = self.returned.load(Relaxed);
        loop {
            let word = freed.with_target((first & !FULL) as u64);
            self.slot(index).store(word.0, Relaxed);
            // Release: who takes the list sees the link. Acquire: who ends the fullness sees what
            // the last owner did.
            match self.returned.compare_exchange_weak(first, index, AcqRel, Relaxed) {
                Ok(_) => return first & FULL != 0,
                Err(seen) => first = seen,
            }
        }
    }

    /// Makes a slot free if it still holds `word`, and gives what it holds now. The winner has to
    /// [`put_back`](Self::put_back) it, unless it is used up.
    #[inline(always)]
    pub fn make_free(&self, index: u32, word: Word) -> Option<Word> {
        debug_assert!(word.kind() != Kind::Free, "[refs.inv.segment] it is free already");
        let freed = word.freed();
        self.slot(index).compare_exchange(word.0, freed.0, AcqRel, Relaxed).ok().map(|_| freed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Takes a slot and writes a strong word to it.
    fn allocate(segment: &Segment) -> Option<(u32, Word)> {
        let index = segment.take()?;
        let word = Word::new(Kind::Strong, 7, Word(segment.slot(index).load(Relaxed)).generation());
        segment.slot(index).store(word.0, Relaxed);
        Some((index, word))
    }

    #[test]
    fn every_slot_is_given_once_and_again_after_its_return() {
        let segment = Segment::new();
        segment.owner.store(8, Relaxed);
        let taken: Vec<_> = core::iter::from_fn(|| allocate(&segment)).collect();
        assert_eq!(taken.len(), SLOTS as usize);
        assert!(!segment.has_free() && segment.leave_full(8));
        let mut listed = 0;
        for &(index, word) in &taken {
            let freed = segment.make_free(index, word).expect("first to free it");
            assert!(segment.make_free(index, word).is_none(), "freed twice");
            listed += segment.put_back(index, freed, 16) as u32;
        }
        assert_eq!(listed, 1, "listed by the first that came back");
        segment.owner.store(8, Relaxed);
        let mut again: Vec<_> = core::iter::from_fn(|| allocate(&segment)).collect();
        assert!(again.iter().all(|(_, word)| word.generation() == 1));
        again.sort_by_key(|(index, _)| *index);
        again.dedup_by_key(|(index, _)| *index);
        assert_eq!(again.len(), SLOTS as usize);
    }

    #[test]
    fn the_owner_finds_what_it_freed_last() {
        let segment = Segment::new();
        segment.owner.store(8, Relaxed);
        let (first, word) = allocate(&segment).unwrap();
        let freed = segment.make_free(first, word).unwrap();
        assert!(!segment.put_back(first, freed, 8));
        assert_eq!(allocate(&segment).unwrap().0, first);
    }

    #[test]
    fn a_full_segment_with_returns_stays_with_its_owner() {
        let segment = Segment::new();
        segment.owner.store(8, Relaxed);
        let taken: Vec<_> = core::iter::from_fn(|| allocate(&segment)).collect();
        let (index, word) = taken[3];
        let freed = segment.make_free(index, word).unwrap();
        assert!(!segment.put_back(index, freed, 16));
        assert!(!segment.leave_full(8));
        assert_eq!(segment.owner.load(Relaxed), 8);
        assert_eq!(segment.take(), Some(index));
    }

    #[test]
    fn pairs_take_two_slots() {
        let segment = Segment::new();
        segment.class.store(Class::Pair as u32, Relaxed);
        assert_eq!((segment.take(), segment.take()), (Some(1), Some(3)));
        assert_eq!(segment.used().collect::<Vec<_>>(), [1, 3]);
    }
}
