//! Lists of blocks: those of a space by epoch, lane, and whether they have free cells; those of
//! large objects.
//!
//! Invariant `[heap.inv.lists]`: a block is in one list at most, and its header says in which. All
//! use is under the heap's lock.

use core::sync::atomic::Ordering::Relaxed;

use super::header::{Header, LANES, Listed, NONE};
use crate::addr::Granule;

/// A doubly linked list of blocks through their headers.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: u32,
    last: u32,
    kind: Listed,
}

impl List {
    /// An empty list whose members say that they are in `kind`.
    pub const fn new(kind: Listed) -> Self {
        Self { first: NONE, last: NONE, kind }
    }

    /// The first block.
    pub fn first(&self) -> Option<Granule> {
        (self.first != NONE).then_some(Granule(self.first))
    }

    /// Appends a block that is in no list.
    pub fn push<'h>(&mut self, block: Granule, header: impl Fn(Granule) -> &'h Header) {
        let its = header(block);
        debug_assert_eq!(its.listed(), Listed::No);
        its.next.store(NONE, Relaxed);
        its.previous.store(self.last, Relaxed);
        its.listed.store(self.kind as u8, Relaxed);
        match self.last {
            NONE => self.first = block.0,
            last => header(Granule(last)).next.store(block.0, Relaxed),
        }
        self.last = block.0;
    }

    /// Takes a member out.
    pub fn remove<'h>(&mut self, block: Granule, header: impl Fn(Granule) -> &'h Header) {
        let its = header(block);
        debug_assert_eq!(its.listed(), self.kind);
        let (previous, next) = (its.previous.load(Relaxed), its.next.load(Relaxed));
        match previous {
            NONE => self.first = next,
            previous => header(Granule(previous)).next.store(next, Relaxed),
        }
        match next {
            NONE => self.last = previous,
            next => header(Granule(next)).previous.store(previous, Relaxed),
        }
        its.listed.store(Listed::No as u8, Relaxed);
    }

    /// Takes the first member out.
    pub fn pop<'h>(&mut self, header: impl Fn(Granule) -> &'h Header) -> Option<Granule> {
        let first = self.first()?;
        self.remove(first, header);
        Some(first)
    }
}

/// The blocks of a space by epoch (index 0 even, 1 odd) and lane.
#[derive(Clone, Copy)]
pub struct Lists {
    /// Without free cells that are not some thread's.
    used: [[List; LANES]; 2],
    /// With free cells that no thread holds.
    partial: [[List; LANES]; 2],
}

impl Lists {
    /// All empty.
    pub const fn new() -> Self {
        Self {
            used: [[List::new(Listed::UsedEven); LANES], [List::new(Listed::UsedOdd); LANES]],
            partial: [
                [List::new(Listed::PartialEven); LANES],
                [List::new(Listed::PartialOdd); LANES],
            ],
        }
    }

    /// Appends a block to those of `epoch` that have no free cells.
    pub fn push_used<'h>(
        &mut self,
        epoch: usize,
        block: Granule,
        header: impl Fn(Granule) -> &'h Header,
    ) {
        self.used[epoch][header(block).lane()].push(block, header);
    }

    /// Appends a block to those of `epoch` that have some, from its first cell on.
    pub fn push_partial<'h>(
        &mut self,
        epoch: usize,
        block: Granule,
        header: impl Fn(Granule) -> &'h Header,
    ) {
        header(block).set_cursor(0);
        self.partial[epoch][header(block).lane()].push(block, header);
    }

    /// Takes a block with free cells out.
    pub fn pop_partial<'h>(
        &mut self,
        epoch: usize,
        lane: usize,
        header: impl Fn(Granule) -> &'h Header,
    ) -> Option<Granule> {
        self.partial[epoch][lane].pop(header)
    }

    /// Takes any block of `epoch` out.
    pub fn pop<'h>(
        &mut self,
        epoch: usize,
        lane: usize,
        header: impl Fn(Granule) -> &'h Header,
    ) -> Option<Granule> {
        self.pop_partial(epoch, lane, &header).or_else(|| self.used[epoch][lane].pop(&header))
    }

    /// A block of `epoch`.
    pub fn first(&self, epoch: usize) -> Option<Granule> {
        self.of(epoch).find_map(List::first)
    }

    /// Whether `epoch` has no block.
    pub fn is_empty(&self, epoch: usize) -> bool {
        self.first(epoch).is_none()
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
    pub fn remove<'h>(&mut self, block: Granule, header: impl Fn(Granule) -> &'h Header) {
        let lane = header(block).lane();
        let list = match header(block).listed() {
            Listed::UsedEven => &mut self.used[0][lane],
            Listed::UsedOdd => &mut self.used[1][lane],
            Listed::PartialEven => &mut self.partial[0][lane],
            Listed::PartialOdd => &mut self.partial[1][lane],
            Listed::No | Listed::Frozen => {
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
        let header = |granule: Granule| &headers[granule.0 as usize];
        let mut list = List::new(Listed::PartialOdd);
        for index in 0..4 {
            list.push(Granule(index), header);
        }
        list.remove(Granule(2), header);
        list.remove(Granule(0), header);
        list.remove(Granule(3), header);
        assert_eq!(header(Granule(1)).listed(), Listed::PartialOdd);
        assert_eq!(list.pop(header), Some(Granule(1)));
        assert_eq!(list.pop(header), None);
        assert_eq!(header(Granule(1)).listed(), Listed::No);
    }
}
