//! What a thread keeps for handles and monitors: the segments that it owns, the monitors that it is
//! in.
//!
//! Invariant: a record is one thread's from its first use until the thread detaches, and then the
//! next one's; it is never given back, so the list of all records can be walked at any time. Its
//! monitors change in critical sections only, so a stopped world sees them whole.
//!
//! # Safety
//!
//! Makes and reaches the records of threads. A record is never given back, and its list of monitors
//! belongs to its thread, or to the collector while the world is stopped.

#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use super::handle::Cache;
use super::held::Held;
use crate::sys::meta_alloc::MetaAllocator;
use crate::world::mutator::Mutator;

/// A thread's record. `repr(C)`, so that zeroed memory can be made one field by field.
pub struct ThreadRefs {
    /// The segments that it owns.
    pub cache: Cache,
    /// Objects whose monitors it is in. Used by the thread, and by who has the world stopped.
    held: UnsafeCell<Held>,
    /// The inflated monitor that it waits for or in, the last one where its handler waits too; bit
    /// 0: it may sleep for the lock. 0: none. A handler that a jump ended may leave it set. Used by
    /// the thread.
    pub waits_at: AtomicUsize,
    /// 1 while it is some thread's.
    in_use: AtomicU32,
    /// The next record of the list. Written once.
    next: AtomicPtr<ThreadRefs>,
}

const LAYOUT: Layout = Layout::new::<ThreadRefs>();
/// All records that there ever were.
static FIRST: AtomicPtr<ThreadRefs> = AtomicPtr::new(core::ptr::null_mut());

fn at(record: *const ThreadRefs) -> Option<&'static ThreadRefs> {
    // SAFETY: null or a record, which is never given back.
    unsafe { record.as_ref() }
}

/// The record of a mutator, which is the calling thread's. None without memory.
#[inline(always)]
pub fn of(mutator: &Mutator) -> Option<&'static ThreadRefs> {
    match at(mutator.references.load(Relaxed) as *const ThreadRefs) {
        Some(record) => Some(record),
        None => make(mutator),
    }
}

/// The record of a mutator, if it has one.
pub fn existing(mutator: &Mutator) -> Option<&'static ThreadRefs> {
    at(mutator.references.load(Relaxed) as *const ThreadRefs)
}

/// All records in use, and some that are not.
pub fn all() -> impl Iterator<Item = &'static ThreadRefs> {
    core::iter::successors(at(FIRST.load(Acquire)), |record| at(record.next.load(Relaxed)))
}

#[cold]
fn make(mutator: &Mutator) -> Option<&'static ThreadRefs> {
    let record = match all().find(|record| record.claim()) {
        Some(record) => record,
        None => add()?,
    };
    mutator.references.store(core::ptr::from_ref(record) as usize, Relaxed);
    Some(record)
}

fn add() -> Option<&'static ThreadRefs> {
    // SAFETY: the layout has a size.
    let memory = unsafe { MetaAllocator.alloc_zeroed(LAYOUT) }.cast::<ThreadRefs>();
    if memory.is_null() {
        return None;
    }
    // SAFETY: fresh memory for one record: all zero is right for everything but the list of
    // monitors, which is written here.
    let record = unsafe {
        (&raw mut (*memory).held).write(UnsafeCell::new(Held::new()));
        &*memory
    };
    record.in_use.store(1, Relaxed);
    let mut first = FIRST.load(Relaxed);
    loop {
        record.next.store(first, Relaxed);
        // Release: who walks the list sees the record written.
        match FIRST.compare_exchange_weak(first, memory, Release, Relaxed) {
            Ok(_) => return Some(record),
            Err(seen) => first = seen,
        }
    }
}

impl ThreadRefs {
    fn claim(&self) -> bool {
        self.in_use.load(Relaxed) == 0
            && self.in_use.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Nobody's from now on; what it owned was given up before.
    pub fn leave(&self, mutator: &Mutator) {
        mutator.references.store(0, Relaxed);
        self.waits_at.store(0, Relaxed);
        self.in_use.store(0, Release);
    }

    /// The monitors that the thread is in.
    ///
    /// # Safety
    /// The caller is the record's thread, in a critical section, or has the world stopped; and
    /// keeps no other reference to the list.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    pub unsafe fn held(&self) -> &mut Held {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.held.get() }
    }
}
