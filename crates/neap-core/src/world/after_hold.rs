//! A moment for threads that held collections off, between the end of that and the next stop of
//! the world. A program may hold them off for what no collection may see half done, and do the last
//! bit of it just afterwards: libguile moves a thread's stack under libgc's lock, and says where it
//! is now once it has given the lock back.
//!
//! Invariant: under the collector's lock. [`note`] is called by who held collections off, [`wait`]
//! by who is about to stop the world.

use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::*};

use crate::sys::{clock, futex, thread};

/// A thread that held collections off while somebody waited.
struct Holder {
    /// 0: none.
    thread: AtomicI32,
    /// Its moment is over when it has taken so many nanoseconds of processor time.
    until_ns: AtomicU64,
}

/// The last ones since the last stop: one that lets another hold collections off may not run again
/// before that one is done.
static HOLDERS: [Holder; 16] =
    [const { Holder { thread: AtomicI32::new(0), until_ns: AtomicU64::new(0) } }; 16];
/// How many were noted.
static NOTED: AtomicUsize = AtomicUsize::new(0);

/// Processor time that each gets.
const MOMENT_NS: u64 = 20_000;
/// Who waits looks so often, at this distance: a thread that sleeps from then on takes no time.
const LOOKS: u32 = 30;
const LOOK_NS: u64 = 20_000;

/// The calling thread is about to let collections begin again, and somebody waits for that.
#[cold]
pub fn note() {
    let holder = &HOLDERS[NOTED.fetch_add(1, Relaxed) % HOLDERS.len()];
    holder.until_ns.store(clock::own_processor_ns() + MOMENT_NS, Relaxed);
    holder.thread.store(thread::current(), Relaxed);
}

/// Waits until their moments are over.
pub fn wait() {
    if NOTED.swap(0, Relaxed) == 0 {
        return;
    }
    let own = thread::current();
    let mut looks = LOOKS;
    for holder in &HOLDERS {
        let thread = holder.thread.swap(0, Relaxed);
        while thread != 0 && thread != own && looks > 0 {
            let until = holder.until_ns.load(Relaxed);
            if clock::processor_ns_of(thread).is_none_or(|taken| taken >= until) {
                break;
            }
            futex::sleep(LOOK_NS);
            looks -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    #[test]
    fn who_noted_has_run_for_a_moment_when_the_wait_is_over() {
        static HAS_NOTED: AtomicBool = AtomicBool::new(false);
        let busy = std::thread::spawn(|| {
            note();
            let from = clock::own_processor_ns();
            HAS_NOTED.store(true, Release);
            while clock::own_processor_ns() < from + 200 * MOMENT_NS {}
            thread::current()
        });
        while !HAS_NOTED.load(Acquire) {
            core::hint::spin_loop();
        }
        let (thread, until) = (HOLDERS[0].thread.load(Relaxed), HOLDERS[0].until_ns.load(Relaxed));
        let began = clock::now_ns();
        wait();
        let waited = clock::now_ns() - began;
        // On a busy machine it may get no processor for all of the looks.
        let has_run = clock::processor_ns_of(thread).is_none_or(|taken| taken >= until);
        assert!(has_run || waited >= u64::from(LOOKS) * LOOK_NS, "waited {waited} ns");
        assert_eq!(HOLDERS[0].thread.load(Relaxed), 0);
        assert_eq!(busy.join().unwrap(), thread);
    }
}
