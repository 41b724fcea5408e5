//! Taking a lock time after time, with turns for others.
//!
//! Invariant: whoever sleeps until the lock is free is woken and has it in his turn (between steps
//! when [`MOST_STEPS`] have passed): who came right back would have it first, since waking takes
//! longer.
//! Called by who begins a cycle, by the collector's thread, and by mutators, never while the world
//! is stopped: nobody sleeps there.

use core::time::Duration;

use super::{Guard, Lock};
use crate::sys::clock::Instant;
use crate::sys::futex;

/// For so long others have no turn. Larger: longer waits; smaller: longer work.
const MOST_STEPS: Duration = Duration::from_micros(100);

impl<T> Lock<T> {
    /// Takes the lock for one step after the other, until one says that it was the last. What
    /// `enter` gives, as a mutator's critical section, lasts for a step.
    pub fn in_steps<E>(
        &self,
        enter: impl Fn() -> E,
        mut step: impl FnMut(&mut Guard<'_, T>) -> bool,
    ) {
        let mut began = Instant::now();
        loop {
            let entered = enter();
            let mut held = self.lock();
            let is_last = step(&mut held);
            let waited_for = self.is_waited_for();
            drop(held);
            drop(entered);
            if is_last {
                return;
            }
            if waited_for && began.elapsed() >= MOST_STEPS {
                futex::let_woken_run();
                began = Instant::now();
            }
        }
    }
}

impl<T> Guard<'_, T> {
    /// Lets who sleeps until the lock is free have it, and takes it again.
    pub fn let_others(&mut self) {
        if self.0.is_waited_for() {
            self.without(futex::let_woken_run);
        }
    }
}

#[cfg(all(test, not(any(miri, loom))))]
mod tests {
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

    use super::*;
    use crate::rank::Rank;

    #[test]
    fn who_waits_has_the_lock_between_two_steps() {
        static LOCK: Lock<()> = Lock::new(Rank::Test, ());
        let (steps, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let enter = || ();
                LOCK.in_steps(enter, |_| {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_micros(50) {}
                    steps.fetch_add(1, Relaxed);
                    over.load(Relaxed)
                });
            });
            let wait = |_| {
                futex::sleep(100_000);
                let before = steps.load(Relaxed);
                drop(LOCK.lock());
                steps.load(Relaxed) - before
            };
            let mut waits = (0..100).map(wait).collect::<Vec<_>>();
            over.store(true, Relaxed);
            waits.sort();
            // More where this thread was woken and its processor was busy.
            assert!(waits[50] <= 4, "{waits:?}");
        });
    }
}
