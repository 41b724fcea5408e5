//! An inflated monitor: a lock on which threads sleep, and a condition.
//!
//! Invariant: the lock is held by one thread, which alone reads and writes owner and depth. A thread that sleeps is counted before it looks at the state for the last time, and who unlocks looks
//! at the count after it changed the state, both sequentially consistent, so nobody sleeps on a free lock; one wake-up is under way at a time, so unlocking makes a system call only
//! when somebody is asleep and nobody is waking. Records are numbered, and never given back. Called from any thread; waiting is done in blocked regions by `monitor`.

#![allow(unsafe_code)]

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::sys::{futex, map};

const HELD: u32 = 1;
/// A sleeper was woken and has not looked yet.
const WAKING: u32 = 2;

/// A monitor. All zero is a free one that no object has.
#[repr(C, align(64))]
pub struct Inflated {
    /// [`HELD`] and [`WAKING`]; sleepers sleep on it.
    state: AtomicU32,
    /// Threads that sleep, or are about to.
    sleepers: AtomicU32,
    /// The kernel's id of the thread that is in it.
    pub owner: AtomicU32,
    /// How often that thread entered.
    pub depth: AtomicU32,
    /// Threads that wait for it in any way, or wait to be notified: it is not deflated meanwhile. Changed in critical sections.
    pub users: AtomicU32,
    /// Advanced by each notification; who waits for one sleeps on it.
    pub sequence: AtomicU32,
    /// Its object; 0 while it has none. Written by who inflates, and by the cycle.
    pub object: AtomicUsize,
    /// The next record without an object, plus one.
    next_free: AtomicU32,
}

/// Looks so often at a lock that is held before it sleeps. Larger: fewer system calls where locks are held shortly; smaller: less heat where they are not.
const SPINS: u32 = 200;

impl Inflated {
    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        let state = self.state.load(Relaxed);
        state & HELD == 0
            && self.state.compare_exchange(state, state | HELD, Acquire, Relaxed).is_ok()
    }

    /// Whether somebody holds the lock, or is waking up to take it.
    pub fn is_busy(&self) -> bool {
        self.state.load(Relaxed) != 0
    }

    /// Takes the lock as held by a thread that entered the thin one. Before the record is published.
    pub fn adopt(&self, owner: u32, depth: u32) {
        self.state.store(HELD, Relaxed);
        self.owner.store(owner, Relaxed);
        self.depth.store(depth, Relaxed);
    }

    /// Takes it back as held by nobody, before it is published.
    pub fn release_for_reuse(&self) {
        self.state.store(0, Relaxed);
        self.owner.store(0, Relaxed);
    }

    /// Waits for the lock; false if that took longer than `left` allows, which is asked before each sleep and says how long it may last.
    pub fn lock(
        &self,
        left: impl Fn() -> Option<u64>,
        sleep: impl Fn(&AtomicU32, u32, u64),
    ) -> bool {
        for _ in 0..SPINS {
            if self.try_lock() {
                return true;
            }
            core::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, SeqCst);
        loop {
            let state = self.state.load(SeqCst);
            if state & HELD == 0 {
                // Whether it was this thread that is waking does not matter: one more wake-up is made at worst.
                if self.state.compare_exchange(state, HELD, SeqCst, Relaxed).is_ok() {
                    self.sleepers.fetch_sub(1, SeqCst);
                    return true;
                }
                continue;
            }
            if state & WAKING != 0 {
                // It was woken for nothing, and goes to sleep again: the next unlock has to wake somebody.
                let _ = self.state.compare_exchange(state, HELD, SeqCst, Relaxed);
                continue;
            }
            let Some(ns) = left() else {
                self.sleepers.fetch_sub(1, SeqCst);
                // A wake-up that was meant for this thread goes to another.
                if self.state.fetch_and(!WAKING, SeqCst) & HELD == 0 {
                    self.wake_one();
                }
                return false;
            };
            sleep(&self.state, state, ns);
        }
    }

    /// Gives the lock back.
    #[inline]
    pub fn unlock(&self) {
        let state = self.state.fetch_and(!HELD, SeqCst);
        if state & WAKING == 0 && self.sleepers.load(SeqCst) > 0 {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        if self.sleepers.load(SeqCst) > 0
            && self.state.compare_exchange(0, WAKING, SeqCst, Relaxed).is_ok()
        {
            futex::wake(&self.state, 1);
        }
    }

    /// Lets one of those who wait for a notification go on, or all.
    pub fn notify(&self, all: bool) {
        self.sequence.fetch_add(1, SeqCst);
        if self.users.load(SeqCst) > 0 {
            futex::wake(&self.sequence, if all { i32::MAX as u32 } else { 1 });
        }
    }

    /// In the child of a `fork`: nobody sleeps here; the lock is held by `owner`, or (0) by nobody.
    pub fn after_fork(&self, owner: u32) {
        self.sleepers.store(0, Relaxed);
        self.users.store(0, Relaxed);
        self.owner.store(owner, Relaxed);
        self.state.store(if owner == 0 { 0 } else { HELD }, Relaxed);
    }
}

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
    /// First record without an object, plus one; above it a count that keeps an old head from being taken for a new one.
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
        record.state.store(0, Relaxed);
        record.owner.store(0, Relaxed);
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

    fn sleep(word: &AtomicU32, expected: u32, ns: u64) {
        futex::wait(word, expected, Some(ns));
    }

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

    #[test]
    fn only_one_holds_it_and_nobody_is_forgotten() {
        let (records, count) = (Records::new(), AtomicU32::new(0));
        let monitor = records.get(records.take(1).unwrap());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        assert!(monitor.lock(|| Some(u64::MAX >> 2), sleep));
                        count.store(count.load(Relaxed) + 1, Relaxed);
                        monitor.unlock();
                    }
                });
            }
        });
        assert_eq!(count.load(Relaxed), 80_000);
        assert!(!monitor.is_busy() && monitor.sleepers.load(Relaxed) == 0);
    }

    #[test]
    fn who_gives_up_waiting_wakes_another_if_it_was_woken() {
        let records = Records::new();
        let monitor = records.get(records.take(1).unwrap());
        std::thread::scope(|scope| {
            for turn in 0..3_u64 {
                scope.spawn(move || {
                    for round in 0..300 {
                        let began = std::time::Instant::now();
                        let left = move || {
                            let allowed =
                                if turn == 0 { 3_000_000_000 } else { 20_000 + round * 100 };
                            let passed = began.elapsed().as_nanos() as u64;
                            (passed < allowed).then(|| allowed - passed)
                        };
                        if monitor.lock(left, sleep) {
                            std::thread::sleep(std::time::Duration::from_micros(30));
                            monitor.unlock();
                        } else {
                            assert_ne!(turn, 0, "forgotten");
                        }
                    }
                });
            }
        });
        assert!(!monitor.is_busy());
    }
}
