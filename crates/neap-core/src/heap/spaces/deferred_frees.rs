//! Objects that were freed while marking was under way: a marker may be reading them, so their
//! cells are free when marking has ended.
//!
//! Invariant: until then they are allocated for everybody else, and none is in here twice. Under
//! the heap's lock.

use core::sync::atomic::Ordering::*;

use crate::addr::Address;
use crate::heap::Heap;
use crate::sys::table::{Entry, Table};

#[derive(Clone, Copy)]
struct Freed {
    object: Address,
    next: u32,
}

impl Entry for Freed {
    fn key(&self) -> usize {
        self.object.0
    }
    fn next(&self) -> u32 {
        self.next
    }
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

/// The objects to free.
pub struct DeferredFrees(Table<Freed>);

impl DeferredFrees {
    /// None.
    pub(super) const fn new() -> Self {
        Self(Table::new())
    }

    /// Remembers a freed object; false if it was freed already.
    pub fn note(&mut self, object: Address) -> bool {
        if self.0.find(object.0).is_some() {
            return false;
        }
        // Without memory for the table the object stays allocated until a cycle finds it dead:
        // wasted, not wrong.
        let _ = self.0.insert(Freed { object, next: 0 });
        true
    }

    /// Frees up to `most` of them, whose cells this cycle's sweep gives out again; says whether
    /// none is left.
    pub fn free(&mut self, heap: &Heap, most: usize) -> bool {
        for _ in 0..most {
            let Some(Freed { object, .. }) = self.0.pop() else {
                self.0 = Table::new();
                return true;
            };
            if let Some(cell) = heap.object_at(object.0) {
                // What this cycle did not find live is counted nowhere.
                if cell.bits.is_marked(cell.index) {
                    heap.state.note_freed(cell.bytes(), true);
                }
                // The cell is dirty; a fresh block hands out cells as zeros.
                cell.header.fresh.store(0, Relaxed);
                cell.bits.free(cell.index);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;

    #[test]
    fn each_is_freed_once_and_when_asked() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        let block = inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, 3), 0, true).unwrap();
        let (bits, bytes) = (heap.bits(block), heap.header(block).cell_bytes());
        bits.set_range(0..9, true, true, true);
        let object = |index: usize| heap.address(block).add(index * bytes);
        for index in [2, 5, 7] {
            assert!(inner.deferred_frees.note(object(index)));
        }
        assert!(!inner.deferred_frees.note(object(5)));
        assert!([2, 5, 7].iter().all(|index| heap.object_at(object(*index).0).is_some()));
        assert!(!inner.deferred_frees.free(&heap, 2));
        assert_eq!(bits.allocated(9), 7);
        assert!(inner.deferred_frees.free(&heap, 2));
        assert_eq!((bits.allocated(9), bits.marked(9)), (6, 6));
        assert_eq!(heap.header(block).fresh.load(Relaxed), 0);
        assert!(inner.deferred_frees.note(object(2)));
    }
}
