//! Where markers without work sleep, so that they take no processor from those that have some.
//!
//! Invariant `[mark.inv.idle]`: a marker sleeps only after it has said so and has then found no
//! work; who offers work does that first and looks for sleepers afterwards, both with a fence
//! between. So one of them sees the other; and nobody sleeps longer than [`LONGEST_NS`] anyway.

use core::sync::atomic::{AtomicU32, Ordering::*, fence};

use crate::sys::futex;

/// Larger: fewer looks in vain; smaller: what was missed is found sooner.
const LONGEST_NS: u64 = 1_000_000;

/// Who sleeps.
pub struct Idle {
    /// Changes when there may be work.
    epoch: AtomicU32,
    sleeping: AtomicU32,
}

impl Idle {
    /// Nobody.
    pub fn new() -> Self {
        Self { epoch: AtomicU32::new(0), sleeping: AtomicU32::new(0) }
    }

    /// Sleeps until there may be work, unless `has_work` finds some.
    pub fn sleep(&self, has_work: impl FnOnce() -> bool) {
        let epoch = self.epoch.load(Acquire);
        self.sleeping.fetch_add(1, Relaxed);
        fence(SeqCst);
        if !has_work() {
            futex::wait(&self.epoch, epoch, Some(LONGEST_NS));
        }
        self.sleeping.fetch_sub(1, Relaxed);
    }

    /// There is work, or there will be none any more.
    pub fn wake(&self) {
        fence(SeqCst);
        if self.sleeping.load(Relaxed) > 0 {
            self.epoch.fetch_add(1, Release);
            futex::wake(&self.epoch, i32::MAX as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock;
    use core::sync::atomic::AtomicBool;

    #[test]
    fn who_finds_work_does_not_sleep_and_who_does_is_woken() {
        let (idle, has_work) = (Idle::new(), AtomicBool::new(false));
        idle.sleep(|| true);
        idle.wake();
        assert_eq!(idle.epoch.load(Relaxed), 0, "nobody to wake");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_work.load(Relaxed) {
                    idle.sleep(|| has_work.load(Relaxed));
                }
            });
            while idle.epoch.load(Relaxed) == 0 {
                idle.wake();
            }
            has_work.store(true, Relaxed);
            idle.wake();
        });
        assert_eq!(idle.sleeping.load(Relaxed), 0);
        let began = clock::now_ns();
        idle.sleep(|| false);
        assert!(clock::now_ns() - began >= LONGEST_NS, "it slept");
    }
}
