//! Warnings, in libgc's words, of objects that the order of their finalizers keeps for ever.
//!
//! Invariant: one thread warns at a time, world running, no lock held. A warning procedure may
//! collect: what that finds is left to the warning around it. One that was left by a jump, or that
//! ended its thread, looks like one under way, unless the stack is above it; so it counts as left
//! after some collections, twice as many each time, which bounds how deep warnings nest. Called
//! after collections, on the thread that caused them.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::core_api::held_for_ever;
use crate::failure::warn;
use crate::settings::variables::GC_gc_no;

/// Collections that a warning may take before it counts as left, at first. Larger: a procedure may
/// collect more often; smaller: less is lost where one was left.
const COLLECTIONS: usize = 4;
/// Doublings of that at most.
const DOUBLINGS: u32 = 16;

/// For a thread that is about to begin: nobody takes it for one that was left.
const BEGINNING: usize = usize::MAX;

/// Who warns.
struct Warner {
    /// The thread; 0: nobody; or [`BEGINNING`].
    thread: AtomicUsize,
    /// Where its stack was.
    frame: AtomicUsize,
    /// Collections when it began.
    since: AtomicUsize,
    /// Warnings before it that counted as left because of their age.
    left: AtomicU32,
}

static WARNER: Warner = Warner::nobody();

impl Warner {
    const fn nobody() -> Self {
        Self {
            thread: AtomicUsize::new(0),
            frame: AtomicUsize::new(0),
            since: AtomicUsize::new(0),
            left: AtomicU32::new(0),
        }
    }

    /// Whether `thread`, whose stack is at `frame`, is to warn.
    fn begin(&self, thread: usize, frame: usize, collections: usize) -> bool {
        let other = self.thread.load(Acquire);
        let left = self.left.load(Relaxed);
        let is_above = other == thread && frame >= self.frame.load(Relaxed);
        let patience = COLLECTIONS << left.min(DOUBLINGS);
        let is_old = collections.wrapping_sub(self.since.load(Relaxed)) >= patience;
        if other == BEGINNING
            || other != 0 && !is_above && !is_old
            || self.thread.compare_exchange(other, BEGINNING, AcqRel, Relaxed).is_err()
        {
            return false;
        }
        self.left.store(if other == 0 || is_above { 0 } else { left + 1 }, Relaxed);
        self.frame.store(frame, Relaxed);
        self.since.store(collections, Relaxed);
        self.thread.store(thread, Release);
        true
    }

    /// It is over, if nobody took it for left.
    fn end(&self, thread: usize) {
        _ = self.thread.compare_exchange(thread, 0, Release, Relaxed);
    }
}

/// Warns of what the last collection found.
#[inline(never)]
pub fn warn_of_cycles() {
    let local = 0_u8;
    let frame = core::hint::black_box(&raw const local) as usize;
    // SAFETY: no preconditions.
    let thread = unsafe { libc::pthread_self() } as usize;
    if !WARNER.begin(thread, frame, GC_gc_no.load(Relaxed)) {
        return;
    }
    loop {
        match held_for_ever::take() {
            0 => break,
            object => warn(c"GC Warning: Finalization cycle involving %p\n".as_ptr(), object),
        }
    }
    WARNER.end(thread);
}

/// The child of a fork has one thread; what the others were doing is over.
pub fn forget_other_threads() {
    WARNER.thread.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: usize = 1 << 20;

    #[test]
    fn what_a_warning_collects_is_left_to_it() {
        let warner = Warner::nobody();
        assert!(warner.begin(1, HERE, 10));
        assert!(!warner.begin(1, HERE / 2, 11));
        assert!(!warner.begin(2, 2 * HERE, 12));
        warner.end(1);
        assert!(warner.begin(2, HERE / 2, 12));
    }

    #[test]
    fn a_warning_that_was_left_is_noticed() {
        let warner = Warner::nobody();
        assert!(warner.begin(1, HERE, 10));
        assert!(warner.begin(1, HERE, 11), "its frame is gone");
        assert!(!warner.begin(1, HERE / 2, 11 + COLLECTIONS - 1));
        assert!(warner.begin(1, HERE / 2, 11 + COLLECTIONS), "it is old");
        assert!(!warner.begin(1, HERE / 4, 15 + COLLECTIONS), "twice as many");
        assert!(warner.begin(2, HERE, 15 + 2 * COLLECTIONS), "on another thread too");
        warner.end(1);
        assert!(!warner.begin(3, HERE, 16 + 2 * COLLECTIONS), "the former one ends nothing");
    }
}
