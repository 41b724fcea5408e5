//! Walking the lists of blocks.
//!
//! Invariant: nothing is changed. Called under the heap's lock, which whoever holds an [`Inner`]
//! has.

use super::header::BlockList;
use crate::addr::Frame;
use crate::heap::Heap;
use crate::heap::spaces::Inner;

impl Inner {
    /// Calls `f` for every block that lives until freed, but for frozen ones.
    pub fn for_each_uncollectable(&self, heap: &Heap, mut f: impl FnMut(Frame)) {
        let spaces = self.in_use.iter().map(|id| &self.spaces[*id as usize]);
        let lists = spaces.filter(|space| space.uncollectable).flat_map(|space| space.lists.iter());
        // Most programs have none, and walking the list takes long in a stop.
        let large = (self.large_uncollectable > 0).then_some(&self.large);
        for list in lists.chain(large.into_iter().flat_map(|lists| lists.iter())) {
            let mut block = list.first();
            while let Some(here) = block {
                let its = heap.header(here);
                if its.is_uncollectable() {
                    f(here);
                }
                block = its.next();
            }
        }
    }

    /// Calls `f` with every listed block and the list it is in.
    pub fn for_each_listed(&self, heap: &Heap, mut f: impl FnMut(Frame, BlockList)) {
        let spaces = self.spaces.iter().map(|space| &space.lists).chain([&self.large]);
        let lists = spaces.flat_map(|lists| lists.iter());
        for list in lists.chain([&self.frozen]) {
            let mut block = list.first();
            while let Some(here) = block {
                let its = heap.header(here);
                f(here, its.list());
                block = its.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;

    #[test]
    fn every_block_is_met_once_and_only_uncollectable_ones_are_asked_for() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        let plain = inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, 3), 0, true).unwrap();
        let lasting =
            inner.fresh_block(&heap, SpaceId::of(Kind::Uncollectable, 9), 0, true).unwrap();
        let mut met = Vec::new();
        inner.for_each_uncollectable(&heap, |block| met.push(block));
        assert_eq!(met, [lasting]);
        met.clear();
        inner.for_each_listed(&heap, |block, _| met.push(block));
        met.sort();
        assert_eq!(met, [plain, lasting]);
    }
}
