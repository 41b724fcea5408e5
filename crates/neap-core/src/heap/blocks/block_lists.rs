//! Lists of blocks: those of a space by epoch, shard, and whether they have free cells; those of
//! large objects.
//!
//! Invariant `[heap.inv.lists]`: a block is in one list at most, and its header says in which. All
//! use is under the heap's lock.

use core::sync::atomic::Ordering::Relaxed;

use super::header::{BlockList, Header, NONE, SHARDS};
use crate::addr::Frame;

/// A doubly linked list of blocks through their headers.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: u32,
    last: u32,
    kind: BlockList,
}

impl List {
    /// An empty list whose members say that they are in `kind`.
    pub const fn new(kind: BlockList) -> Self {
        Self { first: NONE, last: NONE, kind }
    }

    /// The first block.
    pub fn first(&self) -> Option<Frame> {
        (self.first != NONE).then_some(Frame(self.first))
    }

    /// Appends a block that is in no list.
    pub fn push<'h>(&mut self, block: Frame, header: impl Fn(Frame) -> &'h Header) {
        let its = header(block);
        debug_assert_eq!(its.list(), BlockList::No);
        its.next.store(NONE, Relaxed);
        its.previous.store(self.last, Relaxed);
        its.list.store(self.kind as u8, Relaxed);
        match self.last {
            NONE => self.first = block.0,
            last => header(Frame(last)).next.store(block.0, Relaxed),
        }
        self.last = block.0;
    }

    /// Takes a member out.
    pub fn remove<'h>(&mut self, block: Frame, header: impl Fn(Frame) -> &'h Header) {
        let its = header(block);
        debug_assert_eq!(its.list(), self.kind);
        let (previous, next) = (its.previous.load(Relaxed), its.next.load(Relaxed));
        match previous {
            NONE => self.first = next,
            previous => header(Frame(previous)).next.store(next, Relaxed),
        }
        match next {
            NONE => self.last = previous,
            next => header(Frame(next)).previous.store(previous, Relaxed),
        }
        its.list.store(BlockList::No as u8, Relaxed);
    }

    /// Takes the first member out.
    pub fn pop<'h>(&mut self, header: impl Fn(Frame) -> &'h Header) -> Option<Frame> {
        let first = self.first()?;
        self.remove(first, header);
        Some(first)
    }
}

/// The blocks of a space by epoch (index 0 even, 1 odd) and shard.
#[derive(Clone, Copy)]
pub struct Lists {
    /// Without free cells that are not some thread's.
    used: [[List; SHARDS]; 2],
    /// With free cells that no thread holds.
    partial: [[List; SHARDS]; 2],
}

impl Lists {
    /// All empty.
    pub const fn new() -> Self {
        Self {
            used: [
                [List::new(BlockList::UsedEven); SHARDS],
                [List::new(BlockList::UsedOdd); SHARDS],
            ],
            partial: [
                [List::new(BlockList::PartialEven); SHARDS],
                [List::new(BlockList::PartialOdd); SHARDS],
            ],
        }
    }

    /// Appends a block to those of `epoch` that have no free cells.
    pub fn push_used<'h>(
        &mut self,
        epoch: usize,
        block: Frame,
        header: impl Fn(Frame) -> &'h Header,
    ) {
        self.used[epoch][header(block).shard()].push(block, header);
    }

    /// Appends a block to those of `epoch` that have some, from its first cell on.
    pub fn push_partial<'h>(
        &mut self,
        epoch: usize,
        block: Frame,
        header: impl Fn(Frame) -> &'h Header,
    ) {
        header(block).set_cursor(0);
        self.partial[epoch][header(block).shard()].push(block, header);
    }

    /// Takes a block with free cells out.
    pub fn pop_partial<'h>(
        &mut self,
        epoch: usize,
        shard: usize,
        header: impl Fn(Frame) -> &'h Header,
    ) -> Option<Frame> {
        self.partial[epoch][shard].pop(header)
    }

    /// Takes any block of `epoch` out.
    pub fn pop<'h>(
        &mut self,
        epoch: usize,
        shard: usize,
        header: impl Fn(Frame) -> &'h Header,
    ) -> Option<Frame> {
        self.pop_partial(epoch, shard, &header).or_else(|| self.used[epoch][shard].pop(&header))
    }

    /// A block of `epoch`.
    pub fn first(&self, epoch: usize) -> Option<Frame> {
        self.of(epoch).find_map(List::first)
    }

    /// Whether `epoch` has no block.
    pub fn is_empty(&self, epoch: usize) -> bool {
        self.first(epoch).is_none()
    }

    /// Whether a block of `epoch` has free cells that no thread holds.
    pub fn has_partial(&self, epoch: usize) -> bool {
        self.partial[epoch].iter().any(|list| list.first().is_some())
    }

    /// The lists of an epoch.
    pub fn of(&self, epoch: usize) -> impl Iterator<Item = &List> {
        self.used[epoch].iter().chain(&self.partial[epoch])
    }

    /// All lists.
    pub fn iter(&self) -> impl Iterator<Item = &List> {
        self.of(0).chain(self.of(1))
    }

    /// Takes a member out of the list that it says it is in.
    pub fn remove<'h>(&mut self, block: Frame, header: impl Fn(Frame) -> &'h Header) {
        let shard = header(block).shard();
        let list = match header(block).list() {
            BlockList::UsedEven => &mut self.used[0][shard],
            BlockList::UsedOdd => &mut self.used[1][shard],
            BlockList::PartialEven => &mut self.partial[0][shard],
            BlockList::PartialOdd => &mut self.partial[1][shard],
            BlockList::No | BlockList::Frozen => {
                unreachable!("a block in no list of its space is not looked for there")
            }
        };
        list.remove(block, header);
    }
}

impl Default for Lists {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_order_and_allow_removal_anywhere() {
        let headers: [Header; 4] = core::array::from_fn(|_| Header::zeroed());
        let header = |frame: Frame| &headers[frame.0 as usize];
        let mut list = List::new(BlockList::PartialOdd);
        for index in 0..4 {
            list.push(Frame(index), header);
        }
        list.remove(Frame(2), header);
        list.remove(Frame(0), header);
        list.remove(Frame(3), header);
        assert_eq!(header(Frame(1)).list(), BlockList::PartialOdd);
        assert_eq!(list.pop(header), Some(Frame(1)));
        assert_eq!(list.pop(header), None);
        assert_eq!(header(Frame(1)).list(), BlockList::No);
    }
}
