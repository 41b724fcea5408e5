//! The surface for programs that fork: permanent objects, and what to do before forking workers.
//!
//! Invariant: as [`crate::api`]. Called by front ends from mutators.

use crate::cycle::driver::freeze as frozen;
use crate::heap::HEAP;
use crate::runtime::forking_server;
use core::sync::atomic::Ordering::Relaxed;

/// Collects, makes permanent what lives then, and prepares the heap so that children of `fork`
/// share as much as can be. False if collections are disabled or held off by this thread.
pub fn prefork() -> bool {
    super::initialize();
    forking_server::prefork()
}

/// Collects, and makes permanent what lives then: later cycles neither mark nor sweep it. False as
/// [`prefork`].
pub fn freeze() -> bool {
    super::initialize();
    frozen::freeze()
}

/// Makes permanent objects ordinary again. False if collections are held off by this thread.
pub fn unfreeze() -> bool {
    super::initialize();
    frozen::unfreeze()
}

/// Bytes of the cells of permanent objects.
pub fn frozen_bytes() -> usize {
    HEAP.state.frozen_bytes.load(Relaxed)
}
