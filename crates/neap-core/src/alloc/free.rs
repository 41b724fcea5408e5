//! Explicit free: that a cell is dead now is checked before it is believed; while marking is under
//! way it is put off `[alloc.why.deferred-frees]`. Otherwise it takes no lock `[alloc.why.free]`.
//!
//! Invariant: a wrong pointer changes nothing and is named for what it is. In a critical section of
//! the thread that frees.

use core::sync::atomic::{Ordering::*, compiler_fence};

use super::buffer::Local;
use crate::addr::Address;
use crate::heap::Heap;
use crate::heap::blocks::freed_places;
use crate::heap::blocks::header::{BlockList, State};
use crate::heap::hardened::quarantine;

/// Why a pointer cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// No address of this heap.
    NotInHeap,
    /// It points into an object, not to its start.
    NotAnObjectStart,
    /// There is no object: it was freed, or collected, before.
    AlreadyFree,
}

/// As [`free`], for a thread with a mutator: without the heap's lock where no sweep can come.
pub fn free_from(heap: &Heap, local: &Local, address: Address) -> Result<usize, FreeError> {
    without_lock(heap, local, address).unwrap_or_else(|| free(heap, address))
}

/// Frees an object of a swept block between cycles; None if it is another, or none. In a critical
/// section no cycle begins or comes to its sweep, so the block stays what it is.
fn without_lock(heap: &Heap, local: &Local, address: Address) -> Option<Result<usize, FreeError>> {
    let state = &heap.state;
    if heap.is_hardened() || state.defers_frees.load(Relaxed) || state.freezing.load(Relaxed) != 0 {
        return None;
    }
    let cell = heap.object_at(address.0).filter(|cell| cell.start == address)?;
    let header = cell.header;
    let (used, partial) = BlockList::of_epoch(state.epoch.load(Relaxed));
    let list = header.list();
    if header.state() != State::Small || list != used && list != partial {
        return None;
    }
    freed_places::note(cell.start.0..cell.start.0 + cell.bytes());
    if header.fresh.load(Relaxed) != 0 {
        // The cell is dirty; a fresh block hands out cells as zeros.
        header.fresh.store(0, Relaxed);
    }
    let (was_live, freed) = local.change_bits(|| {
        let free = || (cell.bits.is_marked(cell.index), cell.bits.free(cell.index));
        (!state.marking.load(SeqCst)).then(free)
    })?;
    if !freed {
        return Some(Err(FreeError::AlreadyFree));
    }
    // After the bit is cleared, which is a full fence on x86-64: who lets the block go looks at the
    // bits then.
    compiler_fence(SeqCst);
    if header.held.load(Relaxed) == 0 && header.list() == used {
        heap.inner().note_free_cell(heap, cell.block);
    }
    local.note_freed(heap, cell.bytes(), was_live);
    Some(Ok(cell.bytes()))
}

/// Frees the object that starts at `address`; gives the bytes of its cell.
pub fn free(heap: &Heap, address: Address) -> Result<usize, FreeError> {
    if !heap.contains(address.0) {
        return Err(FreeError::NotInHeap);
    }
    // Under the lock from the first look on: a sweep of this block would otherwise come between
    // looking and freeing.
    let mut inner = heap.inner();
    let cell = heap.object_at(address.0).ok_or(FreeError::AlreadyFree)?;
    if cell.start != address {
        return Err(FreeError::NotAnObjectStart);
    }
    if inner.deferred_frees.holds(address) {
        return Err(FreeError::AlreadyFree);
    }
    let (bytes, was_live) = (cell.bytes(), cell.bits.is_marked(cell.index));
    freed_places::note(address.0..address.0 + bytes);
    if heap.is_hardened() && bytes <= quarantine::LARGEST {
        inner.quarantine(heap, &cell);
    } else if heap.state.marking.load(Relaxed) {
        // A marker may be reading the object.
        inner.deferred_frees.note(heap, address, None);
    } else {
        inner.free_cell(heap, &cell);
    }
    if !heap.state.marking.load(Relaxed) {
        heap.state.note_freed(bytes, was_live);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::buffer::Buffer;
    use super::super::buffer::tests::local;
    use super::super::refill::refill;
    use super::*;
    use crate::heap::classes;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;
    use core::sync::atomic::AtomicUsize;
    use std::sync::Mutex;

    /// A heap, and a thread that has a buffer for cells of 64 bytes of it.
    fn with_buffer(heap: Heap, kind: Kind) -> (Heap, &'static Local, &'static Buffer, SpaceId) {
        heap.reserve(64 << 20).unwrap();
        let local = local();
        let id = SpaceId::of(kind, classes::class_of(64));
        let buffer = local.buffer(id).unwrap();
        (heap, local, buffer, id)
    }

    /// The same with cells.
    fn with_cells(kind: Kind) -> (Heap, &'static Local, &'static Buffer, SpaceId) {
        let (heap, local, buffer, id) = with_buffer(Heap::new(), kind);
        refill(&heap, local, buffer, id).unwrap();
        (heap, local, buffer, id)
    }

    #[test]
    fn wrong_pointers_are_named() {
        let (heap, _, buffer, _) = with_cells(Kind::Leaf);
        let cell = buffer.bump(64);
        assert_eq!(free(&heap, Address(8)), Err(FreeError::NotInHeap));
        assert_eq!(free(&heap, Address(cell + 8)), Err(FreeError::NotAnObjectStart));
        heap.state.marking.store(true, Relaxed);
        assert_eq!(free(&heap, Address(cell)), Ok(64));
        assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
        heap.inner().free_deferred(&heap, 1);
        heap.state.marking.store(false, Relaxed);
        assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
        let cell = buffer.bump(64);
        assert_eq!(free(&heap, Address(cell)), Ok(64));
        assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
        assert_eq!(free(&heap, heap.base().add(heap.committed() - 8)), Err(FreeError::AlreadyFree));
        heap.verify().unwrap();
    }

    /// While this thread has the heap's lock, which it cannot take again.
    #[test]
    fn between_cycles_a_free_takes_no_lock() {
        let (heap, local, buffer, _) = with_cells(Kind::Conservative);
        let [first, second, third, fourth] = [(); 4].map(|()| Address(buffer.bump(64)));
        let inner = heap.inner();
        assert_eq!(free_from(&heap, local, first), Ok(64), "[alloc.inv.free]");
        drop(inner);
        assert_eq!(free_from(&heap, local, first), Err(FreeError::AlreadyFree));
        assert_eq!(free_from(&heap, local, second.add(8)), Err(FreeError::NotAnObjectStart));
        assert_eq!(without_lock(&heap, local, second.add(8)), None);
        let freed = || heap.state.freed_since_cycle.load(Relaxed);
        assert_eq!(freed(), 0, "not yet");
        local.report_freed(&heap);
        local.report_freed(&heap);
        assert_eq!(freed(), 64);

        heap.state.marking.store(true, Relaxed);
        assert_eq!(without_lock(&heap, local, second), None);
        assert_eq!(free_from(&heap, local, second), Ok(64), "put off");
        heap.state.marking.store(false, Relaxed);
        assert_eq!(without_lock(&heap, local, second), None, "it waits");
        assert_eq!(free_from(&heap, local, second), Err(FreeError::AlreadyFree));
        assert!(heap.inner().free_deferred(&heap, 2));

        heap.state.freezing.store(1, Relaxed);
        assert_eq!(without_lock(&heap, local, third), None);
        heap.state.freezing.store(0, Relaxed);
        let cell = heap.object_at(third.0).unwrap();
        cell.bits.mark::<false>(cell.index);
        heap.note_marked(cell.block, cell.header);
        local.keep_cells(&heap);
        heap.inner().begin_sweep(&heap, false);
        assert_eq!(without_lock(&heap, local, third), None, "not swept");
        while !heap.inner().sweep_step(&heap) {}
        assert_eq!(without_lock(&heap, local, third), Some(Ok(64)));
        assert!(!cell.bits.is_marked(cell.index));
        assert_eq!(free_from(&heap, local, fourth), Err(FreeError::AlreadyFree), "it was dead");
        local.report_freed(&heap);
        assert_eq!(heap.state.freed_live_since_cycle.load(Relaxed), 64);
        heap.verify().unwrap();
    }

    /// A block that nobody holds and that was full is found by who looks for cells.
    #[test]
    fn a_cell_freed_without_the_lock_is_found_again() {
        let (heap, local, buffer, id) = with_cells(Kind::Leaf);
        let block = buffer.block().unwrap();
        let cells = heap.header(block).cells() as usize;
        let objects: Vec<usize> = (0..cells)
            .map(|_| match buffer.bump(64) {
                0 => {
                    refill(&heap, local, buffer, id).unwrap();
                    buffer.bump(64)
                }
                cell => cell,
            })
            .collect();
        local.let_go(&heap);
        assert_eq!(without_lock(&heap, local, Address(objects[7])), Some(Ok(64)));
        refill(&heap, local, buffer, id).unwrap();
        assert_eq!(buffer.bump(64), objects[7]);
        heap.verify().unwrap();
    }

    /// Also in the moment in which its thread lets the block go: the last cell of each is freed by
    /// another thread as soon as it is handed out.
    #[test]
    fn a_cell_freed_while_its_block_is_let_go_is_found_again() {
        const BYTES: usize = 4096;
        const BLOCKS: usize = 2000;
        let mut lost = 0;
        for _ in 0..5 {
            let heap = Heap::new();
            heap.reserve(64 << 20).unwrap();
            let owner = local();
            let id = SpaceId::of(Kind::Leaf, classes::class_of(BYTES));
            let buffer = owner.buffer(id).unwrap();
            let (last, blocks) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (other, mut freed) = (local(), 0);
                    while freed < BLOCKS {
                        match last.swap(0, Acquire) {
                            0 => std::thread::yield_now(),
                            cell => {
                                assert!(free_from(&heap, other, Address(cell)).is_ok());
                                freed += 1;
                            }
                        }
                    }
                });
                while blocks.lock().unwrap().len() < BLOCKS {
                    refill(&heap, owner, buffer, id).unwrap();
                    let block = buffer.block().unwrap();
                    let mut cell = 0;
                    while !buffer.rest().is_empty() {
                        cell = buffer.bump(BYTES);
                    }
                    blocks.lock().unwrap().push(block);
                    while last.load(Relaxed) != 0 {
                        std::thread::yield_now();
                    }
                    last.store(cell, Release);
                }
            });
            owner.let_go(&heap);
            let (used, _) = BlockList::of_epoch(heap.state.epoch.load(Relaxed));
            for block in blocks.into_inner().unwrap() {
                let header = heap.header(block);
                let is_full = heap.bits(block).allocated(header.cells()) == header.cells();
                lost += (header.list() == used && !is_full) as usize;
            }
            heap.verify().unwrap();
        }
        assert_eq!(lost, 0);
    }

    /// When it is freed, or where that is put off since marking is under way, when that has ended;
    /// again if a full cycle has found it live meanwhile.
    #[test]
    fn a_hardened_heap_counts_what_is_freed_once() {
        let heap = Heap::new();
        heap.harden(false);
        let (heap, local, buffer, id) = with_buffer(heap, Kind::Conservative);
        let counted = || heap.state.freed_live_since_cycle.load(Relaxed);
        for (marking, anew, now, then) in
            [(false, false, 64, 64), (false, true, 64, 128), (true, false, 0, 64)]
        {
            refill(&heap, local, buffer, id).unwrap();
            let cell = heap.object_at(buffer.bump(64)).unwrap();
            cell.bits.mark::<false>(cell.index);
            heap.state.marking.store(marking, Relaxed);
            assert_eq!(free(&heap, cell.start), Ok(64));
            assert_eq!(counted(), now);
            // A full cycle has marked it again, as a stale word leads to it: it counts as live.
            heap.state.marked_anew.store(anew, Relaxed);
            assert!(heap.inner().free_deferred(&heap, 2));
            assert_eq!(counted(), then);
            heap.state.marking.store(false, Relaxed);
            heap.state.take_freed();
        }
    }

    /// In quarantine, when it left it, and while marking is under way.
    #[test]
    fn a_hardened_heap_knows_what_was_freed() {
        let heap = Heap::new();
        heap.harden(false);
        let (heap, local, buffer, id) = with_buffer(heap, Kind::Conservative);
        for marking in [false, true] {
            refill(&heap, local, buffer, id).unwrap();
            heap.state.marking.store(marking, Relaxed);
            let cell = buffer.bump(64);
            assert_eq!(free(&heap, Address(cell)), Ok(64));
            assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
            assert!(heap.inner().free_deferred(&heap, 2));
            heap.state.marking.store(false, Relaxed);
            assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
            heap.verify().unwrap();
        }
    }
}
