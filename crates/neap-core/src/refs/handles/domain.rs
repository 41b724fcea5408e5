//! Domains: every segment of slots belongs to one, so closing a domain finds all its handles,
//! expired ones too, without looking at any other's.
//!
//! Invariant `[refs.inv.domain]`: a domain's epoch is even while it is open. Who allocates in it
//! writes the slot and then reads the epoch; who closes it advances the epoch and then reads the
//! slots, both sequentially consistent: so a handle that is made meanwhile is freed by one of the
//! two. A closed domain keeps its segments, all free, for the next one that is created in its
//! place. Of these a closing skips those that nobody has owned since: a segment is left before it
//! has no owner, and who owns it says so before it writes a slot and reads the epoch. No lock
//! anywhere; model-checked in `tests/loom_handles.rs`. Called from any thread.
//!
//! # Safety
//!
//! Reads entries of a table that was published before the count grew, has room for every number
//! below it, and is never given back.

#![allow(unsafe_code)]

use core::ptr::null_mut;

use super::buckets::Buckets;
use super::segment::{CLASSES, Class, Segment};
use super::slot::{Kind, Word};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

/// Domains besides the default one that can be open at once. A record is a cache line of address
/// space, and of memory once it was used.
#[cfg(not(loom))]
const MOST: u32 = 1 << 16;
#[cfg(loom)]
const MOST: u32 = 1;

/// A domain, for as long as it is open: number of its record and its epoch. Zero is the default
/// domain, which is never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct DomainId(pub u64);

impl DomainId {
    /// The one that is always there.
    pub const DEFAULT: Self = Self(0);

    const fn new(number: u32, epoch: u32) -> Self {
        Self((epoch as u64) << 32 | number as u64)
    }

    /// The number of its record.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A stack of numbered things that take their links themselves: the number of the first plus one
/// below, a count above that keeps an old head from being taken for a new one.
struct Stack(AtomicU64);

impl Stack {
    /// Adds `number`, whose link is `next`.
    fn push(&self, number: u32, next: &AtomicU32) {
        let mut head = self.0.load(Relaxed);
        loop {
            next.store(head as u32, Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | (number as u64 + 1);
            // Release: who pops it sees what it holds.
            match self.0.compare_exchange_weak(head, new, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes the first; `link` finds the link of what a number names.
    fn pop<'a>(&self, link: impl Fn(u32) -> Option<&'a AtomicU32>) -> Option<u32> {
        let mut head = self.0.load(Acquire);
        loop {
            let number = (head as u32).checked_sub(1)?;
            let next = link(number)?.load(Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | next as u64;
            match self.0.compare_exchange_weak(head, new, AcqRel, Acquire) {
                Ok(_) => return Some(number),
                Err(seen) => head = seen,
            }
        }
    }
}

/// The record of a domain. All zero is an open one without segments.
#[repr(C, align(64))]
struct Domain {
    epoch: AtomicU32,
    /// The next record that is free, plus one.
    next_free: AtomicU32,
    /// Its first segment, plus one; segments are added only.
    first_segment: AtomicU32,
    /// Segments with free slots that nobody owns, for each class.
    available: [Stack; CLASSES],
}

impl Domain {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            epoch: AtomicU32::new(0),
            next_free: AtomicU32::new(0),
            first_segment: AtomicU32::new(0),
            available: [const { Stack(AtomicU64::new(0)) }; CLASSES],
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self {
            epoch: AtomicU32::new(0),
            next_free: AtomicU32::new(0),
            first_segment: AtomicU32::new(0),
            available: core::array::from_fn(|_| Stack(AtomicU64::new(0))),
        }
    }
}

/// All slots of a process, and the domains that they belong to.
pub struct Space {
    /// The segments.
    pub buckets: Buckets,
    default: Domain,
    /// [`MOST`] records, once one was asked for. The record numbered n is at n - 1.
    table: AtomicPtr<Domain>,
    /// Records in use so far, the default one among them.
    count: AtomicU32,
    free: Stack,
}

/// What a slot held that was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Its word.
    pub word: Word,
    /// The second target of an ephemeron, else 0.
    pub value: u64,
}

impl Space {
    /// Without a slot, with the default domain.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            buckets: Buckets::new(),
            default: Domain::new(),
            table: AtomicPtr::new(null_mut()),
            count: AtomicU32::new(1),
            free: Stack(AtomicU64::new(0)),
        }
    }

    /// Without a slot, with the default domain.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            buckets: Buckets::new(),
            default: Domain::new(),
            table: AtomicPtr::new(null_mut()),
            count: AtomicU32::new(1),
            free: Stack(AtomicU64::new(0)),
        }
    }

    fn record(&self, number: u32) -> Option<&Domain> {
        if number == 0 {
            return Some(&self.default);
        }
        if number >= self.count.load(Acquire) {
            return None;
        }
        // SAFETY: the table was published before the count grew, has room for every number below
        // it, and is never given back.
        Some(unsafe { &*self.table.load(Relaxed).add(number as usize - 1) })
    }

    /// Whether the domain is open. Sequentially consistent: see the invariant.
    #[inline]
    pub fn is_open(&self, domain: DomainId) -> bool {
        domain == DomainId::DEFAULT
            || self.record(domain.number()).is_some_and(|record| {
                record.epoch.load(SeqCst) == domain.epoch() && domain.epoch().is_multiple_of(2)
            })
    }

    /// Opens a domain. None without memory, or when too many are open.
    pub fn open(&self) -> Option<DomainId> {
        if let Some(number) = self.free.pop(|number| Some(&self.record(number)?.next_free)) {
            let record = self.record(number)?;
            return Some(DomainId::new(number, record.epoch.fetch_add(1, SeqCst) + 1));
        }
        if self.table.load(Acquire).is_null() {
            let table = make_table()?;
            if self.table.compare_exchange(null_mut(), table, AcqRel, Acquire).is_err() {
                give_back_table(table);
            }
        }
        let mut count = self.count.load(Acquire);
        while count <= MOST {
            match self.count.compare_exchange_weak(count, count + 1, AcqRel, Acquire) {
                Ok(_) => return Some(DomainId::new(count, 0)),
                Err(seen) => count = seen,
            }
        }
        None
    }

    /// Closes a domain and frees all its handles, tells of each what it was, and gives how many.
    /// None if it is not open, or the default one. The handles of a segment are freed and told of
    /// under one guard of `guard`: a stop need not wait for all of them.
    pub fn close<G>(
        &self,
        domain: DomainId,
        guard: impl Fn() -> G,
        mut tell: impl FnMut(Freed),
    ) -> Option<usize> {
        let record = self.record(domain.number()).filter(|_| domain.number() != 0)?;
        let open = domain.epoch();
        if !open.is_multiple_of(2)
            || record.epoch.compare_exchange(open, open.wrapping_add(1), SeqCst, Relaxed).is_err()
        {
            return None;
        }
        crate::sync::atomic::fence(SeqCst);
        let mut freed = 0;
        let mut next = record.first_segment.load(Acquire);
        while let Some(segment) = next.checked_sub(1).and_then(|number| self.buckets.get(number)) {
            let _guard = guard();
            if !segment.is_untouched() {
                for index in segment.used() {
                    if let Some(what) = self.free_whatever(segment, index) {
                        tell(what);
                        freed += 1;
                    }
                }
            }
            next = segment.next_of_domain.load(Relaxed);
        }
        // Used up: the record stays closed for ever.
        if open < u32::MAX - 1 {
            self.free.push(domain.number(), &record.next_free);
        }
        Some(freed)
    }

    /// Frees a slot if it is in use, whatever it holds.
    fn free_whatever(&self, segment: &Segment, index: u32) -> Option<Freed> {
        let mut word = Word(segment.slot(index).load(SeqCst));
        while !matches!(word.kind(), Kind::Free) {
            let freed = self.free(segment, index, word, 0);
            if freed.is_some() {
                return freed;
            }
            word = Word(segment.slot(index).load(Relaxed));
        }
        None
    }

    /// Frees the slot if it holds `word`; None if it does not. `caller` is what the calling thread
    /// owns segments as, 0 for none.
    #[inline]
    pub fn free(&self, segment: &Segment, index: u32, word: Word, caller: usize) -> Option<Freed> {
        let freed = segment.make_free(index, word)?;
        let mut value = 0;
        if word.kind() == Kind::Ephemeron {
            // Whoever still sets the value of the former pair fails from here on: the generation is
            // another.
            let none = Word::new(Kind::Value, 0, freed.generation());
            value = Word(segment.slot(index + 1).swap(none.0, AcqRel)).target();
        }
        if !word.is_used_up() && segment.put_back(index, freed, caller) {
            self.list(segment);
        }
        Some(Freed { word, value })
    }

    /// Lists a segment as available in its domain.
    fn list(&self, segment: &Segment) {
        if let Some(record) = self.record(segment.domain.load(Relaxed)) {
            let class = segment.class.load(Relaxed) as usize;
            record.available[class].push(segment.number.load(Relaxed), &segment.next_available);
        }
    }

    /// A segment of the domain with something free in it, owned by `owner`. None without memory.
    pub fn take_segment(&self, number: u32, class: Class, owner: usize) -> Option<&Segment> {
        let record = self.record(number)?;
        let available = record.available[class as usize]
            .pop(|number| Some(&self.buckets.get(number)?.next_available));
        if let Some(segment) = available.and_then(|number| self.buckets.get(number)) {
            segment.owner.store(owner, Relaxed);
            return Some(segment);
        }
        let segment = self.buckets.add(class, number, owner)?;
        let mut first = record.first_segment.load(Relaxed);
        loop {
            segment.next_of_domain.store(first, Relaxed);
            let new = segment.number.load(Relaxed) + 1;
            // Sequentially consistent, so that who closes the domain and does not find the segment
            // is seen by who allocates in it.
            match record.first_segment.compare_exchange_weak(first, new, SeqCst, Relaxed) {
                Ok(_) => return Some(segment),
                Err(seen) => first = seen,
            }
        }
    }

    /// The owner gives a segment up, full or not.
    pub fn leave_segment(&self, segment: &Segment, owner: usize) {
        segment.left.store(1, Relaxed);
        if !segment.has_free() && segment.leave_full(owner) {
            return;
        }
        // Release: who sees that nobody owns it sees that it was left.
        segment.owner.store(0, Release);
        self.list(segment);
    }
}

#[cfg(not(loom))]
fn make_table() -> Option<*mut Domain> {
    let start = crate::sys::map::allocate(MOST as usize * size_of::<Domain>()).ok()?;
    Some(start.pointer())
}

#[cfg(not(loom))]
fn give_back_table(table: *mut Domain) {
    let bytes = MOST as usize * size_of::<Domain>();
    crate::sys::map::release(crate::addr::Address(table as usize), bytes);
}

#[cfg(loom)]
fn make_table() -> Option<*mut Domain> {
    Some(Box::into_raw(Box::new(Domain::new())))
}

#[cfg(loom)]
fn give_back_table(table: *mut Domain) {
    // SAFETY: made by `make_table`, and known to nobody else.
    drop(unsafe { Box::from_raw(table) });
}

#[cfg(loom)]
impl Drop for Space {
    fn drop(&mut self) {
        let table = self.table.load(Relaxed);
        if !table.is_null() {
            give_back_table(table);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::handle::Cache;
    use super::super::segment::SLOTS;
    use super::*;

    #[test]
    fn a_closed_domain_is_known_and_its_record_used_again() {
        let space = Space::new();
        let first = space.open().unwrap();
        assert!(space.is_open(first) && space.is_open(DomainId::DEFAULT));
        assert_eq!(space.close(first, || (), |_| {}), Some(0));
        assert_eq!(space.close(first, || (), |_| {}), None, "closed twice");
        let second = space.open().unwrap();
        assert_eq!(second.number(), first.number());
        assert!(space.is_open(second) && !space.is_open(first), "[refs.inv.domain]");
        assert_eq!(space.close(DomainId::DEFAULT, || (), |_| {}), None);
        assert!(!space.is_open(DomainId(77)) && space.close(DomainId(77), || (), |_| {}).is_none());
    }

    #[test]
    fn segments_stay_with_their_domain() {
        let space = Space::new();
        let domain = space.open().unwrap();
        let segment = space.take_segment(domain.number(), Class::Weak, 8).unwrap();
        space.leave_segment(segment, 8);
        let other = space.take_segment(0, Class::Weak, 8).unwrap();
        assert_ne!(other.number.load(Relaxed), segment.number.load(Relaxed));
        let again = space.take_segment(domain.number(), Class::Weak, 8).unwrap();
        assert_eq!(again.number.load(Relaxed), segment.number.load(Relaxed));
    }

    #[test]
    fn each_segment_is_closed_under_a_guard_of_its_own_and_only_if_it_was_used() {
        let space = Space::new();
        let cache = Cache::new();
        let fill = |domain, handles: u64| {
            for target in 1..=handles {
                space.allocate(&cache, domain, Kind::Strong, target, 0).unwrap();
            }
        };
        let looks = |domain| {
            let (guards, told) = (core::cell::Cell::new(0), core::cell::Cell::new(0));
            let guard = || {
                guards.set(guards.get() + 1);
                assert!(told.get() <= guards.get() * SLOTS as usize, "[refs.inv.domain]");
            };
            let freed = space.close(domain, guard, |_| told.set(told.get() + 1)).unwrap();
            assert_eq!(freed, told.get());
            (freed, guards.get())
        };
        let handles = 10 * SLOTS as u64;
        let first = space.open().unwrap();
        fill(first, handles);
        assert_eq!(looks(first), (handles as usize, 10));
        // The thread kept the last segment over the closing.
        let second = space.open().unwrap();
        fill(second, 3);
        assert!(space.buckets.of_class(Class::Strong).all(|segment| {
            segment.owner.load(Relaxed) != 0 || segment.left.load(Relaxed) == 0
        }));
        assert_eq!(looks(second), (3, 10));
        // Left before, and after: the second time others are taken.
        let third = space.open().unwrap();
        fill(third, 5);
        cache.leave_all(&space);
        fill(third, SLOTS as u64 + 5);
        cache.leave_all(&space);
        assert_eq!(looks(third).0, SLOTS as usize + 10);
        assert!(space.buckets.of_class(Class::Strong).all(Segment::is_untouched));
        assert_eq!(space.buckets.count(), 10);
    }

    #[test]
    fn too_many_open_domains_are_refused() {
        let space = Space::new();
        let all: Vec<_> = core::iter::from_fn(|| space.open()).collect();
        assert_eq!(all.len(), MOST as usize);
        space.close(all[77], || (), |_| {}).unwrap();
        assert!(space.open().is_some() && space.open().is_none());
    }
}
