//! All segments: an array that grows by buckets, each twice the last, published by
//! compare-and-swap; and one list for each class.
//!
//! Invariant: a segment never moves and is never given back, so a number that was given out leads
//! to its segment for ever. Growth takes no lock: who loses the race to publish a bucket gives its
//! memory back. Model-checked in `tests/loom_handles.rs`. Called from any thread.
//!
//! # Safety
//!
//! Makes references to segments in buckets that were published with room for all of them and are
//! never given back. A bucket that lost the race is freed by who made it, who alone knows it.

#![allow(unsafe_code)]

use core::ptr::null_mut;

use super::segment::{CLASSES, Class, Segment};
use crate::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// Segments of the first bucket. Larger: more memory for a program with one handle; smaller: more
/// buckets.
#[cfg(not(loom))]
const FIRST: u32 = 16;
#[cfg(loom)]
const FIRST: u32 = 1;
/// Enough for 2^31 segments.
const BUCKETS: usize = if cfg!(loom) { 3 } else { 27 };

/// The array.
pub struct Buckets {
    buckets: [AtomicPtr<Segment>; BUCKETS],
    /// Segments that were given out.
    count: AtomicU32,
    /// First segment of each class, plus one.
    first_of_class: [AtomicU32; CLASSES],
}

/// The bucket that a segment lies in, and its place there.
fn place(number: u32) -> (usize, usize) {
    let bucket = (number / FIRST + 1).ilog2();
    (bucket as usize, (number - FIRST * ((1 << bucket) - 1)) as usize)
}

impl Buckets {
    /// Without a segment.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            buckets: [const { AtomicPtr::new(null_mut()) }; BUCKETS],
            count: AtomicU32::new(0),
            first_of_class: [const { AtomicU32::new(0) }; CLASSES],
        }
    }

    /// Without a segment.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            buckets: core::array::from_fn(|_| AtomicPtr::new(null_mut())),
            count: AtomicU32::new(0),
            first_of_class: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// The segment with this number, if it was given out.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&Segment> {
        // Acquire: the bucket was published before the count grew.
        if number >= self.count.load(Acquire) {
            return None;
        }
        let (bucket, index) = place(number);
        let start = self.buckets[bucket].load(Relaxed);
        // SAFETY: published with room for all of its segments, and never given back.
        Some(unsafe { &*start.add(index) })
    }

    /// A new segment of a class and a domain, owned by `owner`, on the list of its class. None
    /// without memory.
    pub fn add(&self, class: Class, domain: u32, owner: usize) -> Option<&Segment> {
        let mut number = self.count.load(Acquire);
        loop {
            let (bucket, _) = place(number);
            if bucket >= BUCKETS {
                return None;
            }
            self.ensure(bucket)?;
            match self.count.compare_exchange_weak(number, number + 1, AcqRel, Acquire) {
                Ok(_) => break,
                Err(seen) => number = seen,
            }
        }
        let segment = self.get(number)?;
        segment.class.store(class as u32, Relaxed);
        segment.domain.store(domain, Relaxed);
        segment.number.store(number, Relaxed);
        segment.owner.store(owner, Relaxed);
        let head = &self.first_of_class[class as usize];
        let mut first = head.load(Relaxed);
        loop {
            segment.next_of_class.store(first, Relaxed);
            // Release: who walks the list sees the segment written.
            match head.compare_exchange_weak(first, number + 1, Release, Relaxed) {
                Ok(_) => return Some(segment),
                Err(seen) => first = seen,
            }
        }
    }

    fn ensure(&self, bucket: usize) -> Option<()> {
        let place = &self.buckets[bucket];
        if !place.load(Acquire).is_null() {
            return Some(());
        }
        let count = (FIRST as usize) << bucket;
        let memory = make(count)?;
        if place.compare_exchange(null_mut(), memory, AcqRel, Acquire).is_err() {
            give_back(memory, count);
        }
        Some(())
    }

    /// All segments of a class; those that are added meanwhile may be missing.
    pub fn of_class(&self, class: Class) -> impl Iterator<Item = &Segment> {
        let mut next = self.first_of_class[class as usize].load(Acquire);
        core::iter::from_fn(move || {
            let segment = self.get(next.checked_sub(1)?)?;
            next = segment.next_of_class.load(Relaxed);
            Some(segment)
        })
    }

    /// Whether there is a segment of a class. Who looks at the slots of all of them copies those of
    /// each, and makes no room for copies where there are none.
    pub fn has_class(&self, class: Class) -> bool {
        self.first_of_class[class as usize].load(Acquire) != 0
    }

    /// Segments given out so far.
    pub fn count(&self) -> u32 {
        self.count.load(Acquire)
    }
}

#[cfg(not(loom))]
fn make(count: usize) -> Option<*mut Segment> {
    let bytes = count * size_of::<Segment>();
    let start = crate::sys::map::allocate(bytes).ok()?;
    crate::sys::map::name(start, bytes, c"neap: handles");
    Some(start.pointer())
}

#[cfg(not(loom))]
fn give_back(memory: *mut Segment, count: usize) {
    crate::sys::map::release(crate::addr::Address(memory as usize), count * size_of::<Segment>());
}

#[cfg(loom)]
fn make(count: usize) -> Option<*mut Segment> {
    let segments: Vec<Segment> = (0..count).map(|_| Segment::new()).collect();
    Some(Box::into_raw(segments.into_boxed_slice()).cast())
}

#[cfg(loom)]
fn give_back(memory: *mut Segment, count: usize) {
    // SAFETY: made by `make` with this count, and known to nobody else.
    drop(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(memory, count)) });
}

#[cfg(loom)]
impl Drop for Buckets {
    fn drop(&mut self) {
        for bucket in 0..BUCKETS {
            let memory = self.buckets[bucket].load(Relaxed);
            if !memory.is_null() {
                give_back(memory, (FIRST as usize) << bucket);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense_and_buckets_double() {
        let mut expected = (0, 0);
        for number in 0..10_000 {
            assert_eq!(place(number), expected);
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place(u32::MAX / 2).0 < BUCKETS + 2);
    }

    #[test]
    fn numbers_lead_to_segments_and_lists_hold_their_class() {
        let buckets = Buckets::new();
        assert!(buckets.get(0).is_none());
        for number in 0..1000 {
            let class = if number % 3 == 0 { Class::Weak } else { Class::Strong };
            let segment = buckets.add(class, number, 8).unwrap();
            assert_eq!(segment.number.load(Relaxed), number);
        }
        assert_eq!(buckets.get(999).unwrap().domain.load(Relaxed), 999);
        assert!(buckets.get(1000).is_none() && buckets.get(u32::MAX).is_none());
        assert_eq!(buckets.of_class(Class::Weak).count(), 334);
        assert_eq!(buckets.of_class(Class::Strong).count(), 666);
        assert_eq!(buckets.of_class(Class::Pair).count(), 0);
    }
}
