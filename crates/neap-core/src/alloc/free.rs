//! Explicit free: that a cell is dead now is checked before it is believed; while marking is under
//! way it is put off `[alloc.why.deferred-frees]`.
//!
//! Invariant: a wrong pointer changes nothing and is named for what it is. In a critical section of
//! the thread that frees.

use core::sync::atomic::Ordering::*;

use crate::addr::Address;
use crate::heap::Heap;
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
    if heap.is_hardened() && bytes <= quarantine::LARGEST {
        inner.quarantine(heap, &cell);
    } else if heap.state.marking.load(Relaxed) {
        // A marker may be reading the object.
        inner.deferred_frees.note(address, None);
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
    use super::super::buffer::tests::local;
    use super::super::refill::refill;
    use super::*;
    use crate::heap::classes;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;

    #[test]
    fn wrong_pointers_are_named() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let local = local();
        let id = SpaceId::of(Kind::Leaf, classes::class_of(64));
        let buffer = local.buffer(id).unwrap();
        refill(&heap, local, buffer, id, true).unwrap();
        let cell = buffer.bump(64);
        assert_eq!(free(&heap, Address(8)), Err(FreeError::NotInHeap));
        assert_eq!(free(&heap, Address(cell + 8)), Err(FreeError::NotAnObjectStart));
        heap.state.marking.store(true, Relaxed);
        assert_eq!(free(&heap, Address(cell)), Ok(64));
        assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
        heap.inner().deferred_frees.free(&heap, 1);
        heap.state.marking.store(false, Relaxed);
        assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
        let cell = buffer.bump(64);
        assert_eq!(free(&heap, Address(cell)), Ok(64));
        assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
        assert_eq!(free(&heap, heap.base().add(heap.committed() - 8)), Err(FreeError::AlreadyFree));
        heap.verify().unwrap();
    }

    /// In quarantine, when it left it, and while marking is under way.
    #[test]
    fn a_hardened_heap_knows_what_was_freed() {
        let heap = Heap::new();
        heap.harden(false);
        heap.reserve(64 << 20).unwrap();
        let local = local();
        let id = SpaceId::of(Kind::Conservative, classes::class_of(64));
        let buffer = local.buffer(id).unwrap();
        for marking in [false, true] {
            refill(&heap, local, buffer, id, true).unwrap();
            heap.state.marking.store(marking, Relaxed);
            let cell = buffer.bump(64);
            assert_eq!(free(&heap, Address(cell)), Ok(64));
            assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
            assert!(heap.inner().deferred_frees.free(&heap, 2));
            heap.state.marking.store(false, Relaxed);
            assert_eq!(free(&heap, Address(cell)), Err(FreeError::AlreadyFree));
            heap.verify().unwrap();
        }
    }
}
