//! Reference queues: values that become available when their object is gone, to be polled or waited
//! for.
//!
//! Invariant: a queue's memory is never given back, and a reference names its queue's generation
//! too, so a reference that outlives its queue is dropped. The entry of a reference is the link of
//! the queue's list from the moment its object is found dead until the value is taken; then it is
//! let go. Put by the cycle, taken by any mutator.
//!
//! # Safety
//!
//! Makes references to queues and entries from their addresses. Neither kind of memory is ever
//! given back, and their words are atomics, so one that is out of date is seen by its generation.

#![allow(unsafe_code)]

use crate::sys::clock::Instant;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use super::registrations::Verdict;
use super::slab::{self, Entry};
use super::{pool, site};
use crate::addr::PAGE_BYTES;
use crate::rank::Rank;
use crate::refs::{Marking, NoMemory, with_own};
use crate::sync::{ForkLock, Lock};
use crate::sys::{futex, map};
use crate::world::{attach, blocked};

/// An entry of the cleaners' registry whose function is a queue's address with its generation.
pub(crate) const REFERENCE: usize = 2;

/// A queue. Zeroed memory is an empty one.
#[repr(C, align(64))]
pub struct Queue {
    /// First entry, the next to be taken; 0 if there is none. Written under [`QUEUES`].
    oldest: AtomicUsize,
    /// Last entry. As above.
    newest: AtomicUsize,
    /// Counts puts and closings; who waits sleeps on it.
    changes: AtomicU32,
    /// Who waits.
    waiters: AtomicU32,
    /// Odd while the queue is open.
    generation: AtomicU32,
    /// The next closed one. Protected by [`QUEUES`].
    next_closed: AtomicUsize,
}

/// Outcome of [`Queue::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The value of a reference whose object is gone.
    Value(usize),
    /// There is none; or none came in time.
    Empty,
    /// The queue is closed.
    Closed,
}

/// Where queues lie: the first place is a page, each further one twice as large as the one before,
/// mapped when that is full, and 0 until then. So few looks tell whether a queue lies at an
/// address, however many there are. Written under [`QUEUES`].
static PLACES: [AtomicUsize; 32] = [const { AtomicUsize::new(0) }; 32];
/// How many queues there ever were; they fill the places in turn. As above.
static EVER: AtomicUsize = AtomicUsize::new(0);
const IN_A_PAGE: usize = PAGE_BYTES / size_of::<Queue>();
/// The first closed queue. The lock is held for a moment by mutators in critical sections, and by
/// the cycle.
static QUEUES: Lock<usize> = Lock::new(Rank::Queues, 0);

fn at(address: usize) -> Option<&'static Queue> {
    // SAFETY: 0 or a queue, whose memory is never given back.
    unsafe { (address as *const Queue).as_ref() }
}

fn entry_at(address: usize) -> Option<&'static Entry> {
    // SAFETY: 0 or an entry, whose memory is never given back.
    unsafe { (address as *const Entry).as_ref() }
}

/// The queue's address with its generation, which is what a reference's entry holds.
fn word_of(queue: &Queue) -> usize {
    let generation = queue.generation.load(Acquire) as u16;
    core::ptr::from_ref(queue) as usize | (generation as usize) << 48
}

/// A new queue; it stays until [`close`].
///
/// # Errors
/// There is no memory.
pub fn open() -> Result<&'static Queue, NoMemory> {
    with_own(|_| {
        let mut closed = QUEUES.lock();
        let queue = unused(&mut closed)?;
        queue.generation.fetch_add(1, AcqRel);
        Ok(queue)
    })
}

/// The place of the queue with this number, and which one of the place it is.
fn place_of(number: usize) -> (usize, usize) {
    let place = (number / IN_A_PAGE + 1).ilog2() as usize;
    (place, number - ((1 << place) - 1) * IN_A_PAGE)
}

/// All queues that there ever were.
fn all() -> impl Iterator<Item = &'static Queue> {
    (0..EVER.load(Acquire)).filter_map(|number| {
        let (place, index) = place_of(number);
        at(PLACES[place].load(Relaxed) + index * size_of::<Queue>())
    })
}

/// One that was never open. Under [`QUEUES`].
fn add_queue() -> Result<&'static Queue, NoMemory> {
    let number = EVER.load(Relaxed);
    let (place, index) = place_of(number);
    let start = PLACES.get(place).ok_or(NoMemory)?;
    if start.load(Relaxed) == 0 {
        let memory = map::allocate(PAGE_BYTES << place).map_err(|_| NoMemory)?;
        start.store(memory.0, Release);
    }
    // Release: who goes through all of them finds the place.
    EVER.store(number + 1, Release);
    at(start.load(Relaxed) + index * size_of::<Queue>()).ok_or(NoMemory)
}

/// One that is not open. Under [`QUEUES`], which is `closed`.
fn unused(closed: &mut usize) -> Result<&'static Queue, NoMemory> {
    let Some(queue) = at(*closed) else { return add_queue() };
    *closed = queue.next_closed.load(Relaxed);
    Ok(queue)
}

/// Values that are forgotten in one hold of the lock: some microseconds. Larger: less time for the
/// lock; smaller: stops and the cycle wait less.
const FORGOTTEN_AT_ONCE: usize = 256;

/// Ends a queue: its values are forgotten, who waits is told, and references to it are dropped when
/// their objects die. False if it is closed.
pub fn close(queue: &Queue) -> bool {
    let closed = with_own(|_| {
        let _queues = QUEUES.lock();
        let is_open = queue.is_open();
        if is_open {
            queue.generation.fetch_add(1, AcqRel);
        }
        is_open
    });
    while closed && !with_own(|_| queue.forget_some(&mut QUEUES.lock())) {}
    queue.changes.fetch_add(1, AcqRel);
    futex::wake(&queue.changes, i32::MAX as u32);
    closed
}

impl Queue {
    /// Whether it was opened and not closed.
    pub fn is_open(&self) -> bool {
        self.generation.load(Acquire) % 2 == 1
    }

    /// The queue at an address, if it is an open one's.
    pub fn open_at(address: usize) -> Option<&'static Self> {
        let is_in = |(place, start): (usize, usize)| {
            let offset = address.wrapping_sub(start);
            offset < PAGE_BYTES << place && offset.is_multiple_of(size_of::<Self>())
        };
        let mapped = PLACES.iter().map(|start| start.load(Acquire)).take_while(|start| *start > 0);
        // What was never open is zeroed memory there: a closed queue.
        if !mapped.enumerate().any(is_in) {
            return None;
        }
        at(address).filter(|queue| queue.is_open())
    }

    /// When the object that starts at `object` is gone, `value` comes out of this queue. It is kept
    /// alive until then.
    ///
    /// # Errors
    /// There is no memory for the registration.
    pub fn add(&self, object: usize, value: usize) -> Result<(), NoMemory> {
        pool::before_registration();
        with_own(|own| crate::refs::CLEANERS.add(own, object, REFERENCE, word_of(self), value))
    }

    /// Takes back what [`Queue::add`] registered; false if nothing is registered so (any more).
    pub fn remove(&self, object: usize, value: usize) -> bool {
        with_own(|_| crate::refs::CLEANERS.remove(object, REFERENCE, word_of(self), value))
    }

    /// The oldest value.
    pub fn take(&self) -> Taken {
        self.take_in(self.generation.load(Acquire))
    }

    /// The same; closed if it is not the queue any more that it was in this generation.
    fn take_in(&self, generation: u32) -> Taken {
        let is_closed = || !self.is_open() || self.generation.load(Acquire) != generation;
        if self.oldest.load(Acquire) == 0 {
            return if is_closed() { Taken::Closed } else { Taken::Empty };
        }
        with_own(|_| {
            let _queues = QUEUES.lock();
            if is_closed() {
                return Taken::Closed;
            }
            self.pop().map_or(Taken::Empty, Taken::Value)
        })
    }

    /// The same, waiting until there is one; `deadline` None: as long as it takes. On a mutator; it
    /// can be stopped meanwhile.
    pub fn wait(&self, deadline: Option<Instant>) -> Taken {
        let generation = self.generation.load(Acquire);
        loop {
            let seen = self.changes.load(Acquire);
            let taken = self.take_in(generation);
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if taken != Taken::Empty || left.is_some_and(|left| left.is_zero()) {
                return taken;
            }
            let left_ns = left.map(|left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            self.waiters.fetch_add(1, SeqCst);
            blocked::blocked(attach::current(), || futex::wait(&self.changes, seen, left_ns));
            self.waiters.fetch_sub(1, SeqCst);
        }
    }

    /// Takes the oldest value off. Under [`QUEUES`].
    fn pop(&self) -> Option<usize> {
        let entry = entry_at(self.oldest.load(Relaxed))?;
        self.oldest.store(entry.object.load(Relaxed), Release);
        let value = entry.data.load(Relaxed);
        slab::let_go(entry);
        Some(value)
    }

    /// Takes some values off a queue that was closed, and lists it as free when none is left; then
    /// true. Nobody puts or takes meanwhile, and nobody opens it before. In the child of a `fork`
    /// that comes in between, the rest is lost to it.
    fn forget_some(&self, closed: &mut usize) -> bool {
        for _ in 0..FORGOTTEN_AT_ONCE {
            if self.pop().is_none() {
                self.next_closed.store(*closed, Relaxed);
                *closed = core::ptr::from_ref(self) as usize;
                return true;
            }
        }
        false
    }

    /// Puts an entry at the end. As above.
    fn push(&self, entry: &Entry) {
        let address = core::ptr::from_ref(entry) as usize;
        entry.object.store(0, Relaxed);
        match entry_at(self.oldest.load(Relaxed)) {
            None => self.oldest.store(address, Release),
            Some(_) => {
                if let Some(newest) = entry_at(self.newest.load(Relaxed)) {
                    newest.object.store(address, Release);
                }
            }
        }
        self.newest.store(address, Relaxed);
    }
}

/// Puts a void entry, whose object is gone, on its queue. By the cycle; says what becomes of the
/// entry.
pub(crate) fn put(entry: &'static Entry) -> Verdict {
    let word = entry.function.load(Relaxed);
    let Some(queue) = at(site::without(word)) else { return Verdict::Drop };
    let _queues = QUEUES.lock();
    if !queue.is_open() || word_of(queue) != word {
        return Verdict::Drop;
    }
    queue.push(entry);
    queue.changes.fetch_add(1, SeqCst);
    if queue.waiters.load(SeqCst) > 0 {
        futex::wake(&queue.changes, i32::MAX as u32);
    }
    Verdict::TakeOut
}

/// Marks the values that wait on queues. By the cycle, while nobody puts; a value that is taken
/// meanwhile is on the stack of who took it.
pub(crate) fn trace<M: Marking>(marking: &mut M) {
    // What is left of a closed one is being forgotten.
    for queue in all().filter(|queue| queue.is_open()) {
        let mut waiting = queue.oldest.load(Acquire);
        while let Some(entry) = entry_at(waiting) {
            marking.mark_word(entry.data.load(Relaxed));
            waiting = entry.object.load(Acquire);
        }
    }
}

/// The lock, for who holds it over a `fork`.
pub(crate) fn lock_for_fork() -> &'static dyn ForkLock {
    &QUEUES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::Refs;
    use crate::refs::fake_marking::{FakeMarking, own};

    /// A queue without a mutator.
    fn queue() -> &'static Queue {
        let mut closed = QUEUES.lock();
        let queue = unused(&mut closed).unwrap();
        queue.generation.fetch_add(1, AcqRel);
        queue
    }

    fn pop(queue: &Queue) -> Option<usize> {
        let _queues = QUEUES.lock();
        queue.pop()
    }

    fn add(refs: &Refs, queue: &Queue, object: usize, value: usize) {
        refs.cleaners.add(own(), object, REFERENCE, word_of(queue), value).unwrap();
    }

    #[test]
    fn values_of_dead_objects_come_out_and_are_kept_until_then() {
        let (refs, queue) = (Refs::new(), queue());
        for object in 1..=10 {
            add(&refs, queue, object * 8, object * 800);
        }
        let mut marking = FakeMarking::new(&[(24, 32)]);
        marking.run(&refs, &[24, 80]);
        assert!((1..=10).all(|object| marking.is_marked_now(object * 800)));
        let mut later = FakeMarking::new(&[]);
        later.run(&refs, &[24, 32, 80]);
        assert!((1..=10).all(|object| later.is_marked_now(object * 800)));
        let mut values: Vec<usize> = core::iter::from_fn(|| pop(queue)).collect();
        values.sort_unstable();
        assert_eq!(values, [1, 2, 5, 6, 7, 8, 9].map(|object| object * 800));
        let mut last = FakeMarking::new(&[]);
        last.run(&refs, &[24, 32, 80]);
        assert!(!last.is_marked_now(800) && last.is_marked_now(2400));
        assert_eq!(queue.take(), Taken::Empty);
    }

    #[test]
    fn a_closed_queue_gets_nothing_even_if_it_was_opened_again() {
        let (refs, queue) = (Refs::new(), queue());
        add(&refs, queue, 8, 1);
        queue.generation.fetch_add(1, AcqRel);
        assert_eq!(queue.take(), Taken::Closed);
        queue.generation.fetch_add(1, AcqRel);
        add(&refs, queue, 8, 2);
        FakeMarking::new(&[]).run(&refs, &[]);
        assert_eq!((pop(queue), pop(queue)), (Some(2), None));
    }

    #[test]
    fn a_queue_is_known_by_its_address_however_many_there_are() {
        let count = if cfg!(miri) { 300 } else { 100_000 };
        let queues: Vec<_> = (0..count).map(|_| queue()).collect();
        let began = Instant::now();
        for &one in &queues {
            let address = core::ptr::from_ref(one) as usize;
            let found = Queue::open_at(address).map(core::ptr::from_ref);
            assert_eq!(found, Some(core::ptr::from_ref(one)));
            assert!(Queue::open_at(address + 8).is_none());
        }
        // Where each look passes all of them it takes more than ten.
        assert!(cfg!(miri) || began.elapsed().as_secs() < 2);
        let last = core::ptr::from_ref(*queues.last().unwrap()) as usize;
        for none in [0, 64, last + size_of::<Queue>(), usize::MAX & !63] {
            assert!(Queue::open_at(none).is_none(), "{none:#x}");
        }
        queues[7].generation.fetch_add(1, AcqRel);
        assert!(Queue::open_at(core::ptr::from_ref(queues[7]) as usize).is_none());
    }

    /// Of all that were ever open, through places of several sizes.
    #[test]
    fn values_on_all_queues_are_kept() {
        let refs = Refs::new();
        let queues: Vec<_> = (0..IN_A_PAGE * 8).map(|_| queue()).collect();
        for (number, queue) in (1..).zip(&queues) {
            add(&refs, queue, number * 8, number * 8000);
        }
        FakeMarking::new(&[]).run(&refs, &[]);
        let mut later = FakeMarking::new(&[]);
        later.run(&refs, &[]);
        for (number, queue) in (1..).zip(&queues) {
            assert!(later.is_marked_now(number * 8000));
            assert_eq!(pop(queue), Some(number * 8000));
        }
    }

    #[test]
    fn what_is_left_of_a_closed_queue_is_forgotten_bit_by_bit_and_kept_by_nothing() {
        let (refs, queue) = (Refs::new(), queue());
        let values = FORGOTTEN_AT_ONCE + 10;
        for value in 1..=values {
            add(&refs, queue, value * 8, 1 << 20 | value);
        }
        FakeMarking::new(&[]).run(&refs, &[]);
        queue.generation.fetch_add(1, AcqRel);
        let mut closed = QUEUES.lock();
        let before = *closed;
        assert!(!queue.forget_some(&mut closed) && *closed == before);
        drop(closed);
        let mut marking = FakeMarking::new(&[]);
        marking.run(&refs, &[]);
        assert!((1..=values).all(|value| !marking.is_marked_now(1 << 20 | value)));
        let mut closed = QUEUES.lock();
        assert!(queue.forget_some(&mut closed));
        assert_eq!(*closed, core::ptr::from_ref(queue) as usize);
    }

    #[test]
    fn waiting_ends_at_the_deadline() {
        let queue = queue();
        assert_eq!(queue.wait(Some(Instant::now())), Taken::Empty);
    }
}
