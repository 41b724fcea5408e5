//! What a registration keeps alive when it is made while marking is under way: the cycle may have
//! read the registrations of that place already, and the library's own tables are under no watch.
//!
//! Invariant `[refs.inv.marked-at-registration]`: from when a concurrent cycle begins to read
//! roots, an object that becomes data of a registration is marked by the thread that registers, and
//! what it points to is scanned before marking ends. Noting happens in critical sections; what was
//! noted is scanned by the cycle. One on a snapshot marks what there was at its moment, and reads
//! no roots later: what would be marked here it would not scan, so nothing is.
//!
//! # Safety
//!
//! Makes references to entries from their addresses; an entry is 0 or stays readable for ever, and
//! holds atomics only.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::*};

use super::slab::{self, Entry, Own};
use crate::heap::HEAP;
use crate::refs::Marking;

/// Noted objects, newest first: entries of no registry, linked.
static NOTED: AtomicUsize = AtomicUsize::new(0);

/// The object that `word` points into, if it does, is kept by what is being registered.
#[inline]
pub(crate) fn note(own: &Own, word: usize) {
    let state = &HEAP.state;
    if HEAP.contains(word) && state.marking.load(Relaxed) && !state.has_snapshot() {
        note_marking(own, word);
    }
}

#[cold]
fn note_marking(own: &Own, word: usize) {
    let Some(cell) = HEAP.object_at(word) else { return };
    // Born marked, or found already: whoever marked it scans it.
    if !cell.bits.mark::<true>(cell.index) {
        return;
    }
    HEAP.note_marked(cell.block, cell.header);
    HEAP.state.marked_bytes.fetch_add(cell.bytes(), Relaxed);
    let Ok(entry) = slab::take(own) else {
        crate::sys::print::fatal(format_args!(
            "no memory for the collector's own tables; raise the limit on address space (ulimit -v)"
        ));
    };
    entry.object.store(cell.start.0, Relaxed);
    let mut first = NOTED.load(Relaxed);
    loop {
        entry.next.store(first, Relaxed);
        let address = core::ptr::from_ref(entry) as usize;
        match NOTED.compare_exchange_weak(first, address, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Scans what was noted. By the cycle, while marking and last in the stop that ends it.
pub(crate) fn trace<M: Marking>(marking: &mut M) {
    let mut next = NOTED.swap(0, Acquire);
    // SAFETY: 0 or an entry, which stays readable for ever.
    while let Some(entry) = unsafe { (next as *const Entry).as_ref() } {
        next = entry.next.load(Relaxed);
        marking.mark_contents(entry.object.load(Relaxed));
        slab::let_go(entry);
    }
}

/// In the child of a `fork`, whose cycle is given up: nothing is noted.
pub(crate) fn after_fork() {
    NOTED.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::CellIndex;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::Kind;
    use crate::refs::fake_marking;

    #[test]
    fn the_block_of_what_is_marked_is_noted() {
        HEAP.reserve(16 << 20).unwrap();
        let (block, _) =
            HEAP.inner().large_block(&HEAP, Kind::Leaf, NO_LAYOUT, 50_000, true).unwrap();
        HEAP.inner().publish_large(&HEAP, block);
        HEAP.state.marking.store(true, Relaxed);
        note(fake_marking::own(), HEAP.address(block).0);
        assert!(HEAP.bits(block).is_marked(CellIndex(0)));
        assert_eq!(HEAP.verify(), Ok(()));
    }
}
