//! The header of a block: one cache line per granule, outside the heap, found by arithmetic.
//!
//! Invariant `[heap.inv.header]`: a header's shape is complete before its state says that there is a block, and the state says so before any address in
//! the block reaches a program. The shape changes only under the heap's lock, while no object of the block is reachable.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::*};

use super::kind::Scan;
use crate::addr::Granule;

/// What a granule is; of further granules of a block see [`super::further`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The first granule of no block.
    Free = 0,
    /// The first granule of a block of cells.
    Small = 1,
    /// The first granule of a single object with pages of its own.
    Large = 2,
}

/// The list that a block is in. Swept and unswept change places at the end of each cycle without touching a header: blocks swept in an even epoch
/// are the unswept ones of the odd epoch that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Listed {
    /// None.
    No = 0,
    /// In use, swept in an even epoch; no free cells that are not some thread's.
    UsedEven = 1,
    /// The same of an odd epoch.
    UsedOdd = 2,
    /// Swept in an even epoch, and known to have free cells that no thread holds.
    PartialEven = 3,
    /// The same of an odd epoch.
    PartialOdd = 4,
    /// Its objects live until they are freed or unfrozen; no free cell of it is handed out.
    Frozen = 5,
}

/// No block, as a link.
pub const NONE: u32 = u32::MAX;
/// No layout.
pub const NO_LAYOUT: u32 = u32::MAX;

/// One granule's header. Fields are atomics because markers read them while mutators make other blocks; the state orders them.
#[repr(C, align(64))]
pub struct Header {
    state: AtomicU8,
    scan: AtomicU8,
    uncollectable: AtomicU8,
    listed: AtomicU8,
    /// Granules of the block.
    span: AtomicU32,
    reciprocal: AtomicU32,
    /// Cells in the block; 1 for a large object.
    cells: AtomicU32,
    /// Bytes of a cell; for a large object its pages.
    cell_bytes: AtomicUsize,
    /// Bytes of a large object that the program asked for (past-the-end byte included); larger offsets are no pointers into it.
    requested: AtomicUsize,
    layout: AtomicU32,
    /// The space it belongs to.
    space: AtomicU32,
    /// Links of its list, protected by the heap's lock.
    next: AtomicU32,
    previous: AtomicU32,
    /// The cell where the search for the next free run goes on; written by the thread that holds the block.
    pub cursor: AtomicU32,
    /// 1 while a thread takes runs from it.
    pub held: AtomicU8,
    /// 1 if the block's free cells are known to read as zero; cleared by the heap when it is swept.
    pub fresh: AtomicU8,
    /// 1 if a cell of it may be marked; see [`super::marked_blocks`].
    pub(super) has_marks: AtomicU8,
    /// While a thread holds it: the block that this thread took with it and uses after it, [`NONE`] if none. Written under the heap's lock or by that thread.
    follower: AtomicU32,
    /// Which of the lists of its space it is put into; written under the heap's lock while it is in none.
    lane: AtomicU8,
}

/// What [`Header::form`] makes of a block.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Small or large.
    pub state: State,
    /// How its cells are scanned.
    pub scan: Scan,
    /// Whether they live until freed.
    pub uncollectable: bool,
    /// Granules.
    pub granules: u32,
    /// As in [`super::classes::Class`]; 0 for a large object, whose only cell has index 0.
    pub reciprocal: u32,
    /// Cells.
    pub cells: u32,
    /// Bytes of a cell.
    pub cell_bytes: usize,
    /// Bytes asked for, large objects only.
    pub requested: usize,
    /// Layout or [`NO_LAYOUT`].
    pub layout: u32,
    /// Space or [`NONE`].
    pub space: u32,
    /// Whether its cells read as zero.
    pub fresh: bool,
}

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => {
        $($(#[$doc])* #[inline(always)] pub fn $name(&self) -> $type { self.$name.load(Relaxed) })*
    };
}

impl Header {
    readers! {
        /// ⌈2³² / cell bytes⌉.
        reciprocal: u32,
        /// Number of cells.
        cells: u32,
        /// Bytes of a cell.
        cell_bytes: usize,
        /// Bytes asked for (large objects).
        requested: usize,
        /// Layout or [`NO_LAYOUT`].
        layout: u32,
        /// Space.
        space: u32,
        /// Granules of the block.
        span: u32,
    }

    /// What the granule is; what it says is seen complete.
    #[inline(always)]
    pub fn state(&self) -> State {
        match self.state.load(Acquire) {
            0 => State::Free,
            1 => State::Small,
            _ => State::Large,
        }
    }

    /// How its cells are scanned.
    #[inline(always)]
    pub fn scan(&self) -> Scan {
        match self.scan.load(Relaxed) {
            0 => Scan::Leaf,
            1 => Scan::Conservative,
            _ => Scan::Typed,
        }
    }

    /// Whether its objects live until freed.
    #[inline(always)]
    pub fn is_uncollectable(&self) -> bool {
        self.uncollectable.load(Relaxed) != 0
    }

    /// Makes it the first granule of a block. Called under the heap's lock.
    pub fn form(&self, form: &Form) {
        self.scan.store(form.scan as u8, Relaxed);
        self.uncollectable.store(form.uncollectable as u8, Relaxed);
        self.listed.store(Listed::No as u8, Relaxed);
        self.span.store(form.granules, Relaxed);
        self.reciprocal.store(form.reciprocal, Relaxed);
        self.cells.store(form.cells, Relaxed);
        self.cell_bytes.store(form.cell_bytes, Relaxed);
        self.requested.store(form.requested, Relaxed);
        self.layout.store(form.layout, Relaxed);
        self.space.store(form.space, Relaxed);
        self.next.store(NONE, Relaxed);
        self.previous.store(NONE, Relaxed);
        self.cursor.store(0, Relaxed);
        self.held.store(0, Relaxed);
        self.follower.store(NONE, Relaxed);
        self.lane.store(0, Relaxed);
        self.fresh.store(form.fresh as u8, Relaxed);
        self.has_marks.store(0, Relaxed);
        self.state.store(form.state as u8, Release);
    }

    /// Makes it nobody's.
    pub fn dissolve(&self) {
        self.state.store(State::Free as u8, Release);
    }

    /// A large object that grew or shrank within its granules, or whose request became known.
    pub fn set_large_size(&self, requested: usize, cell_bytes: usize) {
        self.requested.store(requested, Relaxed);
        self.cell_bytes.store(cell_bytes, Relaxed);
    }

    /// A large object that took or gave granules at its end.
    pub fn set_large_span(&self, granules: u32) {
        self.span.store(granules, Relaxed);
    }

    /// Holds it for a thread of `lane` that will take runs from it, from its first cell on. It is in no list.
    pub fn hold(&self, lane: usize) {
        self.lane.store(lane as u8, Relaxed);
        self.cursor.store(0, Relaxed);
        self.follower.store(NONE, Relaxed);
        self.held.store(1, Relaxed);
    }

    /// Lets it go; gives the block that its thread holds after it. Release: who finds the block let go finds the bits of its runs set.
    pub fn let_go(&self) -> Option<Granule> {
        let follower = self.follower();
        self.held.store(0, Release);
        follower
    }

    /// The block that its thread uses after it.
    pub fn follower(&self) -> Option<Granule> {
        let follower = self.follower.load(Relaxed);
        (follower != NONE).then_some(Granule(follower))
    }

    /// The lane that held it last, below [`LANES`].
    pub fn lane(&self) -> usize {
        self.lane.load(Relaxed) as usize % LANES
    }

    /// Its thread uses `follower` after it.
    pub fn follow_with(&self, follower: Granule) {
        self.follower.store(follower.0, Relaxed);
    }

    /// The list it is in. Meaningful under the heap's lock; elsewhere a hint.
    pub fn listed(&self) -> Listed {
        match self.listed.load(Relaxed) {
            0 => Listed::No,
            1 => Listed::UsedEven,
            2 => Listed::UsedOdd,
            3 => Listed::PartialEven,
            4 => Listed::PartialOdd,
            _ => Listed::Frozen,
        }
    }

    /// Whether its objects are permanent. Settled while a cycle is under way.
    #[inline]
    pub fn is_frozen(&self) -> bool {
        self.listed.load(Relaxed) == Listed::Frozen as u8
    }
}

/// A doubly linked list of blocks through their headers; all use is under the heap's lock.
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

    /// The block after one of its members.
    pub fn after<'h>(
        &self,
        block: Granule,
        header: impl Fn(Granule) -> &'h Header,
    ) -> Option<Granule> {
        let next = header(block).next.load(Relaxed);
        (next != NONE).then_some(Granule(next))
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

/// Each thread takes blocks that its own lane used before, as long as there are any: their memory, headers and bits are in the caches of its processor or near it. Larger: more threads have a lane of their own; smaller: fewer lists to search.
pub const LANES: usize = 4;

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
        header(block).cursor.store(0, Relaxed);
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

    fn headers() -> Vec<Header> {
        (0..4)
            .map(|_| Header {
                state: AtomicU8::new(0),
                scan: AtomicU8::new(0),
                uncollectable: AtomicU8::new(0),
                listed: AtomicU8::new(0),
                span: AtomicU32::new(0),
                reciprocal: AtomicU32::new(0),
                cells: AtomicU32::new(0),
                cell_bytes: AtomicUsize::new(0),
                requested: AtomicUsize::new(0),
                layout: AtomicU32::new(0),
                space: AtomicU32::new(0),
                next: AtomicU32::new(0),
                previous: AtomicU32::new(0),
                cursor: AtomicU32::new(0),
                held: AtomicU8::new(0),
                fresh: AtomicU8::new(0),
                has_marks: AtomicU8::new(0),
                follower: AtomicU32::new(0),
                lane: AtomicU8::new(0),
            })
            .collect()
    }

    #[test]
    fn a_header_is_a_cache_line() {
        assert_eq!(size_of::<Header>(), 64);
    }

    #[test]
    fn lists_keep_order_and_allow_removal_anywhere() {
        let headers = headers();
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
