//! When collections come, as far as the program says: a heap of a wanted size that is filled first,
//! or any heap that is; bytes that are to lie between two collections; memory that is the program's
//! own business; a heap that is not to grow.
//!
//! Invariant: nothing here keeps a collection from an allocation that was refused memory. What is
//! put off is asked again as the heap grows; figures are those of the moment. Called from any
//! thread, world running.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::collections::incremental::GC_is_incremental_mode;
use crate::core_api::embedding::{self, Watching};
use crate::core_api::{self as api, Memory};
use crate::settings::environment::{self, Number};
use crate::settings::handed_over::HandedOver;
use crate::settings::variables::{
    GC_dont_expand, GC_free_space_divisor, GC_non_gc_bytes, GC_use_entire_heap, accessors,
};

/// Bytes of the heap that the program asked for; until so many are in use nothing is collected.
static WANTED_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Bytes allocated between two collections at least.
static LEAST_BYTES: AtomicUsize = AtomicUsize::new(1);
/// Bytes that fill the heap as it was after the last collection, with `GC_use_entire_heap`; else 0.
static ENTIRE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// `GC_non_gc_bytes` at the last collection.
static NON_GC_BYTES_BEFORE: AtomicUsize = AtomicUsize::new(0);
/// Bytes that were allocated when the next collection was due; 0 if it is not.
static DUE_BYTES: AtomicUsize = AtomicUsize::new(0);

accessors! {
    GC_set_min_bytes_allocd, GC_get_min_bytes_allocd: usize => LEAST_BYTES;
}

/// The heap's size as `gc.h` counts it: pages that were asked for and never written are in it.
#[derive(Clone, Copy)]
pub struct Size {
    pub heap: usize,
    pub free: usize,
    pub unmapped: usize,
}

impl Size {
    /// Of this memory.
    fn of(now: Memory) -> Self {
        let (committed, given_back) = (now.committed as usize, now.unmapped as usize);
        let heap = WANTED_BYTES.load(Relaxed).min(committed + given_back).max(committed);
        let unwritten = heap - committed;
        Self { heap, free: now.free as usize + unwritten, unmapped: given_back - unwritten }
    }

    pub fn now() -> Self {
        Self::of(api::memory())
    }
}

/// The heap gets larger by that much, and is filled before anything is collected. 1 on success.
#[unsafe(no_mangle)]
pub extern "C" fn GC_expand_hp(bytes: usize) -> c_int {
    let before = Size::now().heap.max(WANTED_BYTES.load(Relaxed));
    let expanded = api::expand(bytes);
    if expanded {
        WANTED_BYTES.fetch_max(before.saturating_add(bytes), Relaxed);
    }
    expanded.into()
}

/// While a heap of the size that was asked for has gaps, in which objects of the right sizes find
/// room, it may grow by this part of it. Larger: collections sooner, less memory.
const FOR_GAPS: usize = 16;

/// Whether what the program asked for by [`GC_expand_hp`] is not filled: neither by blocks, nor
/// their gaps by what was allocated since the last collection.
fn has_room(wanted: usize) -> bool {
    let used = api::used_bytes() as usize;
    used < wanted || used < wanted + wanted / FOR_GAPS && (api::held_bytes() as usize) < wanted
}

/// Whether the program wants the collection that is due to wait. Asked at each refill while one is
/// due.
pub fn puts_off() -> bool {
    let before = NON_GC_BYTES_BEFORE.load(Relaxed);
    // Signed, as programs count down too.
    let managed = (GC_non_gc_bytes.load(Relaxed).wrapping_sub(before) as isize).max(0) as usize;
    let least = LEAST_BYTES.load(Relaxed);
    let (wanted, entire) = (WANTED_BYTES.load(Relaxed), ENTIRE_BYTES.load(Relaxed));
    if wanted == 0 && entire == 0 && least <= 1 && managed == 0 {
        return false;
    }
    let allocated = api::allocated_since_cycle() as usize;
    let _ = DUE_BYTES.compare_exchange(0, allocated, Relaxed, Relaxed);
    allocated < least
        || has_room(wanted)
        || (api::held_bytes() as usize) < entire
        || others(allocated, managed) < DUE_BYTES.load(Relaxed)
}

/// What counts of the bytes allocated when so many are the program's business: an eighth at least.
fn others(allocated: usize, managed: usize) -> usize {
    match managed {
        0 => allocated,
        _ => allocated.saturating_sub(managed).max(allocated / 8),
    }
}

/// After each collection.
pub fn after_collection() {
    NON_GC_BYTES_BEFORE.store(GC_non_gc_bytes.load(Relaxed), Relaxed);
    DUE_BYTES.store(0, Relaxed);
    let entire = GC_use_entire_heap.load(Relaxed) != 0 && GC_is_incremental_mode() == 0;
    ENTIRE_BYTES.store(if entire { filled(live_bytes()) } else { 0 }, Relaxed);
    if GC_dont_expand.load(Relaxed) != 0 {
        collect_before_growth();
    }
}

fn live_bytes() -> usize {
    api::statistics().live_bytes as usize
}

/// Bytes in use when the heap is full of which so many are live. Blocks are not filled to the last
/// cell.
fn filled(live: usize) -> usize {
    live + Size::now().heap.saturating_sub(live) / 8 * 7
}

/// Has the next collection come before the heap has to grow. With next to nothing to go it may grow
/// all the same: what is live has to lie somewhere.
fn collect_before_growth() {
    let live = live_bytes();
    let ends = (filled(live) - live).max(live / 16).max(64 << 10);
    // Beside the program a collection takes a while.
    let begins = if embedding::watching() == Watching::None { ends } else { ends / 2 };
    embedding::bring_cycle_forward(begins, ends);
}

/// Non-zero: the heap grows only if a collection does not make enough room.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_dont_expand(value: c_int) {
    GC_dont_expand.store(value, Relaxed);
    if value != 0 && api::is_initialized() {
        collect_before_growth();
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_dont_expand() -> c_int {
    GC_dont_expand.load(Relaxed)
}

const DEFAULT_DIVISOR: usize = 3;
static DIVISOR: HandedOver = HandedOver::new(DEFAULT_DIVISOR);

fn divisor() -> usize {
    GC_free_space_divisor.load(Relaxed)
}

/// Boehm's collector collects when about heap/divisor bytes were allocated, 3 by default. The
/// core's growth at that divisor is its own default, 1, and changes in proportion. What the user
/// set with `NEAP_GROWTH` stands, and 0 changes nothing.
fn grow_by(divisor: usize) {
    if divisor == 0 || environment::user_has_set(c"NEAP_GROWTH") {
        return;
    }
    let share = DEFAULT_DIVISOR as f64 / divisor as f64;
    environment::set_growth(share.clamp(0.05, 100.0));
    // It says anew when the next collection is due.
    if GC_dont_expand.load(Relaxed) != 0 && api::is_initialized() {
        collect_before_growth();
    }
}

/// Hands over the divisor that the program may have written.
pub fn carry_over() {
    DIVISOR.hand_over_if_changed(divisor, grow_by);
}

/// 0 is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_free_space_divisor(divisor: usize) {
    let divisor = Number::FreeSpaceDivisor.overriding().unwrap_or(divisor);
    if divisor == 0 {
        return;
    }
    GC_free_space_divisor.store(divisor, Relaxed);
    DIVISOR.hand_over(self::divisor, grow_by);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_free_space_divisor() -> usize {
    GC_free_space_divisor.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_manages_counts_for_little_but_not_for_nothing() {
        assert_eq!(others(800, 0), 800);
        assert_eq!(others(800, 300), 500);
        assert_eq!(others(800, 790), 100);
        assert_eq!(others(800, 8000), 100);
    }
}
