//! Before a server forks its workers: collect, make permanent what lives, and leave the children
//! fresh pages to allocate from.
//!
//! Invariant: what it changes is where objects will lie and what cycles look at; every object stays
//! what and where it is. Called by a mutator outside critical sections: by the program, or from
//! `fork`'s prepare handler, where nothing of the program's may be called.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use core::time::Duration;

use crate::addr::{CHUNK_BYTES, Frame, round_up};
use crate::cycle::driver::{freeze, handshake};
use crate::cycle::report::callbacks;
use crate::cycle::schedule;
use crate::heap::HEAP;
use crate::heap::frames::giving_back;
use crate::sys::map;
use crate::world::{current, registry};

/// Whether every `fork` does this.
static ON_FORK: AtomicBool = AtomicBool::new(false);
/// Bytes that all threads had allocated when it was done last; 0 for never.
static DONE_AT: AtomicU64 = AtomicU64::new(0);

/// A fork soon after another does not repeat it: not before this much was allocated, nor before an
/// eighth of what is permanent. Larger: sooner forks; smaller: children share more.
const WORTH_BYTES: u64 = 1 << 20;
const WORTH_PART: u64 = 8;

/// So much heap above what there is will be made of ordinary pages: a child that needs a little
/// more does not get two megabytes. As the least size of a heap for which huge pages are thought
/// of.
const SMALL_PAGES_BYTES: usize = 32 << 20;

/// Sets whether every `fork` does it.
pub fn set_on_fork(on: bool) {
    ON_FORK.store(on, Relaxed);
}

/// Does it now. False if collections are disabled or held off by this thread: then little has
/// changed.
pub fn prefork() -> bool {
    // What became garbage among the permanent objects since the last time must not stay for ever.
    freeze::unfreeze();
    if !freeze::freeze() {
        return false;
    }
    let Some(mutator) = current::get() else { return false };
    let critical = mutator.critical();
    let mut inner = HEAP.inner();
    // Pages that the system has not given yet are cheaper to take than shared ones are to copy.
    let mut from = Some(Frame(0));
    while let Some(first) = from {
        from = HEAP.clean(&mut inner, first, giving_back::ALL, Duration::MAX).next;
    }
    let committed = HEAP.committed();
    map::small_pages(HEAP.base(), committed);
    let below = round_up(committed + SMALL_PAGES_BYTES, CHUNK_BYTES).unwrap_or(usize::MAX);
    HEAP.state.small_pages_below.store(below, Relaxed);
    drop(inner);
    drop(critical);
    schedule::note_given_back();
    DONE_AT.store(allocated(), Relaxed);
    true
}

fn allocated() -> u64 {
    registry::lock().totals().1.max(1)
}

/// In `fork`'s prepare handler, before any lock is taken.
pub fn before_fork() {
    if !ON_FORK.load(Relaxed) {
        return;
    }
    // A thread without a mutator has no objects of its own to care for; one in the middle of the
    // collector's work must not begin more of it.
    if current::get().is_none_or(|mutator| !mutator.is_at_ease()) {
        return;
    }
    let done_at = DONE_AT.load(Relaxed);
    let worth = (HEAP.state.frozen_bytes.load(Relaxed) as u64 / WORTH_PART).max(WORTH_BYTES);
    if done_at != 0 && allocated() - done_at < worth {
        return;
    }
    if callbacks::later(|| _ = prefork()) {
        handshake::tell_end();
    }
}
