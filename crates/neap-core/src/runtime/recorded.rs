//! Allocation while requests are recorded: each is counted before its cell is taken.
//!
//! Invariant `[stats.inv.requests]`: while the process records, no thread finds its runs by the word that inline allocation reads, so every request comes here; and who does not record never does, but for a
//! process's first request. Called by mutators, as `allocate`.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::allocate::{from_run, from_typed_run, slow};
use super::mutator;
use crate::heap::header::NO_LAYOUT;
use crate::heap::kind::Kind;
use crate::heap::layout::LayoutId;
use crate::observe::recorder;
use crate::observe::tally::Tally;
use crate::world::current;
use crate::world::mutator::Mutator;

/// An object for a request of `bytes` that takes as much room as one of `reserved`.
#[inline(never)]
pub fn allocate(bytes: usize, reserved: usize, kind: Kind) -> *mut u8 {
    if let Some((mutator, tally)) = counting() {
        tally.count(kind, bytes);
        if reserved != bytes {
            let cell = |bytes| crate::api::cell_bytes(bytes);
            recorder::note_padding(cell(reserved).saturating_sub(cell(bytes)));
        }
        let cell = from_run(mutator, reserved, kind);
        if cell != 0 {
            return cell as *mut u8;
        }
        // A forked child that allocates has no recorder's thread yet.
        recorder::ensure_running();
    }
    slow(reserved, kind, NO_LAYOUT)
}

/// An object of a layout.
#[inline(never)]
pub fn allocate_typed(bytes: usize, layout: LayoutId) -> *mut u8 {
    if let Some((mutator, tally)) = counting() {
        tally.count_typed(layout, bytes);
        let cell = from_typed_run(mutator, bytes, layout);
        if cell != 0 {
            return cell as *mut u8;
        }
        // A forked child that allocates has no recorder's thread yet.
        recorder::ensure_running();
    }
    slow(bytes, Kind::Conservative, layout.0)
}

/// The calling thread and what counts its requests; None if nothing does.
#[inline(always)]
fn counting() -> Option<(&'static Mutator, &'static Tally)> {
    if let Some(mutator) = current::get()
        // SAFETY: 0 or a tally.
        && let Some(tally) = unsafe { Tally::at(mutator.tally.load(Relaxed)) }
    {
        return Some((mutator, tally));
    }
    begin_counting()
}

#[cold]
#[inline(never)]
fn begin_counting() -> Option<(&'static Mutator, &'static Tally)> {
    // The first request of the process starts the collector, which knows whether it records.
    let mutator = mutator();
    if !recorder::is_on() {
        return None;
    }
    let tally = recorder::tally()?;
    mutator.tally.store(tally.address(), Relaxed);
    Some((mutator, tally))
}
