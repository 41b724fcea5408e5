//! How long threads that allocate wait for one that holds collections off: it may wait for them.
//!
//! Invariant: each hold has a number of its own, and is waited for once for so long, by all of them
//! together. Called by threads of the program; the number changes under the collector's lock.

use core::sync::atomic::{AtomicU64, Ordering::*};

use super::collector::{COLLECTOR, Collector};
use crate::sync::Guard;
use crate::sys::clock;

/// How long threads that allocate wait for one that holds collections off, which may be waiting for
/// them. Larger: such a program stands longer; smaller: one that holds them off for that long
/// without waiting grows.
const PATIENCE_NS: u64 = 100_000_000;
/// How often who sleeps looks whether it has waited for so long.
const LOOK_NS: u64 = 10_000_000;
/// Holds begun and ended: odd while collections are held off. Written by who has the lock.
static HOLDS: AtomicU64 = AtomicU64::new(0);
/// The hold that was waited for last, and since when by the clock. Written by who waits.
static AWAITED: AtomicU64 = AtomicU64::new(0);
static AWAITED_SINCE_NS: AtomicU64 = AtomicU64::new(0);

/// The calling thread, which has the lock, begins to hold collections off, or no longer does.
pub fn note_hold() {
    HOLDS.store(HOLDS.load(Relaxed) + 1, Relaxed);
}

/// Whether threads that allocate have waited for this hold for so long that they go on without a
/// cycle `[cycle.why.patience]`. Asked by who waits, or would.
pub fn is_hold_long() -> bool {
    let (hold, now_ns) = (HOLDS.load(Relaxed), clock::now_ns());
    if hold.is_multiple_of(2) {
        return false;
    }
    if AWAITED.load(Acquire) != hold {
        AWAITED_SINCE_NS.store(now_ns, Relaxed);
        AWAITED.store(hold, Release);
    }
    now_ns.saturating_sub(AWAITED_SINCE_NS.load(Relaxed)) >= PATIENCE_NS
}

/// The collector's lock. None where another thread holds collections off for long, unless the
/// caller `waits` for a cycle in any case, as who only allocates does not.
pub fn lock(waits: bool) -> Option<Guard<'static, Collector>> {
    if waits {
        return Some(COLLECTOR.lock());
    }
    COLLECTOR.try_lock().or_else(|| match is_hold_long() {
        true => None,
        false => COLLECTOR.lock_unless(LOOK_NS, is_hold_long),
    })
}
