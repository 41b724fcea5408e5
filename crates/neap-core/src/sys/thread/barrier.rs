//! A memory barrier for all threads of the process at once (membarrier(2)), paid by who asks for
//! it: who does something often then needs none of its own against who looks seldom.
//!
//! Invariant: whether it is there changes only while there is one thread. Prepared by who starts
//! the collector, and in the child of a `fork`; asked for by any thread, outside stops.
//!
//! # Safety
//!
//! Reads a byte that libc writes.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering::*, compiler_fence};

use rustix::thread::{MembarrierCommand, Timespec, membarrier, nanosleep};

static IS_THERE: AtomicBool = AtomicBool::new(false);
/// Longer than any processor keeps a store to itself.
const LONG: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

unsafe extern "C" {
    /// glibc ≥ 2.32: not 0 while the process has one thread.
    static __libc_single_threaded: AtomicBool;
}

/// Registers the process for it, if it has one thread: with more the kernel waits until each
/// processor has changed threads. Instruments that follow each access do not know of it.
pub fn prepare() {
    // SAFETY: libc's, read as libc's own functions do.
    let alone = unsafe { __libc_single_threaded.load(Relaxed) };
    if alone && !cfg!(thread_sanitizer) && register() {
        IS_THERE.store(true, Relaxed);
    }
}

/// In the child of a `fork`, which has one thread and what its parent was registered for.
pub fn after_fork() {
    if IS_THERE.load(Relaxed) && !register() {
        IS_THERE.store(false, Relaxed);
    }
}

fn register() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

/// Says something by setting `word`, before the caller reads what follows: of this and who writes
/// that, calls [`in_all_threads`] and then reads `word`, one sees what the other did.
#[inline(always)]
pub fn say(word: &AtomicBool) {
    if IS_THERE.load(Relaxed) {
        word.store(true, Relaxed);
        compiler_fence(SeqCst);
    } else {
        word.swap(true, SeqCst);
    }
}

/// What any thread has said by [`say`] before this is visible when this returns.
pub fn in_all_threads() {
    if !IS_THERE.load(Relaxed) {
        return;
    }
    // The second takes long, and no memory.
    let commands = [MembarrierCommand::PrivateExpedited, MembarrierCommand::Global];
    if !commands.into_iter().any(|command| membarrier(command).is_ok()) {
        // A filter of the program's refuses them since the start. A processor's stores are in
        // memory long before this is over.
        let _ = nanosleep(&LONG);
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicUsize;

    /// Its processor may be wanted by the other one.
    fn wait_until(is_so: impl Fn() -> bool) {
        for turn in 1.. {
            if is_so() {
                return;
            }
            if turn % 1000 == 0 {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn who_has_no_fence_of_its_own_is_seen_or_sees() {
        if !register() {
            return println!("# SKIP the kernel has no barrier for all threads");
        }
        IS_THERE.store(true, Relaxed);
        const ROUNDS: usize = 20_000;
        let words = || (0..ROUNDS).map(|_| AtomicBool::new(false)).collect::<Vec<_>>();
        let (often, seldom, round) = (words(), words(), AtomicUsize::new(0));
        let both_missed = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let one = |now: usize| {
                    wait_until(|| round.load(SeqCst) > now);
                    say(&often[now]);
                    seldom[now].load(Relaxed)
                };
                (0..ROUNDS).map(one).collect::<Vec<bool>>()
            });
            let one = |now: usize| {
                round.store(now + 1, SeqCst);
                // So that the two meet in some rounds.
                (0..now % 256).for_each(|turn| _ = core::hint::black_box(turn));
                seldom[now].store(true, Relaxed);
                in_all_threads();
                let seen = often[now].load(Relaxed);
                wait_until(|| often[now].load(SeqCst));
                seen
            };
            let seen: Vec<bool> = (0..ROUNDS).map(one).collect();
            seen.into_iter()
                .zip(other.join().unwrap())
                .filter(|seen| *seen == (false, false))
                .count()
        });
        assert_eq!(both_missed, 0);
    }
}
