//! Threads that want to leave a blocked region while the world is stopped: a cycle that was to stop
//! nobody learns of them here.
//!
//! Invariant: who waits for the end of a stop has said so before, since the last [`forget`] if that
//! came before the stop. What an earlier stop left behind may be seen too. Written by mutators that
//! leave a region, and forgotten by who stops the world, before that.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

use crate::sys::clock;

/// Not 0 when somebody waits.
static WANTED: AtomicU8 = AtomicU8::new(0);
/// Since when the first of them does, by the clock; 0 for nobody.
static SINCE_NS: AtomicU64 = AtomicU64::new(0);

/// The caller is about to wait for the end of the stop under way, or stands already.
pub fn note() {
    if SINCE_NS.load(Relaxed) == 0 {
        let _ = SINCE_NS.compare_exchange(0, clock::now_ns(), Relaxed, Relaxed);
        WANTED.store(1, Release);
    }
}

/// Nobody waits. Between stops.
pub fn forget() {
    WANTED.store(0, Relaxed);
    SINCE_NS.store(0, Relaxed);
}

/// Not 0 when somebody waits.
pub fn wanted() -> &'static AtomicU8 {
    &WANTED
}

/// Since when somebody waits, if anybody does.
pub fn since_ns() -> Option<u64> {
    Some(SINCE_NS.load(Relaxed)).filter(|since| *since != 0)
}
