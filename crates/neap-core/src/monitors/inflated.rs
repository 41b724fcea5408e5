//! An inflated monitor: a lock on which threads sleep, and a condition.
//!
//! Invariant: the lock is held by one thread, which alone reads and writes owner and depth. A
//! thread that sleeps is counted before it looks at the state for the last time, and who unlocks
//! looks at the count after it changed the state, both sequentially consistent, so nobody sleeps on
//! a free lock; one wake-up is under way at a time, so unlocking makes a system call only when
//! somebody is asleep and nobody is waking. Model-checked in `tests/loom_monitors.rs`. Called from
//! any thread; waiting is done in blocked regions by `monitor`.

use crate::sync::modelled::{AtomicU32, AtomicUsize, Ordering::*};
use crate::sys::futex;

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
    /// Threads that wait for it in any way, or wait to be notified: it is not deflated meanwhile.
    /// Changed in critical sections.
    pub users: AtomicU32,
    /// Advanced by each notification; who waits for one sleeps on it.
    pub sequence: AtomicU32,
    /// Its object; 0 while it has none. Written by who inflates, and by the cycle.
    pub object: AtomicUsize,
    /// The next record without an object, plus one.
    pub next_free: AtomicU32,
}

/// Looks so often at a lock that is held before it sleeps. Larger: fewer system calls where locks
/// are held shortly; smaller: less heat where they are not.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };

impl Inflated {
    /// One that no object has.
    #[cfg(any(loom, test))]
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            depth: AtomicU32::new(0),
            users: AtomicU32::new(0),
            sequence: AtomicU32::new(0),
            object: AtomicUsize::new(0),
            next_free: AtomicU32::new(0),
        }
    }

    /// Takes the lock if it is free, whoever is being woken.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.state.load(Relaxed) & HELD == 0 && self.state.fetch_or(HELD, Acquire) & HELD == 0
    }

    /// Whether nobody is in it, nor waits. Who sleeps, or was woken, is a user, so a wake-up that
    /// is under way without users is nobody's. World stopped.
    pub fn is_idle(&self) -> bool {
        self.state.load(Relaxed) & HELD == 0 && self.users.load(Relaxed) == 0
    }

    /// Takes the lock as held by a thread that entered the thin one. Before the record is
    /// published.
    pub fn adopt(&self, owner: u32, depth: u32) {
        self.state.store(HELD, Relaxed);
        self.owner.store(owner, Relaxed);
        self.depth.store(depth, Relaxed);
    }

    /// Takes it back as held by nobody, before it is published, or when no lock word leads to it:
    /// nobody is at it. Threads that left it by a jump may be counted still.
    pub fn release_for_reuse(&self) {
        self.state.store(0, Relaxed);
        self.owner.store(0, Relaxed);
        self.sleepers.store(0, Relaxed);
        self.users.store(0, Relaxed);
    }

    /// Waits for the lock; false if that took longer than `left` allows, which is asked before each
    /// sleep and says how long it may last.
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
        totally_ordered();
        loop {
            let state = self.state.load(SeqCst);
            if state & HELD == 0 {
                // Whether it was this thread that is waking does not matter: one more wake-up is
                // made at worst.
                if self.state.compare_exchange(state, HELD, SeqCst, Relaxed).is_ok() {
                    self.sleepers.fetch_sub(1, SeqCst);
                    return true;
                }
                continue;
            }
            if state & WAKING != 0 {
                // It was woken for nothing, and goes to sleep again: the next unlock has to wake
                // somebody.
                let _ = self.state.compare_exchange(state, HELD, SeqCst, Relaxed);
                continue;
            }
            let Some(ns) = left() else {
                self.sleepers.fetch_sub(1, SeqCst);
                totally_ordered();
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
        totally_ordered();
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

    /// After that: the only thread waits for a notification, or (`sleeps`) for the lock.
    pub fn count_in_child(&self, sleeps: bool) {
        self.users.store(1, Relaxed);
        self.sleepers.store(u32::from(sleeps), Relaxed);
    }
}

/// What sequentially consistent accesses on both sides of it are anyway. loom takes them for less,
/// and has to be told.
#[inline(always)]
fn totally_ordered() {
    #[cfg(loom)]
    crate::sync::modelled::fence(SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn sleep(word: &AtomicU32, expected: u32, ns: u64) {
        futex::wait(word, expected, Some(ns));
    }

    #[test]
    fn only_one_holds_it_and_nobody_is_forgotten() {
        let (monitor, count) = (&Inflated::new(), AtomicU32::new(0));
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
        assert!(monitor.state.load(Relaxed) == 0 && monitor.sleepers.load(Relaxed) == 0);
    }

    #[test]
    fn a_free_lock_is_taken_while_sleepers_are_woken() {
        let (monitor, over) = (&Inflated::new(), &AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while over.load(Relaxed) == 0 {
                    monitor.state.fetch_xor(WAKING, SeqCst);
                }
            });
            let (mut seen, mut changes, mut refused) = (0, 0, 0);
            while changes < 100 {
                refused += u32::from(!monitor.try_lock());
                monitor.unlock();
                let now = monitor.state.load(Relaxed);
                changes += u32::from(now != seen);
                seen = now;
            }
            over.store(1, Relaxed);
            assert_eq!(refused, 0);
        });
    }

    #[test]
    fn a_wake_up_that_nobody_took_keeps_no_monitor() {
        let monitor = Inflated::new();
        monitor.sleepers.store(1, Relaxed);
        monitor.wake_one();
        monitor.sleepers.store(0, Relaxed);
        assert!(monitor.is_idle());
        assert!(monitor.try_lock() && !monitor.is_idle());
    }

    #[test]
    fn who_left_a_monitor_by_a_jump_does_not_count_in_the_next_one() {
        let monitor = Inflated::new();
        for count in [&monitor.sleepers, &monitor.users] {
            count.store(1, Relaxed);
        }
        assert!(monitor.try_lock());
        monitor.unlock();
        monitor.release_for_reuse();
        assert!(monitor.is_idle() && monitor.sleepers.load(Relaxed) == 0);
    }

    #[test]
    fn who_gives_up_waiting_wakes_another_if_it_was_woken() {
        let monitor = &Inflated::new();
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
        assert_eq!(monitor.state.load(Relaxed), 0);
    }
}
