//! How long the program's threads spend in the collector beside stops: sweeping what they are about
//! to use, helping to mark, running the parts of a cycle that are no stop, waiting for one because
//! they allocate too fast.
//!
//! Invariant: clocks are read in slow paths only, and no time is counted twice: what counts a
//! stretch of time counts none within it. Written by the program's threads, read anywhere.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Nanoseconds. Stops are taken off where they end, which may be later than where they were added,
/// so for a moment it may be too little.
static TOTAL_NS: AtomicI64 = AtomicI64::new(0);
/// How long the world stood so far.
static STOOD_NS: AtomicU64 = AtomicU64::new(0);

/// The world stood for so long.
pub fn note_stop(ns: u64) {
    STOOD_NS.fetch_add(ns, Relaxed);
}

/// So much time went by.
pub fn add(ns: u64) {
    TOTAL_NS.fetch_add(ns as i64, Relaxed);
}

/// Runs `f`, whose time counts without the stops that are noted meanwhile; `now_ns` is the clock.
/// `f` calls nothing of the program's, which may come by here again and whose time is its own.
pub fn counted<R>(now_ns: impl Fn() -> u64, f: impl FnOnce() -> R) -> R {
    let (began, stopped) = (now_ns(), STOOD_NS.load(Relaxed));
    let result = f();
    let stopped = STOOD_NS.load(Relaxed) - stopped;
    TOTAL_NS.fetch_add((now_ns() - began) as i64 - stopped as i64, Relaxed);
    result
}

/// All of it, nanoseconds.
pub fn total_ns() -> u64 {
    TOTAL_NS.load(Relaxed).max(0) as u64
}

/// In the child of a `fork`: what was before was its parent's.
pub fn clear() {
    TOTAL_NS.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn stops_are_not_counted() {
        clear();
        let clock = Cell::new(100);
        let seven = counted(
            || clock.get(),
            || {
                clock.set(160);
                note_stop(20);
                7
            },
        );
        add(5);
        assert_eq!((seven, total_ns()), (7, 45));
        // A stop that ended in another's time: told later.
        counted(|| clock.get(), || note_stop(100));
        assert_eq!(total_ns(), 0);
        add(70);
        assert_eq!(total_ns(), 15);
    }
}
