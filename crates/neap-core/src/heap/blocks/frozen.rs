//! Frozen blocks: their objects are permanent, and nothing about them changes any more, so that
//! forked children go on sharing them.
//!
//! Invariant `[heap.inv.frozen]`: a frozen block is in the list of frozen blocks and in no other,
//! and what was allocated in it when it was frozen is marked and stays so. No cycle clears its
//! marks, no sweep meets it, and its free cells are handed out to nobody. Called under the heap's
//! lock while no cycle is under way.

use core::sync::atomic::Ordering::*;

use super::block_lists::List;
use super::header::State;
use crate::heap::Heap;
use crate::heap::spaces::Inner;
use crate::heap::spaces::large_blocks::BlockListLast;

impl Inner {
    /// Freezes every block that holds objects and that no thread takes cells from; all are swept.
    /// Gives the bytes that are frozen now.
    pub fn freeze(&mut self, heap: &Heap) -> usize {
        debug_assert!(self.is_swept(), "[heap.inv.frozen] allocation bits say what is alive");
        let epoch = self.epoch;
        self.frames.forget_all_closed();
        for index in 0..self.in_use.len() {
            let lists = self.spaces[self.in_use[index] as usize].lists;
            for list in lists.of(epoch) {
                self.freeze_list(heap, *list);
            }
        }
        self.listed_last = BlockListLast::new();
        let large = self.large;
        large.of(epoch).for_each(|list| self.freeze_list(heap, *list));
        heap.state.frozen_bytes.load(Relaxed)
    }

    /// Freezes the blocks of a list as it is now.
    fn freeze_list(&mut self, heap: &Heap, list: List) {
        let header = |frame| heap.header(frame);
        let mut next = list.first();
        while let Some(block) = next {
            let its = header(block);
            next = its.next();
            // Acquire: who let go of the block has set the bits of the cells that it took before.
            if its.held.load(Acquire) != 0 {
                continue;
            }
            let own = match its.state() {
                State::Large => &mut self.large,
                _ => &mut self.spaces[its.space() as usize].lists,
            };
            own.remove(block, header);
            let live = heap.bits(block).mark_allocated(its.cells()) as usize;
            if live == 0 {
                heap.dissolve_block(self, block);
                continue;
            }
            heap.note_marked(block, its);
            self.frozen.push(block, header);
            heap.state.frozen_bytes.fetch_add(live * its.cell_bytes(), Relaxed);
        }
    }

    /// Makes every frozen block one like others: the next cycle finds out what of it is alive.
    pub fn unfreeze(&mut self, heap: &Heap) {
        let header = |frame| heap.header(frame);
        let epoch = self.epoch;
        self.frames.forget_all_closed();
        while let Some(block) = self.frozen.pop(header) {
            let its = header(block);
            if its.state() == State::Large {
                self.large.push_used(epoch, block, header);
                continue;
            }
            let lists = &mut self.spaces[its.space() as usize].lists;
            if heap.bits(block).allocated(its.cells()) == its.cells() {
                lists.push_used(epoch, block, header);
            } else {
                its.fresh.store(0, Relaxed);
                lists.push_partial(epoch, block, header);
            }
        }
        heap.state.frozen_bytes.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{CellIndex, Frame};
    use crate::heap::blocks::header::{BlockList, NO_LAYOUT};
    use crate::heap::kind::Kind;
    use crate::heap::spaces::{Growth, Search, SpaceId};

    const SPACE: SpaceId = SpaceId::of(Kind::Conservative, 7);

    fn heap() -> Heap {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        heap
    }

    /// A block with its first `live` cells allocated, that no thread holds.
    fn block(heap: &Heap, live: u32) -> Frame {
        let block = heap.inner().fresh_block(heap, SPACE, 0, true).unwrap();
        heap.bits(block).set_range(0..live, false, true, true);
        heap.header(block).let_go();
        heap.inner().note_free_cell(heap, block);
        block
    }

    fn large(heap: &Heap) -> Frame {
        let mut inner = heap.inner();
        let (block, _) = inner.large_block(heap, Kind::Leaf, NO_LAYOUT, 50_000, true).unwrap();
        inner.publish_large(heap, block);
        block
    }

    fn cycle_without_roots(heap: &Heap) {
        while !heap.inner().sweep_step(heap) {}
        heap.clear_marks();
        heap.inner().begin_sweep(heap, false);
        while !heap.inner().sweep_step(heap) {}
        heap.verify().unwrap();
    }

    #[test]
    fn what_is_frozen_outlives_cycles_that_do_not_reach_it_and_what_is_not_does_not() {
        let heap = heap();
        let (kept, vast) = (block(&heap, 5), large(&heap));
        let bytes = heap.header(kept).cell_bytes();
        assert_eq!(heap.inner().freeze(&heap), 5 * bytes + 53_248);
        let after = block(&heap, 3);
        (0..3).for_each(|_| cycle_without_roots(&heap));
        assert_eq!(heap.bits(kept).allocated(heap.header(kept).cells()), 5);
        assert_eq!((heap.header(kept).is_frozen(), heap.header(vast).is_frozen()), (true, true));
        assert_eq!(heap.header(after).state(), State::Free);
        heap.inner().unfreeze(&heap);
        heap.verify().unwrap();
        cycle_without_roots(&heap);
        assert_eq!(heap.inner().frames.taken(), 0);
    }

    #[test]
    fn free_cells_of_frozen_blocks_are_handed_out_only_when_they_are_unfrozen() {
        let heap = heap();
        let (partial, full) = (block(&heap, 5), block(&heap, heap_cells()));
        heap.inner().freeze(&heap);
        assert!(matches!(
            heap.inner().search(&heap, SPACE, 0, Growth::WhereSwept),
            Search::Found(other) if other != partial
        ));
        heap.inner().unfreeze(&heap);
        assert_eq!(heap.header(full).list(), BlockList::UsedEven);
        assert_eq!(
            heap.inner().search(&heap, SPACE, 0, Growth::WhereSwept),
            Search::Found(partial)
        );
        assert!(heap.bits(partial).is_marked(CellIndex(4)));
    }

    /// Cells of a block of [`SPACE`].
    fn heap_cells() -> u32 {
        crate::heap::classes::TABLE[7].cells
    }

    #[test]
    fn a_frozen_large_object_can_be_freed() {
        let heap = heap();
        let (first, second) = (large(&heap), large(&heap));
        let frozen = heap.inner().freeze(&heap);
        let cell = heap.object_at(heap.address(first).0).unwrap();
        heap.inner().free_cell(&heap, &cell);
        assert_eq!(heap.state.frozen_bytes.load(Relaxed), frozen / 2);
        heap.verify().unwrap();
        assert_eq!(heap.header(first).state(), State::Free);
        assert!(heap.header(second).is_frozen());
    }

    #[test]
    fn a_block_that_a_thread_holds_is_left_alone_and_an_empty_one_goes() {
        let heap = heap();
        let held = heap.inner().fresh_block(&heap, SPACE, 0, true).unwrap();
        let empty = block(&heap, 0);
        assert_eq!(heap.inner().freeze(&heap), 0);
        assert_eq!(heap.header(held).list(), BlockList::UsedEven);
        assert_eq!(heap.header(empty).state(), State::Free);
        heap.verify().unwrap();
    }
}
