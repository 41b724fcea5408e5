//! Walking the lists of blocks.
//!
//! Invariant: nothing is changed. Called under the heap's lock, which whoever holds an [`Inner`]
//! has.

use super::header::{BlockList, NO_LAYOUT};
use crate::addr::Frame;
use crate::heap::Heap;
use crate::heap::layout::LayoutId;
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

    /// Whether an object that a function of the program traces is not marked. Where more than
    /// `most` blocks would have to be looked at, one counts as such. World stopped.
    pub fn any_unmarked_has_function(&self, heap: &Heap, most: usize) -> bool {
        if !heap.layouts.has_calls() {
            return false;
        }
        let has_function =
            |layout: u32| layout != NO_LAYOUT && heap.layouts.may_call(LayoutId(layout));
        let spaces = self.in_use.iter().map(|id| &self.spaces[*id as usize]);
        let lists = spaces.filter(|space| has_function(space.layout)).map(|space| &space.lists);
        let mut left = most;
        for list in lists.chain([&self.large]).flat_map(|lists| lists.iter()) {
            let mut block = list.first();
            while let Some(here) = block {
                let (its, bits) = (heap.header(here), heap.bits(here));
                let is_marked =
                    |word: usize| bits.allocated_word(word) & !bits.mark_word(word) == 0;
                let all_marked = !has_function(its.layout())
                    || (0..its.cells().div_ceil(64) as usize).all(is_marked);
                if left == 0 || !all_marked {
                    return true;
                }
                left -= 1;
                block = its.next();
            }
        }
        false
    }

    /// Calls `f` with every listed block and the list it is in.
    pub fn for_each_listed(&self, heap: &Heap, mut f: impl FnMut(Frame, BlockList)) {
        let spaces = self.in_use.iter().map(|id| &self.spaces[*id as usize].lists);
        let lists = spaces.chain([&self.large]).flat_map(|lists| lists.iter());
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
    use core::ffi::c_void;

    use super::*;
    use crate::addr::CellIndex;
    use crate::heap::calls::Calls;
    use crate::heap::kind::Kind;
    use crate::heap::layout::Shape;
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

    #[test]
    fn an_unmarked_object_with_a_function_is_found_among_few_blocks() {
        unsafe extern "C" fn trace(_: *mut c_void, _: usize, _: usize, _: *mut c_void) {}
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let has_unmarked = |most| heap.inner().any_unmarked_has_function(&heap, most);
        let plain = heap.inner().fresh_block(&heap, SpaceId::of(Kind::Leaf, 3), 0, true).unwrap();
        heap.bits(plain).set_range(0..1, false, true, true);
        let calls = Calls::Always;
        let function = Shape::Function { function: trace, environment: 0, calls };
        let layout = heap.layouts.intern(function).unwrap();
        let space = heap.inner().typed_space(&heap, layout, 3).unwrap();
        let [first, second] =
            [0, 1].map(|_| heap.inner().fresh_block(&heap, space, 0, true).unwrap());
        heap.bits(first).set_range(0..7, true, true, true);
        assert!(!has_unmarked(2), "all that are allocated are marked");
        assert!(has_unmarked(1), "there are more blocks than that");
        heap.bits(second).set_range(100..101, false, true, true);
        assert!(has_unmarked(2));
        heap.bits(second).mark::<false>(CellIndex(100));
        assert!(!has_unmarked(2));
        let kind = Kind::Conservative;
        let large = heap.inner().large_block(&heap, kind, layout.0, 50_000, true).unwrap().0;
        heap.inner().publish_large(&heap, large);
        assert!(has_unmarked(3));
    }
}
