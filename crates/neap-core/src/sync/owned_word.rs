//! The words of a lock: who holds it, and whether somebody sleeps until it is free.
//!
//! Invariant: to write one's own name is to take the lock, and to write 0 is to give it back, so
//! that a handler of a signal which forks knows what its thread has, wherever it comes. Whoever
//! sleeps has said so before he tried for the last time; whoever wakes one leaves it to that one to
//! say so again. Called by any thread, of its own. Model-checked in `tests/loom_lock.rs`.

use crate::sync::modelled::{AtomicU32, AtomicUsize, Ordering::*, fence};
use crate::sys::futex;

/// Looks so often at a lock that another thread holds before it sleeps. Holders keep it for a
/// fraction of a microsecond: sleeping and waking cost more than a long spin.
const SPINS: u32 = if cfg!(loom) { 1 } else { 70 };

/// Free where both are 0.
pub struct OwnedWord {
    /// The name of who holds it; 0 for nobody.
    pub holder: AtomicUsize,
    /// 1 where somebody may be sleeping. Set by who is about to sleep, cleared by who wakes him.
    pub sleeper: AtomicU32,
}

impl OwnedWord {
    /// Whether the lock was free, and is the caller's now.
    #[inline(always)]
    pub fn try_take(&self, name: usize) -> bool {
        self.holder.compare_exchange(0, name, SeqCst, SeqCst).is_ok()
    }

    /// Takes it once it is free.
    #[cold]
    pub fn take(&self, name: usize) {
        self.take_unless(name, None, || false);
    }

    /// The same unless `enough` says so first, which is asked before each sleep, and again after so
    /// many nanoseconds; whether it is the caller's.
    pub fn take_unless(
        &self,
        name: usize,
        look_ns: Option<u64>,
        enough: impl Fn() -> bool,
    ) -> bool {
        for turn in 0..SPINS {
            for _ in 0..1 << (turn / 2).min(5) {
                core::hint::spin_loop();
            }
            if self.holder.load(Relaxed) == 0 && self.try_take(name) {
                return true;
            }
        }
        loop {
            // Who gives the lock back looks here after that: so either he sees this, or the lock is
            // free by now. It stays set where it was in vain, since others may sleep.
            self.sleeper.store(1, SeqCst);
            in_one_order();
            if self.try_take(name) {
                return true;
            }
            // One that was woken says again that others may sleep, and goes only then.
            if enough() {
                return false;
            }
            futex::wait(&self.sleeper, 1, look_ns);
        }
    }

    /// Gives it back.
    #[inline(always)]
    pub fn give_back(&self) {
        self.holder.swap(0, SeqCst);
        in_one_order();
        if self.sleeper.load(SeqCst) != 0 {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        self.sleeper.store(0, SeqCst);
        futex::wake(&self.sleeper, 1);
    }
}

/// Loom takes sequentially consistent accesses for weaker ones, and knows of fences alone.
#[inline(always)]
fn in_one_order() {
    if cfg!(loom) {
        fence(SeqCst);
    }
}
