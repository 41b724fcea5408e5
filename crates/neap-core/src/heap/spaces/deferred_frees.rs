//! Objects that were freed and whose cells are not free yet: a marker may be reading them, since
//! marking was under way, or they are in quarantine. They are free when the next marking has ended.
//!
//! Invariant: until then they are allocated for everybody else, and none is in here twice. Under
//! the heap's lock.

use core::sync::atomic::Ordering::*;

use super::Inner;
use crate::addr::Address;
use crate::heap::Heap;
use crate::heap::blocks::header::{BlockList, State};
use crate::heap::hardened::quarantine::{self, Waiting};
use crate::sys::table::{Entry, Table};

/// So many are freed in a stop. Larger: longer stops; smaller: more cycles end beside the program,
/// and until then nothing is swept.
const FEW: usize = 500;

#[derive(Clone, Copy)]
struct Freed {
    object: Address,
    next: u32,
    /// What it is filled with, if it is.
    fill: Option<u8>,
    /// It was freed between cycles, and counted then.
    is_counted: bool,
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
pub struct DeferredFrees {
    freed: Table<Freed>,
    /// Those of them that are freed when enough others were freed behind them.
    pub(in crate::heap) waiting: Waiting,
}

impl DeferredFrees {
    /// None.
    pub(super) const fn new() -> Self {
        Self { freed: Table::new(), waiting: Waiting::new() }
    }

    /// Whether to free them would take long for a stop: some 0.2 µs each.
    pub fn are_many(&self) -> bool {
        self.freed.len() > FEW
    }

    /// Whether an object was freed already.
    pub fn holds(&self, object: Address) -> bool {
        self.freed.find(object.0).is_some()
    }

    /// Remembers a freed object, which is not in here, and what it was filled with. Without memory
    /// for the table it stays allocated until a cycle finds it dead, which none does of frozen and
    /// uncollectable ones: wasted, not wrong.
    pub fn note(&mut self, heap: &Heap, object: Address, fill: Option<u8>) {
        heap.state.defers_frees.store(true, Relaxed);
        let is_counted = !heap.state.marking.load(Relaxed);
        let _ = self.freed.insert(Freed { object, next: 0, fill, is_counted });
    }

    /// Takes out an object; gives what it was filled with. None: it is not in here.
    pub(in crate::heap) fn remove(&mut self, object: Address) -> Option<Option<u8>> {
        let index = self.freed.find(object.0)?;
        Some(self.freed.remove_at(index).fill)
    }
}

/// So many are freed in one hold of the heap's lock, some ten microseconds; twice as many each time
/// the program has freed as many meanwhile.
const FREED_AT_ONCE: usize = 256;

impl Heap {
    /// Frees all objects whose frees were put off; from then on objects are freed at once and born
    /// unmarked. Runs `then` under the same hold of the heap's lock.
    pub fn end_marking(&self, then: impl FnMut(&mut Inner)) {
        self.end_marking_beside(|| (), then);
    }

    /// The same; `meanwhile` happens between holds.
    fn end_marking_beside(&self, meanwhile: impl Fn(), mut then: impl FnMut(&mut Inner)) {
        let (mut most, mut left) = (FREED_AT_ONCE, usize::MAX);
        self.in_steps(meanwhile, |inner| {
            let is_over = inner.free_deferred(self, most);
            let left_before = core::mem::replace(&mut left, inner.deferred_frees.freed.len());
            if left >= left_before {
                most *= 2;
            }
            if is_over {
                self.state.marking.store(false, Release);
                self.state.allocate_black.store(false, Relaxed);
                self.state.marked_anew.store(false, Relaxed);
                then(inner);
            }
            is_over
        });
    }
}

impl Inner {
    /// Frees up to `most` objects whose frees were put off; says whether none is left. Large ones
    /// that are to be swept the sweep gives back.
    pub fn free_deferred(&mut self, heap: &Heap, most: usize) -> bool {
        for _ in 0..most {
            let Some(Freed { object, fill, is_counted, .. }) = self.deferred_frees.freed.pop()
            else {
                self.deferred_frees.freed = Table::new();
                self.deferred_frees.waiting.clear();
                heap.state.defers_frees.store(false, Relaxed);
                return true;
            };
            let Some(cell) = heap.object_at(object.0) else { continue };
            quarantine::check(&cell, fill);
            // What this cycle did not find live is counted nowhere; of what it did, a minor one has
            // left out what was counted before.
            let is_new = !is_counted || heap.state.marked_anew.load(Relaxed);
            if is_new && cell.bits.is_marked(cell.index) {
                heap.state.note_freed(cell.bytes(), true);
            }
            let list = cell.header.list();
            let (unswept, _) = BlockList::of_epoch(1 - self.epoch);
            if cell.header.state() == State::Large && list == unswept {
                // The sweep finds it dead.
                cell.bits.free(cell.index);
            } else {
                self.free_cell(heap, &cell);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;

    /// Marking ends although the program frees as fast, and all are freed.
    #[test]
    fn who_frees_meanwhile_is_caught_up_with() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let space = SpaceId::of(Kind::Leaf, 3);
        let mut objects = Vec::new();
        while objects.len() < 300 * FREED_AT_ONCE {
            let block = heap.inner().fresh_block(&heap, space, 0, true).unwrap();
            let header = heap.header(block);
            heap.bits(block).set_range(0..header.cells(), false, true, true);
            let cells = 0..header.cells() as usize;
            objects.extend(cells.map(|cell| heap.address(block).add(cell * header.cell_bytes())));
        }
        heap.state.marking.store(true, Relaxed);
        let freed = Cell::new(&objects[..]);
        let free = |most| {
            let (now, later) = freed.get().split_at(most);
            freed.set(later);
            let mut inner = heap.inner();
            now.iter().for_each(|object| inner.deferred_frees.note(&heap, *object, None));
        };
        free(2 * FREED_AT_ONCE);
        heap.end_marking_beside(|| free(FREED_AT_ONCE), |_| {});
        let steps = 300 - freed.get().len() / FREED_AT_ONCE;
        assert!(steps < 20 && !heap.state.marking.load(Relaxed), "{steps}");
    }

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
            assert!(!inner.deferred_frees.holds(object(index)));
            inner.deferred_frees.note(&heap, object(index), None);
        }
        assert!(inner.deferred_frees.holds(object(5)));
        assert!([2, 5, 7].iter().all(|index| heap.object_at(object(*index).0).is_some()));
        assert!(!inner.free_deferred(&heap, 2));
        assert_eq!(bits.allocated(9), 7);
        assert!(inner.free_deferred(&heap, 2));
        assert_eq!((bits.allocated(9), bits.marked(9)), (6, 6));
        assert_eq!(heap.header(block).fresh.load(Relaxed), 0);
        assert!(!inner.deferred_frees.holds(object(2)));
    }

    /// Frozen ones, and those of a cycle that was given up.
    #[test]
    fn a_large_one_that_no_sweep_comes_to_is_given_back_at_once() {
        for (freezes, sweeps) in [(true, false), (false, false), (false, true)] {
            let heap = Heap::new();
            heap.reserve(64 << 20).unwrap();
            let mut inner = heap.inner();
            let (block, _) =
                inner.large_block(&heap, Kind::Leaf, NO_LAYOUT, 1 << 20, true).unwrap();
            inner.publish_large(&heap, block);
            if freezes {
                inner.freeze(&heap);
            }
            let taken = inner.frames.taken();
            inner.deferred_frees.note(&heap, heap.address(block), None);
            assert_eq!(inner.frames.taken(), taken);
            if sweeps {
                inner.begin_sweep(&heap, false);
            }
            assert!(inner.free_deferred(&heap, 2));
            assert!(heap.object_at(heap.address(block).0).is_none());
            assert_eq!(inner.frames.taken() < taken, !sweeps);
            assert_eq!(heap.state.frozen_bytes.load(Relaxed), 0);
            while !inner.sweep_step(&heap) {}
            assert_eq!(inner.frames.taken(), 0);
        }
    }

    /// A block that no sweep will come to lists the free cell.
    #[test]
    fn a_cell_of_a_cycle_that_was_given_up_is_found_again() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        let block = inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, 3), 0, true).unwrap();
        let cells = heap.header(block).cells();
        heap.bits(block).set_range(0..cells, false, true, true);
        heap.header(block).let_go();
        inner.deferred_frees.note(&heap, heap.address(block), None);
        assert!(inner.free_deferred(&heap, 2));
        let (_, partial) = BlockList::of_epoch(inner.epoch);
        assert_eq!(heap.header(block).list(), partial);
    }
}
