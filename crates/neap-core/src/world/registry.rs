//! The list of mutators and of stacks that are no thread's own.
//!
//! Invariant: who stops the world holds this lock from before the first signal until after the
//! resume, so no thread is attached or detached meanwhile. Waiting for it is allowed outside
//! critical sections only.
//!
//! # Safety
//!
//! Makes references to mutators and stacks in the list. They live until they are taken out, which
//! needs the lock that the caller holds.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::*};
use core::time::Duration;

use super::backoff::Backoff;
use super::mutator::Mutator;
use super::stacks::stack::Stack;
use crate::rank::Rank;
use crate::stats::live;
use crate::sync::{ForkLock, Guard, Lock};
use crate::sys::clock::Instant;

/// The lists.
pub struct Registry {
    first: usize,
    count: usize,
    pub(super) first_stack: usize,
    pub(super) backoff: Backoff,
    /// The mutator that [`visit_next`](Self::visit_next) gives; 0: none.
    next_visited: usize,
    /// Objects and bytes that detached threads allocated.
    retired: (u64, u64),
    /// The most that [`totals`](Self::totals) said.
    told: [AtomicU64; 2],
    /// Bytes that they freed.
    retired_freed_bytes: u64,
}

static REGISTRY: Lock<Registry> = Lock::new(Rank::Registry, Registry::new());

/// Takes the lock.
pub fn lock() -> Guard<'static, Registry> {
    REGISTRY.lock()
}

/// [`visit`] begins with the first mutator.
pub fn begin_visit() {
    lock().begin_visit();
}

/// Runs `f` on one mutator after the other for so long, with turns for others who want the lock:
/// they may end meanwhile, and those that begin are not visited. Whether some may be left. By one
/// thread at a time.
pub fn visit(longest: Duration, f: impl FnMut(&mut Registry, &'static Mutator)) -> bool {
    visit_in(&REGISTRY, longest, f)
}

fn visit_in(
    registry: &Lock<Registry>,
    longest: Duration,
    mut f: impl FnMut(&mut Registry, &'static Mutator),
) -> bool {
    let (began, mut is_left) = (Instant::now(), true);
    let enter = || ();
    registry.in_steps(enter, |registry| {
        match registry.visit_next() {
            Some(mutator) => f(registry, mutator),
            None => is_left = false,
        }
        !is_left || began.elapsed() >= longest
    });
    is_left
}

/// Whether the calling thread has it, as who stops the world does until the resume.
pub fn is_mine() -> bool {
    REGISTRY.is_mine()
}

/// Runs `f` on the lists, in a callback of the program too, for which this thread has stopped the
/// world.
pub fn with<R>(f: impl FnOnce(&Registry) -> R) -> R {
    if is_mine() {
        // SAFETY: this thread has the lock, and who calls the program back only reads meanwhile.
        return f(unsafe { REGISTRY.read_held() });
    }
    f(&lock())
}

/// Unlocks what this thread holds with a forgotten guard.
///
/// # Safety
/// The calling thread took the lock and forgot its guard.
pub unsafe fn unlock_forgotten() {
    // SAFETY: the caller's promise.
    unsafe { REGISTRY.unlock_forgotten() };
}

/// The lock, for who holds it over a `fork`.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &REGISTRY
}

impl Registry {
    const fn new() -> Self {
        Self {
            first: 0,
            count: 0,
            first_stack: 0,
            backoff: Backoff::new(),
            next_visited: 0,
            retired: (0, 0),
            told: [const { AtomicU64::new(0) }; 2],
            retired_freed_bytes: 0,
        }
    }

    /// Adds a mutator.
    pub fn add(&mut self, mutator: &'static Mutator) {
        let address = core::ptr::from_ref(mutator) as usize;
        mutator.next.store(self.first, Relaxed);
        mutator.previous.store(0, Relaxed);
        if let Some(first) = at(self.first) {
            first.previous.store(address, Relaxed);
        }
        self.first = address;
        self.count += 1;
        live::set_threads(self.count);
    }

    /// Takes a mutator out.
    pub fn remove(&mut self, mutator: &Mutator) {
        let (next, previous) = (mutator.next.load(Relaxed), mutator.previous.load(Relaxed));
        match at(previous) {
            Some(previous) => previous.next.store(next, Relaxed),
            None => self.first = next,
        }
        if let Some(next) = at(next) {
            next.previous.store(previous, Relaxed);
        }
        if self.next_visited == core::ptr::from_ref(mutator) as usize {
            self.next_visited = next;
        }
        self.count -= 1;
        live::set_threads(self.count);
        let (objects, bytes) = mutator.local.totals();
        self.retired = (self.retired.0 + objects, self.retired.1 + bytes);
        self.retired_freed_bytes += mutator.freed_bytes.load(Relaxed);
    }

    /// The mutators. One may be removed while it is the current item.
    pub fn iter(&self) -> impl Iterator<Item = &'static Mutator> + use<> {
        let mut next = self.first;
        core::iter::from_fn(move || {
            let mutator = at(next)?;
            next = mutator.next.load(Relaxed);
            Some(mutator)
        })
    }

    /// [`visit_next`](Self::visit_next) begins with the first one.
    pub fn begin_visit(&mut self) {
        self.next_visited = self.first;
    }

    /// The next one, also under another hold of the lock.
    pub fn visit_next(&mut self) -> Option<&'static Mutator> {
        let mutator = at(self.next_visited)?;
        self.next_visited = mutator.next.load(Relaxed);
        Some(mutator)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The stacks that are no thread's own.
    pub fn stacks(&self) -> impl Iterator<Item = &'static Stack> + use<> {
        let mut next = self.first_stack;
        core::iter::from_fn(move || {
            // SAFETY: 0 or a stack in the list, which lives until it is retired under this lock.
            let stack = unsafe { (next as *const Stack).as_ref() }?;
            next = stack.next();
            Some(stack)
        })
    }

    /// Objects and bytes allocated so far by all threads: never less than it said before.
    pub fn totals(&self) -> (u64, u64) {
        let (objects, bytes) = self
            .iter()
            .map(|mutator| mutator.local.totals())
            .fold(self.retired, |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let [told_objects, told_bytes] = &self.told;
        (
            objects.max(told_objects.fetch_max(objects, Relaxed)),
            bytes.max(told_bytes.fetch_max(bytes, Relaxed)),
        )
    }

    /// Bytes of the objects that all threads freed so far for the program.
    pub fn freed_bytes(&self) -> u64 {
        let by_threads: u64 = self.iter().map(|mutator| mutator.freed_bytes.load(Relaxed)).sum();
        self.retired_freed_bytes + by_threads
    }
}

fn at(address: usize) -> Option<&'static Mutator> {
    // SAFETY: 0 or a mutator in the list, which lives until it is taken out under this lock.
    unsafe { (address as *const Mutator).as_ref() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::addr::PAGE_BYTES;
    use crate::sys::map;

    /// One without a thread.
    pub(crate) fn mutator() -> &'static Mutator {
        let memory = map::allocate(size_of::<Mutator>().next_multiple_of(PAGE_BYTES)).unwrap();
        // SAFETY: zeroed memory of its own, large enough; zero is valid for every field.
        let mutator = unsafe { &*memory.pointer::<Mutator>() };
        mutator.local.initialize();
        mutator
    }

    #[test]
    fn a_visit_leaves_out_who_came_or_ended_meanwhile() {
        let lock = Lock::new(Rank::Test, Registry::new());
        let [first, second, third, late] = [(); 4].map(|()| mutator());
        [third, second, first].iter().for_each(|&mutator| lock.lock().add(mutator));
        let (mut visited, mut visits) = (Vec::new(), 1);
        lock.lock().begin_visit();
        // A visit that has no time visits one.
        while visit_in(&lock, Duration::ZERO, |registry, mutator| {
            visited.push(core::ptr::from_ref(mutator));
            if visited.len() == 1 {
                registry.remove(second);
                registry.add(late);
            }
            registry.remove(mutator);
        }) {
            visits += 1;
        }
        assert_eq!(visits, 3);
        assert_eq!(visited, [first, third].map(core::ptr::from_ref));
        assert_eq!(lock.lock().count(), 1);
    }
}
