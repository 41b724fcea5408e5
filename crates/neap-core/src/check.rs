//! How much the collector checks of itself: `NEAP_CHECK`, 0 to 3.
//!
//! 0: nothing that costs. 1: misuse by the program is looked for. 2: the heap's structure is verified in every cycle. 3: so is marking.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level in force.
#[inline(always)]
pub fn level() -> u8 {
    LEVEL.load(Relaxed)
}

/// Sets it; once, at start-up.
pub fn set_level(level: u8) {
    LEVEL.store(level, Relaxed);
}
