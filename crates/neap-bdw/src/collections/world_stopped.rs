//! Whether the world is stopped, as far as functions of the program may notice.
//!
//! Written by who stops it: the cycle, or the program itself. Read by functions of the program that
//! run meanwhile.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The world is stopped, for a collection or by the program.
static WORLD_STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether the world is stopped, as far as the program's functions may notice.
pub fn get() -> bool {
    WORLD_STOPPED.load(Relaxed)
}

/// The world was stopped, or is about to run.
pub fn set(stopped: bool) {
    WORLD_STOPPED.store(stopped, Relaxed);
}
