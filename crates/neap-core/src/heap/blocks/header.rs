//! The header of a block: one cache line per frame, outside the heap, found by arithmetic.
//!
//! Invariant `[heap.inv.header]`: a header's shape is complete before its state says that there is
//! a block, and the state says so before any address in the block reaches a program. The shape
//! changes only under the heap's lock, while no object of the block is reachable.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::addr::Frame;
use crate::heap::kind::Scan;

/// Each thread takes blocks that its own shard used before, as long as there are any: their memory,
/// headers and bits are in the caches of its processor or near it. Larger: more threads have a
/// shard of their own; smaller: fewer lists to search.
pub const SHARDS: usize = 4;

/// What a frame is; of further frames of a block see [`super::block_offsets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The first frame of no block.
    Free = 0,
    /// The first frame of a block of cells.
    Small = 1,
    /// The first frame of a single object with pages of its own.
    Large = 2,
}

/// The list that a block is in. Swept and unswept change places at the end of each cycle without
/// touching a header: blocks swept in an even epoch are the unswept ones of the odd epoch that
/// follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockList {
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

impl BlockList {
    /// The lists of blocks in use and of those with free cells that are swept in an epoch.
    pub fn of_epoch(epoch: usize) -> (Self, Self) {
        [(Self::UsedEven, Self::PartialEven), (Self::UsedOdd, Self::PartialOdd)][epoch & 1]
    }
}

/// A thread takes buffers from the block.
const HELD: u8 = 1;
/// The same, and the write watch is to leave it unprotected meanwhile.
const LENT: u8 = 2;

/// No block, as a link.
pub const NONE: u32 = u32::MAX;
/// No layout.
pub const NO_LAYOUT: u32 = u32::MAX;

/// One frame's header. Fields are atomics because markers read them while mutators make other
/// blocks; the state orders them.
#[repr(C, align(64))]
pub struct Header {
    state: AtomicU8,
    scan: AtomicU8,
    uncollectable: AtomicU8,
    pub(in crate::heap) list: AtomicU8,
    /// Frames of the block.
    span: AtomicU32,
    /// Cells in the block; 1 for a large object.
    cells: AtomicU32,
    layout: AtomicU32,
    /// Of a large object its bits, as [`crate::heap::bits`] has them: whoever needs them has this
    /// line at hand. Of a block of cells two pairs of 32 bits, the lower first: ⌈2³² / cell bytes⌉
    /// and the space; the cell where the search for the next free buffer goes on and, while a
    /// thread holds the block, the one that it took with it and uses after it, [`NONE`] if none.
    /// The second pair is written by the thread that holds the block, or under the heap's lock
    /// while none does.
    own: [AtomicU64; 2],
    /// Bytes of a cell; for a large object its pages.
    cell_bytes: AtomicUsize,
    /// Bytes of a large object that the program asked for (past-the-end byte included), in whole
    /// granules of 16; larger offsets are no pointers into it.
    requested: AtomicUsize,
    /// Links of its list, protected by the heap's lock.
    pub(in crate::heap) next: AtomicU32,
    pub(in crate::heap) previous: AtomicU32,
    /// Of a large object: one that was listed some places later, which the sweep fetches, [`NONE`]
    /// if none. A guess: it may have ended since. Under the heap's lock.
    pub(in crate::heap) ahead: AtomicU32,
    /// Not 0 while a thread takes buffers from it: [`HELD`] or [`LENT`].
    pub held: AtomicU8,
    /// 1 if the block's free cells are known to read as zero; cleared by the heap when it is swept.
    pub fresh: AtomicU8,
    /// 1 if a cell of it may be marked; see [`super::marked_blocks`].
    pub(in crate::heap) has_marks: AtomicU8,
    /// Which of the lists of its space it is put into; written under the heap's lock while it is in
    /// none.
    shard: AtomicU8,
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
    /// Frames.
    pub frames: u32,
    /// As in [`crate::heap::classes::Class`]; 0 for a large object.
    pub reciprocal: u32,
    /// Cells.
    pub cells: u32,
    /// Bytes of a cell.
    pub cell_bytes: usize,
    /// Bytes asked for in whole granules, large objects only.
    pub requested: usize,
    /// Layout or [`NO_LAYOUT`].
    pub layout: u32,
    /// Space; 0 for a large object.
    pub space: u32,
    /// Whether its cells read as zero.
    pub fresh: bool,
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn high(pair: u64) -> u32 {
    (pair >> 32) as u32
}

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => {
        $($(#[$doc])* #[inline(always)] pub fn $name(&self) -> $type { self.$name.load(Relaxed) })*
    };
}

impl Header {
    readers! {
        /// Number of cells.
        cells: u32,
        /// Bytes of a cell.
        cell_bytes: usize,
        /// Bytes asked for in whole granules (large objects).
        requested: usize,
        /// Layout or [`NO_LAYOUT`].
        layout: u32,
        /// Frames of the block.
        span: u32,
    }

    /// ⌈2³² / cell bytes⌉, of a block of cells.
    #[inline(always)]
    pub fn reciprocal(&self) -> u32 {
        self.own[0].load(Relaxed) as u32
    }

    /// The space of a block of cells.
    pub fn space(&self) -> u32 {
        high(self.own[0].load(Relaxed))
    }

    /// The cell of a block of cells where the search for the next free buffer goes on.
    pub fn cursor(&self) -> u32 {
        self.own[1].load(Relaxed) as u32
    }

    /// By the thread that holds the block, or under the heap's lock while none does.
    pub fn set_cursor(&self, cell: u32) {
        self.own[1].store(pair(cell, high(self.own[1].load(Relaxed))), Relaxed);
    }

    /// The words of a large object's bits.
    #[inline(always)]
    pub fn own_bits(&self) -> *const AtomicU64 {
        self.own.as_ptr()
    }

    /// As it comes from the system: nobody's.
    #[cfg(test)]
    pub(in crate::heap) fn zeroed() -> Self {
        Self {
            state: AtomicU8::new(0),
            scan: AtomicU8::new(0),
            uncollectable: AtomicU8::new(0),
            list: AtomicU8::new(0),
            span: AtomicU32::new(0),
            cells: AtomicU32::new(0),
            layout: AtomicU32::new(0),
            own: [const { AtomicU64::new(0) }; 2],
            cell_bytes: AtomicUsize::new(0),
            requested: AtomicUsize::new(0),
            next: AtomicU32::new(0),
            previous: AtomicU32::new(0),
            ahead: AtomicU32::new(0),
            held: AtomicU8::new(0),
            fresh: AtomicU8::new(0),
            has_marks: AtomicU8::new(0),
            shard: AtomicU8::new(0),
        }
    }

    /// What the frame is; what it says is seen complete.
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

    /// Makes it the first frame of a block. Called under the heap's lock.
    pub fn form(&self, form: &Form) {
        self.scan.store(form.scan as u8, Relaxed);
        self.uncollectable.store(form.uncollectable as u8, Relaxed);
        self.list.store(BlockList::No as u8, Relaxed);
        self.span.store(form.frames, Relaxed);
        self.cells.store(form.cells, Relaxed);
        self.own[0].store(pair(form.reciprocal, form.space), Relaxed);
        self.own[1].store(if form.state == State::Large { 0 } else { pair(0, NONE) }, Relaxed);
        self.cell_bytes.store(form.cell_bytes, Relaxed);
        self.requested.store(form.requested, Relaxed);
        self.layout.store(form.layout, Relaxed);
        self.next.store(NONE, Relaxed);
        self.previous.store(NONE, Relaxed);
        self.ahead.store(NONE, Relaxed);
        self.held.store(0, Relaxed);
        self.shard.store(0, Relaxed);
        self.fresh.store(form.fresh as u8, Relaxed);
        self.has_marks.store(0, Relaxed);
        self.state.store(form.state as u8, Release);
    }

    /// Makes it nobody's.
    pub fn dissolve(&self) {
        self.state.store(State::Free as u8, Release);
    }

    /// A large object that grew or shrank within its frames, or whose request became known.
    pub fn set_large_size(&self, requested: usize, cell_bytes: usize) {
        self.requested.store(requested, Relaxed);
        self.cell_bytes.store(cell_bytes, Relaxed);
    }

    /// A large object that took or gave frames at its end.
    pub fn set_large_span(&self, frames: u32) {
        self.span.store(frames, Relaxed);
    }

    /// Holds it for a thread of `shard` that will take buffers from it, from its first cell on. It
    /// is in no list.
    pub fn hold(&self, shard: usize) {
        self.shard.store(shard as u8, Relaxed);
        self.own[1].store(pair(0, NONE), Relaxed);
        self.held.store(HELD, Relaxed);
    }

    /// Its pages are not protected while it is held. By who holds it, under the heap's lock.
    pub fn lend(&self) {
        self.held.store(LENT, Relaxed);
    }

    /// Whether its pages are not to be protected now. Acquire: who finds that they may be finds
    /// what was written there before it was let go.
    pub fn is_lent(&self) -> bool {
        self.held.load(Acquire) == LENT
    }

    /// Lets it go; gives the block that its thread holds after it. Release: who finds the block let
    /// go finds the bits of its buffers set.
    pub fn let_go(&self) -> Option<Frame> {
        let follower = self.follower();
        self.held.store(0, Release);
        follower
    }

    /// The block that its thread uses after it.
    pub fn follower(&self) -> Option<Frame> {
        let follower = high(self.own[1].load(Relaxed));
        (follower != NONE).then_some(Frame(follower))
    }

    /// The shard that held it last, below [`SHARDS`].
    pub fn shard(&self) -> usize {
        self.shard.load(Relaxed) as usize % SHARDS
    }

    /// Its thread uses `follower` after it.
    pub fn follow_with(&self, follower: Frame) {
        self.own[1].store(pair(self.cursor(), follower.0), Relaxed);
    }

    /// The block after it in its list. Under the heap's lock.
    pub fn next(&self) -> Option<Frame> {
        let next = self.next.load(Relaxed);
        (next != NONE).then_some(Frame(next))
    }

    /// The list it is in. Meaningful under the heap's lock; elsewhere a hint.
    pub fn list(&self) -> BlockList {
        match self.list.load(Relaxed) {
            0 => BlockList::No,
            1 => BlockList::UsedEven,
            2 => BlockList::UsedOdd,
            3 => BlockList::PartialEven,
            4 => BlockList::PartialOdd,
            _ => BlockList::Frozen,
        }
    }

    /// Whether its objects are permanent. Decided while a cycle is under way.
    #[inline]
    pub fn is_frozen(&self) -> bool {
        self.list.load(Relaxed) == BlockList::Frozen as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_cache_line() {
        assert_eq!(size_of::<Header>(), 64);
    }
}
