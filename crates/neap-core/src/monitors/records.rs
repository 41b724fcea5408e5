//! The records of inflated monitors: numbered, in buckets that double, with a list of those that no
//! object has.
//!
//! Invariant: a record never moves and is never given back to the system, so a number that was
//! given out leads to it for ever. No lock anywhere. Called from any thread.
//!
//! # Safety
//!
//! Makes references to records from numbers. A number that was given out has a published bucket,
//! and buckets are never given back.

#![allow(unsafe_code)]

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use super::inflated::Inflated;
use crate::sys::map;

/// Records of the first bucket; each further one has twice as many.
const FIRST: u32 = 64;
const BUCKETS: usize = 24;

/// All records.
pub struct Records {
    buckets: [AtomicPtr<Inflated>; BUCKETS],
    /// Records that were used so far.
    count: AtomicU32,
    /// Records that have an object.
    in_use: AtomicUsize,
    /// First record without an object, plus one; above it a count that keeps an old head from being
    /// taken for a new one.
    free: AtomicU64,
}

impl Records {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            buckets: [const { AtomicPtr::new(null_mut()) }; BUCKETS],
            count: AtomicU32::new(0),
            in_use: AtomicUsize::new(0),
            free: AtomicU64::new(0),
        }
    }

    /// The record with this number, which was given out.
    pub fn get(&self, number: u32) -> &Inflated {
        let bucket = (number / FIRST + 1).ilog2();
        let start = self.buckets[bucket as usize].load(Acquire);
        // SAFETY: the number was given out, so its bucket is published; it is never given back.
        unsafe { &*start.add((number - FIRST * ((1 << bucket) - 1)) as usize) }
    }

    /// A record for an object. None without memory.
    pub fn take(&self, object: usize) -> Option<u32> {
        let number = match self.pop() {
            Some(number) => number,
            None => self.add()?,
        };
        self.in_use.fetch_add(1, Relaxed);
        self.get(number).object.store(object, Relaxed);
        Some(number)
    }

    fn pop(&self) -> Option<u32> {
        let mut head = self.free.load(Acquire);
        loop {
            let number = (head as u32).checked_sub(1)?;
            let next = self.get(number).next_free.load(Relaxed) as u64;
            let new = (head >> 32).wrapping_add(1) << 32 | next;
            match self.free.compare_exchange_weak(head, new, AcqRel, Acquire) {
                Ok(_) => return Some(number),
                Err(seen) => head = seen,
            }
        }
    }

    fn add(&self) -> Option<u32> {
        let mut number = self.count.load(Acquire);
        loop {
            let bucket = (number / FIRST + 1).ilog2() as usize;
            let place = self.buckets.get(bucket)?;
            if place.load(Acquire).is_null() {
                let bytes = (FIRST as usize * size_of::<Inflated>()) << bucket;
                let memory = map::allocate(bytes).ok()?;
                map::name(memory, bytes, c"neap: monitors");
                if place.compare_exchange(null_mut(), memory.pointer(), AcqRel, Acquire).is_err() {
                    map::release(memory, bytes);
                }
            }
            match self.count.compare_exchange_weak(number, number + 1, AcqRel, Acquire) {
                Ok(_) => return Some(number),
                Err(seen) => number = seen,
            }
        }
    }

    /// The record's object is gone, or does without it.
    pub fn give_back(&self, number: u32) {
        let record = self.get(number);
        self.in_use.fetch_sub(1, Relaxed);
        record.object.store(0, Relaxed);
        record.release_for_reuse();
        let mut head = self.free.load(Relaxed);
        loop {
            record.next_free.store(head as u32, Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | (number as u64 + 1);
            match self.free.compare_exchange_weak(head, new, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// How many records have an object.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Relaxed)
    }

    /// The numbers of all records that may have an object: of all that were ever used, or none.
    pub fn all(&self) -> core::ops::Range<u32> {
        if self.in_use() == 0 { 0..0 } else { 0..self.count.load(Acquire) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_given_once_and_again_after_their_return() {
        let records = Records::new();
        let all: Vec<u32> = (0..1000).map(|object| records.take(object + 1).unwrap()).collect();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        assert_eq!(records.get(777).object.load(Relaxed), 778);
        records.give_back(777);
        records.give_back(3);
        assert_eq!((records.take(1), records.take(1)), (Some(3), Some(777)));
        assert_eq!((records.take(1), records.in_use()), (Some(1000), 1001));
    }
}
