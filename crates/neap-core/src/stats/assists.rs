//! How long the program's threads spend in the collector beside stops: sweeping what they are about
//! to use, helping to mark, running the parts of a cycle that are no stop, waiting for one because
//! they allocate too fast.
//!
//! Invariant: clocks are read in slow paths only, and no time is counted twice: what counts a
//! stretch of time counts none within it. Written by the program's threads, read anywhere.

use core::sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::histogram::Histogram;

/// Nanoseconds. Stops are taken off where they end, which may be later than where they were added,
/// so for a moment it may be too little.
static TOTAL_NS: AtomicI64 = AtomicI64::new(0);

/// So much time went by.
pub fn add(ns: u64) {
    TOTAL_NS.fetch_add(ns as i64, Relaxed);
}

/// Runs `f`, whose time counts without the stops that `stops` counts meanwhile; `now_ns` is the
/// clock.
pub fn counted<R>(stops: &Histogram, now_ns: impl Fn() -> u64, f: impl FnOnce() -> R) -> R {
    let (began, stopped) = (now_ns(), stops.total());
    let result = f();
    let stopped = stops.total().saturating_sub(stopped);
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
        let (stops, clock) = (Histogram::new(), Cell::new(100));
        let seven = counted(
            &stops,
            || clock.get(),
            || {
                clock.set(160);
                stops.add(20);
                7
            },
        );
        add(5);
        assert_eq!((seven, total_ns()), (7, 45));
        // A stop that ended in another's time: told later.
        counted(&stops, || clock.get(), || stops.add(100));
        assert_eq!(total_ns(), 0);
        add(70);
        assert_eq!(total_ns(), 15);
    }
}
