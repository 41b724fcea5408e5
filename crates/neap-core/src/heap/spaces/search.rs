//! Finding blocks with free cells for a thread: of its own shard first, and several at once for who
//! comes often.
//!
//! Invariant: as `[heap.inv.lists]`; a block that is found is held by the thread that asked, and in
//! the list of the blocks in use. Under the heap's lock, for a thread that refills a buffer.

use core::sync::atomic::Ordering::*;

use super::{Growth, Inner, SWEEP_STEP, Search, SpaceId};
use crate::addr::{FRAME_BYTES, Frame};
use crate::heap::blocks::header::SHARDS;
use crate::heap::{Heap, Refused};

/// The child of a `fork` that has freed this part of what its parent had uses gaps. Larger: fewer
/// pages are copied; smaller: it keeps less that is free.
const GAPS_PART: usize = 8;
/// But at least so many bytes.
const LEAST_FREED: usize = 4 << 20;

impl Inner {
    /// A block of space `id` with free cells for a thread of `shard`: one known to have some, one
    /// that sweeping finds to have some, or a new one.
    pub fn search(&mut self, heap: &Heap, id: SpaceId, shard: usize, growth: Growth) -> Search {
        let may_grow = growth != Growth::Never;
        if self.ensure_fixed().is_err() {
            return Search::None(Refused::System);
        }
        if (self.leaves_gaps(heap) || growth == Growth::Now)
            && let Ok(block) = self.fresh_block(heap, id, shard, may_grow)
        {
            return Search::Found(block);
        }
        let header = |frame| heap.header(frame);
        let (now, before) = (self.epoch, 1 - self.epoch);
        let mut left = SWEEP_STEP;
        let shards = if self.spaces[id.0 as usize].in_use { SHARDS } else { 0 };
        for its_shard in (0..shards).map(|turn| (shard + turn) % SHARDS) {
            let lists = &mut self.spaces[id.0 as usize].lists;
            if let Some(block) = lists.pop_partial(now, its_shard, header) {
                self.hold(heap, id, shard, block);
                return Search::Found(block);
            }
            // What is held back is so for a moment only.
            while !self.held_back
                && let Some(block) = lists.pop(before, its_shard, header)
            {
                if heap.sweep_block(block) {
                    self.hold(heap, id, shard, block);
                    return Search::Found(block);
                }
                lists.push_used(now, block, header);
                left -= 1;
                if left == 0 {
                    return Search::Again;
                }
            }
        }
        if self.held_back {
            // A refusal means to ask again.
            return self
                .fresh_block(heap, id, shard, may_grow)
                .map_or(Search::Again, Search::Found);
        }
        self.search_elsewhere(heap, id, shard, may_grow)
    }

    /// Takes further blocks with free cells, `most` at most, for the thread that was just given
    /// `first`: it uses them one after the other, without the lock. The heap does not grow for
    /// them.
    pub fn search_further(
        &mut self,
        heap: &Heap,
        id: SpaceId,
        shard: usize,
        first: Frame,
        most: usize,
    ) {
        let mut last = first;
        for _ in 0..most {
            let Some(block) = self.one_at_hand(heap, id, shard) else { return };
            heap.header(last).follow_with(block);
            last = block;
        }
    }

    /// A block with free cells, held by the caller, if one of its shard or a new one is found at
    /// the first look.
    fn one_at_hand(&mut self, heap: &Heap, id: SpaceId, shard: usize) -> Option<Frame> {
        if self.leaves_gaps(heap) {
            return self.free_at_hand(heap, id, shard);
        }
        let header = |frame| heap.header(frame);
        let (now, before) = (self.epoch, 1 - self.epoch);
        let lists = &mut self.spaces[id.0 as usize].lists;
        if let Some(block) = lists.pop_partial(now, shard, header) {
            self.hold(heap, id, shard, block);
            return Some(block);
        }
        if self.held_back {
            return None;
        }
        let Some(block) = lists.pop(before, shard, header) else {
            // What other shards have is used before anything new, one at a time.
            return match lists.is_empty(before) && !lists.has_partial(now) {
                true => self.free_at_hand(heap, id, shard),
                false => None,
            };
        };
        if heap.sweep_block(block) {
            self.hold(heap, id, shard, block);
            return Some(block);
        }
        lists.push_used(now, block, header);
        None
    }

    /// A new block where there is room, and memory is not short.
    fn free_at_hand(&mut self, heap: &Heap, id: SpaceId, shard: usize) -> Option<Frame> {
        if self.frames.taken() * FRAME_BYTES > heap.max_bytes() / 2 {
            return None;
        }
        self.fresh_block(heap, id, shard, false).ok()
    }

    /// This is the child of a `fork`: until a cycle ends, gaps between the parent's objects are
    /// left alone, `[heap.why.gaps]`; but those that it makes itself would be too, so no longer
    /// when it has freed much.
    pub fn leave_gaps(&mut self, heap: &Heap) {
        let much = (self.frames.taken() * FRAME_BYTES / GAPS_PART).max(LEAST_FREED);
        self.leaves_gaps_until = heap.state.freed_since_cycle.load(Relaxed) + much;
    }

    fn leaves_gaps(&self, heap: &Heap) -> bool {
        heap.state.freed_since_cycle.load(Relaxed) < self.leaves_gaps_until
    }

    fn search_elsewhere(
        &mut self,
        heap: &Heap,
        id: SpaceId,
        shard: usize,
        may_grow: bool,
    ) -> Search {
        match self.fresh_block(heap, id, shard, false) {
            Ok(block) => Search::Found(block),
            // The last step may free what is wanted.
            Err(_) if !self.is_swept() => {
                self.sweep_step(heap);
                Search::Again
            }
            Err(Refused::Limit) => Search::None(Refused::Limit),
            Err(Refused::System) => match self.fresh_block(heap, id, shard, may_grow) {
                Ok(block) => Search::Found(block),
                Err(refused) => Search::None(refused),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::kind::Kind;

    const SPACE: SpaceId = SpaceId::of(Kind::Conservative, 7);

    #[test]
    fn a_forked_child_leaves_gaps_alone_until_a_cycle_ends_or_there_is_no_room() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let find = |growth| heap.inner().search(&heap, SPACE, 0, growth);
        let gaps = heap.inner().fresh_block(&heap, SPACE, 0, true).unwrap();
        heap.bits(gaps).set_range(0..5, false, true, true);
        let let_go = || {
            heap.header(gaps).let_go();
            heap.inner().note_free_cell(&heap, gaps);
        };
        let_go();
        heap.inner().leave_gaps(&heap);
        let Search::Found(first) = find(Growth::WhereSwept) else { panic!("there is room") };
        assert_ne!(first, gaps);
        heap.inner().search_further(&heap, SPACE, 0, first, 3);
        let mut last = first;
        while let Some(block) = heap.header(last).let_go() {
            assert_ne!(block, gaps);
            last = block;
        }
        while heap.inner().fresh_block(&heap, SPACE, 0, false).is_ok() {}
        assert_eq!(find(Growth::Never), Search::Found(gaps), "nothing else is left");
        let_go();
        let grown = find(Growth::WhereSwept);
        assert!(matches!(grown, Search::Found(block) if block != gaps), "but there may be");
        heap.inner().begin_sweep(&heap, false);
        heap.bits(gaps).mark_allocated(heap.header(gaps).cells());
        assert_eq!(
            find(Growth::WhereSwept),
            Search::Found(gaps),
            "the cycle has found out what is free"
        );
    }

    /// Threads that ended left them, or threads that are many.
    #[test]
    fn what_other_shards_have_is_used_before_new_blocks() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        let left = [1, 2, 3].map(|shard| inner.fresh_block(&heap, SPACE, shard, true).unwrap());
        for block in left {
            heap.header(block).let_go();
            inner.note_free_cell(&heap, block);
        }
        for block in left {
            let found = inner.search(&heap, SPACE, 0, Growth::WhereSwept);
            assert_eq!(found, Search::Found(block));
            inner.search_further(&heap, SPACE, 0, block, 7);
            assert_eq!(heap.header(block).follower().is_some(), block == left[2]);
        }
    }

    /// A child that never collects uses again what it frees.
    #[test]
    fn a_forked_child_that_has_freed_much_uses_gaps() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let gaps = heap.inner().fresh_block(&heap, SPACE, 0, true).unwrap();
        heap.header(gaps).let_go();
        heap.inner().note_free_cell(&heap, gaps);
        heap.state.note_freed(1000, false);
        heap.inner().leave_gaps(&heap);
        let find = |freed| {
            heap.state.note_freed(freed, false);
            heap.inner().search(&heap, SPACE, 0, Growth::WhereSwept)
        };
        assert!(matches!(find(LEAST_FREED - 1), Search::Found(block) if block != gaps));
        assert_eq!(find(1), Search::Found(gaps));
    }
}
