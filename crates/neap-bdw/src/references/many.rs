//! Collections in place of growth where many finalizers were registered: as many for what was
//! allocated as the program said.
//!
//! Invariant: nothing is counted until a program sets the number of bytes that a finalizer stands
//! for; so as long as collections find nothing to finalize they come no sooner. Called from any
//! thread, world running.

use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicUsize, Ordering::Relaxed};

use crate::collections::incremental::GC_is_incremental_mode;
use crate::core_api::{self as api, embedding};

/// What a finalizer stands for, in bytes.
static BYTES_PER_FINALIZER: AtomicUsize = AtomicUsize::new(10_000);
/// The program said so.
static COUNTED: AtomicBool = AtomicBool::new(false);
/// Registered since the last collection, those taken back subtracted.
static REGISTERED: AtomicIsize = AtomicIsize::new(0);
/// Collections for which it still counts that one found something to finalize.
static FRUITFUL: AtomicU32 = AtomicU32::new(0);

/// 0: finalizers bring nothing forward.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_allocd_bytes_per_finalizer(bytes: usize) {
    BYTES_PER_FINALIZER.store(bytes, Relaxed);
    COUNTED.store(bytes != 0, Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_allocd_bytes_per_finalizer() -> usize {
    BYTES_PER_FINALIZER.load(Relaxed)
}

/// A finalizer was registered (1), or taken back (-1).
pub fn count(change: isize) {
    if change != 0 && COUNTED.load(Relaxed) {
        REGISTERED.fetch_add(change, Relaxed);
    }
}

/// After a collection, which found something to finalize or did not.
pub fn after_collection(finalizes: bool) {
    REGISTERED.store(0, Relaxed);
    let left = if finalizes { 2 } else { FRUITFUL.load(Relaxed).saturating_sub(1) };
    FRUITFUL.store(left, Relaxed);
}

/// The heap has grown: with many finalizers it would have been better collected, and is next.
pub fn heap_has_grown() {
    if !COUNTED.load(Relaxed) || FRUITFUL.load(Relaxed) == 0 || GC_is_incremental_mode() != 0 {
        return;
    }
    let registered = REGISTERED.load(Relaxed).max(0) as usize;
    let stand_for = registered.saturating_mul(BYTES_PER_FINALIZER.load(Relaxed));
    let allocated = api::allocated_since_cycle() as usize;
    if stand_for > allocated {
        embedding::bring_cycle_forward(allocated.max(1), usize::MAX);
    }
}
