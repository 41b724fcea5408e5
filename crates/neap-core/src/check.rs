//! How much the collector checks of itself: `NEAP_CHECK`, 0 to 3.
//!
//! 0: nothing that costs. 1: the heap's structure is verified at the end of every cycle. 2: at its
//! beginning too. 3: and every marked object's pointers; and every other stop that may end early
//! does.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// From this level on every marked object's pointers are checked.
pub const MARKS: u8 = 3;

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level in force.
#[inline(always)]
pub fn level() -> u8 {
    LEVEL.load(Relaxed)
}

/// Whether the stop of the cycle with this number, if it may end early, does so at once.
pub fn ends_early(cycle: u64) -> bool {
    level() >= MARKS && !cycle.is_multiple_of(2)
}

/// Sets it; once, at start-up.
pub fn set_level(level: u8) {
    LEVEL.store(level, Relaxed);
}

/// Says that a test cannot run here, and why: `return skip("…")`. The runner shows it as skipped.
#[cfg(test)]
pub fn skip(reason: &str) {
    // Its own line, which the runner looks for (`cargo xtask rust-tests`).
    println!("# SKIP {reason}");
}
