//! Whether the world is stopped, as far as functions of the program may notice.
//!
//! Written by who stops it: the cycle, or the program between two calls. Read by functions of the
//! program that run meanwhile.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The world is stopped, for a collection or by the program.
static WORLD_STOPPED: AtomicBool = AtomicBool::new(false);

/// It is the program that has stopped it.
static BY_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Whether the world is stopped, as far as the program's functions may notice.
pub fn get() -> bool {
    WORLD_STOPPED.load(Relaxed)
}

/// The world was stopped, or is about to run.
pub fn set(stopped: bool) {
    WORLD_STOPPED.store(stopped, Relaxed);
}

/// The same, of the program itself.
pub fn set_by_program(stopped: bool) {
    BY_PROGRAM.store(stopped, Relaxed);
    set(stopped);
}

/// Whether it is stopped for a collection.
pub fn is_for_collection() -> bool {
    get() && !BY_PROGRAM.load(Relaxed)
}
