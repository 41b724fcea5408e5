//! Handles in terms of slots: alloc, get, set, compare-and-set, free, kind. What a thread keeps for
//! that: the segments that it owns.
//!
//! Invariant: a handle is the number of its slot and the generation that the slot had when it was
//! made; every operation compares it first `[refs.inv.generation]`, so a stale or foreign handle
//! gives an error and changes nothing. Nothing takes a lock. Targets are numbers of cells here;
//! `api/handles.rs` makes them objects, and keeps stops away from where a slot is half written.
//! Called from any thread, each with a [`Cache`] of its own.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed as CacheRelaxed};

use super::domain::{DomainId, Freed, Space};
use super::segment::{Class, SLOTS, Segment};
use super::slot::{Kind, Word};
use crate::sync::atomic::Ordering::*;

/// Bits of a handle that say where in its segment the slot lies.
const INDEX_BITS: u32 = 9;
const PLACE_BITS: u32 = 32 + INDEX_BITS;
const _: () = assert!(SLOTS < 1 << INDEX_BITS);

/// What handles are mixed with, so that small numbers and addresses are none.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// A handle. Zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(pub u64);

/// Why an operation on a handle did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleError {
    /// The handle was freed, its domain closed, or it never was one.
    Stale,
    /// There is no memory for another slot.
    NoMemory,
    /// The domain is not open.
    Closed,
    /// The operation is for another kind of handle.
    WrongKind,
}

/// Outcome of a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// It held what was expected, in a slot of this kind, and holds the new target now.
    Set(Kind),
    /// It held this instead; nothing changed.
    Held(u64),
}

impl Handle {
    fn new(segment: &Segment, index: u32, generation: u32) -> Self {
        let place = (segment.number.load(Relaxed) as u64) << INDEX_BITS | index as u64;
        Self(((generation as u64) << PLACE_BITS | place) ^ SALT)
    }

    fn generation(self) -> u32 {
        ((self.0 ^ SALT) >> PLACE_BITS) as u32
    }

    /// Number of its segment, and its place there.
    fn place(self) -> (u32, u32) {
        let plain = self.0 ^ SALT;
        ((plain >> INDEX_BITS) as u32, plain as u32 & ((1 << INDEX_BITS) - 1))
    }
}

/// Segments that a thread owns at once: one for each class of a few domains.
const OWNED: usize = 8;

/// What a thread keeps: the segments that it allocates from, by domain and class. All zero is
/// empty.
#[repr(C)]
pub struct Cache {
    /// Domain number times four plus class, plus one; 0 where nothing is owned. Used by the thread
    /// alone.
    keys: [AtomicUsize; OWNED],
    /// Address of the segment.
    segments: [AtomicUsize; OWNED],
}

impl Cache {
    /// Without a segment.
    #[cfg(any(test, loom))]
    pub const fn new() -> Self {
        Self {
            keys: [const { AtomicUsize::new(0) }; OWNED],
            segments: [const { AtomicUsize::new(0) }; OWNED],
        }
    }

    /// What the thread owns segments as.
    #[inline(always)]
    pub fn owner(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    #[allow(unsafe_code)]
    fn segment(&self, place: usize) -> &'static Segment {
        // SAFETY: set together with its key from a segment, which is never given back.
        unsafe { &*(self.segments[place].load(CacheRelaxed) as *const Segment) }
    }

    /// Gives all segments up: the thread ends.
    pub fn leave_all(&self, space: &Space) {
        for place in 0..OWNED {
            if self.keys[place].swap(0, CacheRelaxed) != 0 {
                space.leave_segment(self.segment(place), self.owner());
            }
        }
    }

    /// A free slot.
    #[inline(always)]
    fn take(&self, space: &Space, domain: u32, class: Class) -> Option<(&'static Segment, u32)> {
        let key = domain as usize * 4 + class as usize + 1;
        let place = key % OWNED;
        if self.keys[place].load(CacheRelaxed) == key {
            let segment = self.segment(place);
            if let Some(index) = segment.take() {
                return Some((segment, index));
            }
        }
        self.take_slowly(space, domain, class)
    }

    #[cold]
    #[allow(unsafe_code)]
    fn take_slowly(
        &self,
        space: &Space,
        domain: u32,
        class: Class,
    ) -> Option<(&'static Segment, u32)> {
        let key = domain as usize * 4 + class as usize + 1;
        let place = key % OWNED;
        if self.keys[place].swap(0, CacheRelaxed) != 0 {
            space.leave_segment(self.segment(place), self.owner());
        }
        loop {
            let segment = space.take_segment(domain, class, self.owner())?;
            if let Some(index) = segment.take() {
                // SAFETY: segments live as long as their space, and a thread's cache is used with
                // one space only, which outlives it.
                let segment = unsafe { &*core::ptr::from_ref(segment) };
                self.segments[place].store(core::ptr::from_ref(segment) as usize, CacheRelaxed);
                self.keys[place].store(key, CacheRelaxed);
                return Some((segment, index));
            }
            // All that was free in it is used up for ever.
            space.leave_segment(segment, self.owner());
        }
    }
}

fn class_of(kind: Kind) -> Option<Class> {
    match kind {
        Kind::Strong | Kind::Pinned => Some(Class::Strong),
        Kind::Weak | Kind::WeakLong => Some(Class::Weak),
        Kind::Ephemeron => Some(Class::Pair),
        Kind::Free | Kind::Value => None,
    }
}

impl Space {
    /// The slot of a handle and what it holds, unless the handle is stale.
    #[inline(always)]
    pub fn look_up(&self, handle: Handle) -> Result<(&Segment, u32, Word), HandleError> {
        let (number, index) = handle.place();
        if index == 0 || index > SLOTS {
            return Err(HandleError::Stale);
        }
        let Some(segment) = self.buckets.get(number) else { return Err(HandleError::Stale) };
        // Acquire: the object was written before the handle.
        let word = Word(segment.slot(index).load(Acquire));
        if word.generation() != handle.generation()
            || matches!(word.kind(), Kind::Free | Kind::Value)
        {
            return Err(HandleError::Stale);
        }
        Ok((segment, index, word))
    }

    /// A new handle. `value` is the second target of an ephemeron.
    #[inline]
    pub fn allocate(
        &self,
        cache: &Cache,
        domain: DomainId,
        kind: Kind,
        target: u64,
        value: u64,
    ) -> Result<Handle, HandleError> {
        let class = class_of(kind).ok_or(HandleError::WrongKind)?;
        if !self.is_open(domain) {
            return Err(HandleError::Closed);
        }
        let (segment, index) =
            cache.take(self, domain.number(), class).ok_or(HandleError::NoMemory)?;
        let generation = Word(segment.slot(index).load(Relaxed)).generation();
        if class == Class::Pair {
            let value = Word::new(Kind::Value, value, generation);
            segment.slot(index + 1).store(value.0, Release);
        }
        let word = Word::new(kind, target, generation);
        if domain == DomainId::DEFAULT {
            segment.slot(index).store(word.0, Release);
        } else {
            segment.slot(index).swap(word.0, SeqCst);
            crate::sync::atomic::fence(SeqCst);
            if !self.is_open(domain) {
                // Closed meanwhile: whoever closes it may have missed the slot.
                self.free(segment, index, word, cache.owner());
                return Err(HandleError::Closed);
            }
        }
        note_strong(segment, kind);
        Ok(Handle::new(segment, index, generation))
    }

    /// Changes the target; gives what the slot held before.
    pub fn set(&self, handle: Handle, target: u64) -> Result<Word, HandleError> {
        loop {
            let (segment, index, word) = self.look_up(handle)?;
            if word.kind() == Kind::Ephemeron {
                return Err(HandleError::WrongKind);
            }
            if replace(segment, index, word, word.with_target(target)) {
                note_strong(segment, word.kind());
                return Ok(word);
            }
        }
    }

    /// Changes the target if it is `expected`.
    pub fn compare_and_set(
        &self,
        handle: Handle,
        expected: u64,
        target: u64,
    ) -> Result<Compared, HandleError> {
        loop {
            let (segment, index, word) = self.look_up(handle)?;
            if word.kind() == Kind::Ephemeron {
                return Err(HandleError::WrongKind);
            }
            if word.target() != expected {
                return Ok(Compared::Held(word.target()));
            }
            if replace(segment, index, word, word.with_target(target)) {
                note_strong(segment, word.kind());
                return Ok(Compared::Set(word.kind()));
            }
        }
    }

    /// Frees the handle; gives what its slot held.
    #[inline]
    pub fn free_handle(&self, cache: &Cache, handle: Handle) -> Result<Freed, HandleError> {
        loop {
            let (segment, index, word) = self.look_up(handle)?;
            if let Some(freed) = self.free(segment, index, word, cache.owner()) {
                return Ok(freed);
            }
        }
    }

    /// Its kind.
    pub fn kind(&self, handle: Handle) -> Result<Kind, HandleError> {
        self.look_up(handle).map(|(_, _, word)| word.kind())
    }
}

/// Replaces a slot's word if it is still `old`.
pub fn replace(segment: &Segment, index: u32, old: Word, new: Word) -> bool {
    segment.slot(index).compare_exchange(old.0, new.0, AcqRel, Relaxed).is_ok()
}

/// A strong slot was written: the cycle has to look at its segment again.
#[inline(always)]
fn note_strong(segment: &Segment, kind: Kind) {
    if kind.is_strong() {
        // Release: who finds it set, clears it and scans sees the slot. Stored even if it is set: a
        // look at it first could be over before the slot's own store is seen.
        segment.dirty.store(1, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn operations_on_each_kind() {
        let (space, cache) = (Space::new(), Cache::new());
        for kind in [Kind::Strong, Kind::Pinned, Kind::Weak, Kind::WeakLong] {
            let handle = space.allocate(&cache, DomainId::DEFAULT, kind, 7, 0).unwrap();
            assert_eq!(space.kind(handle), Ok(kind));
            assert_eq!(space.look_up(handle).unwrap().2.target(), 7);
            assert_eq!(space.set(handle, 8).map(Word::target), Ok(7));
            assert_eq!(space.compare_and_set(handle, 7, 9), Ok(Compared::Held(8)));
            assert_eq!(space.compare_and_set(handle, 8, 9), Ok(Compared::Set(kind)));
            let freed = space.free_handle(&cache, handle).unwrap();
            assert_eq!((freed.word.target(), freed.value), (9, 0));
            assert_eq!(space.free_handle(&cache, handle), Err(HandleError::Stale));
            assert_eq!(space.set(handle, 1), Err(HandleError::Stale));
            assert!(space.kind(handle).is_err());
        }
        cache.leave_all(&space);
    }

    #[test]
    fn foreign_handles_are_known() {
        let (space, cache) = (Space::new(), Cache::new());
        let handle = space.allocate(&cache, DomainId::DEFAULT, Kind::Weak, 7, 0).unwrap();
        for wrong in [0, 1, u64::MAX, handle.0 + 1, handle.0 + 512, handle.0 ^ 1 << 60, 1 << 20] {
            assert_eq!(space.kind(Handle(wrong)), Err(HandleError::Stale), "{wrong:#x}");
        }
    }

    #[test]
    fn a_used_up_slot_is_not_used_again() {
        let (space, cache) = (Space::new(), Cache::new());
        let mut handles = HashSet::new();
        let generations = super::super::slot::LAST_GENERATION as usize + 1;
        let (mut first, mut others) = (0, 0);
        let begin = space.allocate(&cache, DomainId::DEFAULT, Kind::Weak, 1, 0).unwrap();
        space.free_handle(&cache, begin).unwrap();
        for turn in 1..generations + 10 {
            let handle = space.allocate(&cache, DomainId::DEFAULT, Kind::Weak, 1, 0).unwrap();
            if handle.place() == begin.place() {
                first += 1
            } else {
                others += 1
            }
            if turn % 1024 == 0 {
                assert!(handles.insert(handle.0), "given twice");
            }
            space.free_handle(&cache, handle).unwrap();
        }
        assert_eq!((first + 1, others), (generations, 10));
        assert!(space.kind(begin).is_err());
    }

    #[test]
    fn many_handles_in_many_domains_and_closing() {
        let (space, cache) = (Space::new(), Cache::new());
        let domains: Vec<_> = (0..20).map(|_| space.open().unwrap()).collect();
        let mut handles = Vec::new();
        for number in 0..50_000_u64 {
            let domain = domains[number as usize % domains.len()];
            let kind = if number % 3 == 0 { Kind::Weak } else { Kind::Strong };
            handles.push((space.allocate(&cache, domain, kind, number + 1, 0).unwrap(), domain));
        }
        let unique: HashSet<u64> = handles.iter().map(|(handle, _)| handle.0).collect();
        assert_eq!(unique.len(), handles.len());
        assert_eq!(space.close(domains[3], || (), |_| {}), Some(50_000 / 20));
        for (number, (handle, domain)) in handles.iter().enumerate() {
            let found = space.look_up(*handle).map(|(_, _, word)| word.target());
            assert_eq!(found.ok(), (*domain != domains[3]).then_some(number as u64 + 1));
        }
        let closed = space.allocate(&cache, domains[3], Kind::Weak, 1, 0);
        assert_eq!(closed, Err(HandleError::Closed));
        let before = space.buckets.count();
        let again = space.open().unwrap();
        for _ in 0..2500 {
            space.allocate(&cache, again, Kind::Strong, 1, 0).unwrap();
        }
        assert!(space.buckets.count() <= before + 4, "segments of closed domains are used again");
        cache.leave_all(&space);
    }

    #[test]
    fn threads_that_free_each_others_handles_lose_none() {
        let space = Space::new();
        let live = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (space, live) = (&space, &live);
                scope.spawn(move || {
                    let cache = Cache::new();
                    let mut random = thread + 1;
                    for turn in 0..50_000_u64 {
                        random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                        let target = thread << 20 | turn | 1;
                        let kind = if random >> 60 == 0 { Kind::Strong } else { Kind::Weak };
                        let handle =
                            space.allocate(&cache, DomainId::DEFAULT, kind, target, 0).unwrap();
                        let mut live = live.lock().unwrap();
                        live.push((handle, target));
                        if live.len() > 1000 {
                            let chosen = (random >> 33) as usize % live.len();
                            let (handle, target) = live.swap_remove(chosen);
                            drop(live);
                            assert_eq!(space.look_up(handle).unwrap().2.target(), target);
                            space.free_handle(&cache, handle).unwrap();
                        }
                    }
                    cache.leave_all(space);
                });
            }
        });
        let live = live.into_inner().unwrap();
        for (handle, target) in &live {
            assert_eq!(space.look_up(*handle).unwrap().2.target(), *target);
        }
        // Few more than are live at once: what was freed was found again.
        assert!(space.buckets.count() < 40, "{} segments", space.buckets.count());
    }
}
