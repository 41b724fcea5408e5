//! Spaces: the blocks of one class, kind and layout, and which of them have free cells.
//!
//! Invariant `[heap.inv.lists]`: every block is in exactly one list of its space, or in one of the
//! lists of large objects; a block in a list of the other epoch waits to be swept, its allocation
//! bits still those of before the cycle. All under the heap's lock.
//!
//! # Safety
//!
//! A space is made of zero bytes, which are numbers and enumerations.

#![allow(unsafe_code)]

pub mod deferred_frees;
pub(super) mod large_blocks;
mod search;
mod sweep_all;

use core::sync::atomic::Ordering::*;

use self::large_blocks::BlockListLast;
use super::blocks::block_lists::{List, Lists};
use super::blocks::header::{BlockList, Form, NO_LAYOUT, NONE, State};
use super::classes::{CLASSES, TABLE};
use super::frames::Frames;
use super::kind::{KINDS, Kind, Scan};
use super::layout::{LayoutId, Shape};
use super::lookup::Cell;
use super::{Heap, Refused};
use crate::addr::Frame;
use crate::sys::meta_vec::{MetaVec, NoMemory, Zeroed};
use deferred_frees::DeferredFrees;

/// Number of spaces that every heap has: each kind without layout times each class.
pub const FIXED_SPACES: usize = KINDS * CLASSES;
/// At most so many spaces in all; typed objects beyond that share the conservative ones.
pub const MOST_SPACES: usize = 1 << 16;
/// The last of them are for layouts with functions, whose objects cannot share: what the function
/// alone names would be lost.
const FOR_FUNCTIONS: usize = 1 << 12;
/// Blocks swept before the lock is let go. Larger: fewer hand-overs; smaller: shorter waits for
/// other threads.
const SWEEP_STEP: usize = 32;
/// One allocation sweeps in so many steps at most, where the heap may grow instead. Larger: longer
/// operations; smaller: a heap grows that has dead objects enough.
pub const MOST_SWEEPS: usize = 64;

/// A block of which at least this part is free is lent to the thread that takes it. Larger: more
/// first writes without a fault; smaller: less that counts as written and is not.
const LENT_IF_FREE: u32 = 4;

/// A space's number: also its index in a thread's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct SpaceId(pub u32);

impl SpaceId {
    /// The space of a kind without layout.
    #[inline(always)]
    pub const fn of(kind: Kind, class: usize) -> Self {
        Self((kind as usize * CLASSES + class) as u32)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Space {
    class: u8,
    scan: Scan,
    pub(super) uncollectable: bool,
    pub(super) layout: u32,
    pub(super) lists: Lists,
    /// Whether it ever had a block. All else of a fixed space means nothing before.
    in_use: bool,
}

// SAFETY: numbers, and enumerations that have a zero.
unsafe impl Zeroed for Space {}

impl Space {
    fn of(kind: Kind, class: usize) -> Self {
        let (scan, uncollectable) = (kind.scan(), kind.is_uncollectable());
        let lists = Lists::new();
        Self { class: class as u8, scan, uncollectable, layout: NO_LAYOUT, lists, in_use: false }
    }
}

/// How a search for a block with free cells may make the heap larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Not at all.
    Never,
    /// Where all is swept, or must not be now, and nothing is free.
    WhereSwept,
    /// Rather than sweep further, whatever is known to be free.
    Now,
}

/// What a search for a block with free cells came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// This one; the caller holds it now.
    Found(Frame),
    /// Let the lock go and ask again: there is more to sweep.
    Again,
    /// There is none and the heap does not grow.
    None(Refused),
}

/// All that the heap's lock protects.
pub struct Inner {
    /// Free frames.
    pub frames: Frames,
    pub(super) spaces: MetaVec<Space>,
    /// Those that ever had a block; the others need not be looked at.
    pub(super) in_use: MetaVec<u32>,
    pub(super) large: Lists,
    /// What of them was listed last.
    pub(super) listed_last: BlockListLast,
    /// Large objects that live until freed, frozen ones too.
    pub(super) large_uncollectable: usize,
    /// Blocks of permanent objects, of whatever space; large ones too.
    pub(super) frozen: List,
    /// Objects freed while marking was under way.
    pub deferred_frees: DeferredFrees,
    /// Where giving memory back goes on, behind what the system refused to take.
    pub(super) clean_from: Frame,
    /// 0 or 1: which lists hold swept blocks.
    pub(super) epoch: usize,
    /// Spaces in use below this index have nothing left to sweep.
    swept_below: usize,
    /// Unswept blocks wait until references are processed.
    held_back: bool,
    /// The process was forked and no cycle has ended since: free cells of the blocks there were lie
    /// on pages that it shares, and who writes to a cell copies the page. New blocks are taken
    /// instead, as long as there is room and the program has freed fewer bytes itself, since the
    /// last cycle, than these. 0: gaps are used.
    leaves_gaps_until: usize,
}

impl Inner {
    /// No spaces yet; they are made with the first block.
    pub const fn new() -> Self {
        Self {
            frames: Frames::new(),
            spaces: MetaVec::new(),
            in_use: MetaVec::new(),
            large: Lists::new(),
            listed_last: BlockListLast::new(),
            large_uncollectable: 0,
            frozen: List::new(BlockList::Frozen),
            deferred_frees: DeferredFrees::new(),
            clean_from: Frame(0),
            epoch: 0,
            swept_below: 0,
            held_back: false,
            leaves_gaps_until: 0,
        }
    }

    /// Their pages are touched as they come into use.
    fn ensure_fixed(&mut self) -> Result<(), NoMemory> {
        if self.spaces.is_empty() {
            self.spaces = MetaVec::zeroed(FIXED_SPACES)?;
        }
        Ok(())
    }

    /// The space of a layout and class; the conservative one when there are too many, and an error
    /// then for a layout with a function.
    pub fn typed_space(
        &mut self,
        heap: &Heap,
        layout: LayoutId,
        class: usize,
    ) -> Result<SpaceId, NoMemory> {
        self.ensure_fixed()?;
        let slot = heap.layouts.space_slot(layout, class);
        let can_share = !matches!(heap.layouts.shape(layout), Shape::Function { .. });
        match slot.load(Relaxed) {
            NONE if can_share && self.spaces.len() >= MOST_SPACES - FOR_FUNCTIONS => {
                Ok(SpaceId::of(Kind::Conservative, class))
            }
            NONE if self.spaces.len() >= MOST_SPACES => Err(NoMemory),
            NONE => {
                let id = SpaceId(self.spaces.len() as u32);
                self.spaces.try_push(Space {
                    scan: heap.layouts.scan(layout),
                    layout: layout.0,
                    ..Space::of(Kind::Conservative, class)
                })?;
                slot.store(id.0, Release);
                Ok(id)
            }
            known => Ok(SpaceId(known)),
        }
    }

    /// A space is about to get a block.
    fn note_in_use(&mut self, id: SpaceId) -> Result<(), NoMemory> {
        let index = id.0 as usize;
        if !self.spaces[index].in_use {
            let count = self.in_use.len();
            self.in_use.try_push(id.0)?;
            if index < FIXED_SPACES {
                self.spaces[index] = Space::of(Kind::ALL[index / CLASSES], index % CLASSES);
            }
            self.spaces[index].in_use = true;
            // It has nothing to sweep.
            self.swept_below += (self.swept_below == count) as usize;
        }
        Ok(())
    }

    /// A new block of a space, in its list, held by the caller.
    pub fn fresh_block(
        &mut self,
        heap: &Heap,
        id: SpaceId,
        shard: usize,
        may_grow: bool,
    ) -> Result<Frame, Refused> {
        self.ensure_fixed().and_then(|()| self.note_in_use(id)).map_err(|_| Refused::System)?;
        let space = self.spaces[id.0 as usize];
        let class = TABLE[space.class as usize];
        let taken = heap.take_frames(self, class.frames as usize, space.scan, may_grow)?;
        heap.form_block(
            taken.first,
            &Form {
                state: State::Small,
                scan: space.scan,
                uncollectable: space.uncollectable,
                frames: class.frames,
                reciprocal: class.reciprocal,
                cells: class.cells,
                cell_bytes: class.cell_bytes as usize,
                requested: 0,
                layout: space.layout,
                space: id.0,
                fresh: taken.fresh,
            },
        );
        self.hold(heap, id, shard, taken.first);
        Ok(taken.first)
    }

    fn hold(&mut self, heap: &Heap, id: SpaceId, shard: usize, block: Frame) {
        let header = heap.header(block);
        header.hold(shard);
        if heap.state.lends_blocks.load(Relaxed) && self.frames.is_protected(block) {
            let cells = header.cells();
            let free = cells - heap.bits(block).allocated(cells);
            if free >= cells / LENT_IF_FREE {
                self.frames.lend(block, header.span() as usize);
                header.lend();
            }
        }
        let epoch = self.epoch;
        let lists = &mut self.spaces[id.0 as usize].lists;
        lists.push_used(epoch, block, |frame| heap.header(frame));
    }

    /// Ends an object; its cell can be handed out again.
    pub fn free_cell(&mut self, heap: &Heap, cell: &Cell<'_>) {
        // The cell is dirty; a fresh block hands out cells as zeros.
        cell.header.fresh.store(0, Relaxed);
        cell.bits.free(cell.index);
        if cell.header.list() == BlockList::Frozen {
            heap.state.frozen_bytes.fetch_sub(cell.bytes(), Relaxed);
        }
        if cell.header.state() == State::Large {
            self.free_large(heap, cell.block);
        } else {
            self.note_free_cell(heap, cell.block);
        }
    }

    /// A block that no thread holds has a free cell: it is listed as partial if it is swept. Who
    /// found that had no lock, so the block may be another one since, or none.
    pub fn note_free_cell(&mut self, heap: &Heap, block: Frame) {
        let header = heap.header(block);
        let (used, _) = BlockList::of_epoch(self.epoch);
        let is_small = header.state() == State::Small;
        if is_small && header.held.load(Relaxed) == 0 && header.list() == used {
            let epoch = self.epoch;
            let lists = &mut self.spaces[header.space() as usize].lists;
            lists.remove(block, |frame| heap.header(frame));
            lists.push_partial(epoch, block, |frame| heap.header(frame));
        }
    }
}

impl Default for Inner {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls::Calls;
    use super::*;
    use crate::addr::CellIndex;
    use crate::addr::FRAME_BYTES;

    fn heap() -> Heap {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        heap
    }

    fn sweep_all(heap: &Heap) {
        while !heap.inner().sweep_step(heap) {}
    }

    #[test]
    fn a_dead_block_is_dissolved_and_a_partial_one_found_again() {
        let heap = heap();
        let id = SpaceId::of(Kind::Leaf, 3);
        let mut inner = heap.inner();
        let [dead, partial] = [0, 1].map(|_| inner.fresh_block(&heap, id, 0, true).unwrap());
        for block in [dead, partial] {
            heap.bits(block).set_range(0..heap.header(block).cells(), false, true, true);
            heap.header(block).held.store(0, Relaxed);
        }
        heap.bits(partial).mark::<false>(CellIndex(7));
        heap.note_marked(partial, heap.header(partial));
        inner.begin_sweep(&heap, false);
        drop(inner);
        sweep_all(&heap);
        assert_eq!(heap.header(dead).state(), State::Free);
        let mut inner = heap.inner();
        assert_eq!(inner.search(&heap, id, 0, Growth::WhereSwept), Search::Found(partial));
        assert_eq!(heap.bits(partial).next_free_run(0, 100), Some(0..7));
        drop(inner);
        heap.verify().unwrap();
    }

    #[test]
    fn memory_of_other_spaces_is_swept_before_the_heap_grows() {
        let heap = heap();
        let mut inner = heap.inner();
        let blocks = crate::addr::CHUNK_FRAMES;
        for _ in 0..blocks {
            let block = inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, 0), 0, true).unwrap();
            heap.header(block).held.store(0, Relaxed);
        }
        inner.begin_sweep(&heap, false);
        let mut found = Search::Again;
        while found == Search::Again {
            let id = SpaceId::of(Kind::Conservative, 9);
            found = inner.search(&heap, id, 0, Growth::WhereSwept);
        }
        assert!(matches!(found, Search::Found(_)));
        assert_eq!(inner.frames.chunks(), 1);
    }

    #[test]
    fn large_objects_are_swept_by_their_mark() {
        let heap = heap();
        let mut inner = heap.inner();
        let [live, dead, unpublished] = [0, 1, 2].map(|_| {
            inner.large_block(&heap, Kind::Conservative, NO_LAYOUT, 50_000, true).unwrap().0
        });
        inner.publish_large(&heap, live);
        inner.publish_large(&heap, dead);
        heap.bits(live).set_range(0..1, true, false, true);
        inner.begin_sweep(&heap, false);
        drop(inner);
        sweep_all(&heap);
        assert_eq!(
            (heap.header(live).state(), heap.header(dead).state()),
            (State::Large, State::Free)
        );
        assert_eq!(heap.header(unpublished).state(), State::Large);
        assert_eq!(heap.inner().free_large(&heap, live), 4 * FRAME_BYTES);
        heap.verify().unwrap();
    }

    /// Its thread let a block go and was about to list it, when the block was given back.
    #[test]
    fn what_is_a_large_object_by_now_is_not_listed_as_partial() {
        let heap = heap();
        let mut inner = heap.inner();
        let (large, _) =
            inner.large_block(&heap, Kind::Conservative, NO_LAYOUT, 50_000, true).unwrap();
        inner.publish_large(&heap, large);
        let listed = heap.header(large).list();
        inner.note_free_cell(&heap, large);
        assert_eq!(heap.header(large).list(), listed);
        drop(inner);
        heap.verify().unwrap();
    }

    #[test]
    fn the_limit_is_kept() {
        let heap = heap();
        heap.set_max_bytes(3 * FRAME_BYTES);
        let mut inner = heap.inner();
        for _ in 0..3 {
            inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, 0), 0, true).unwrap();
        }
        assert_eq!(
            inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, 0), 0, true),
            Err(Refused::Limit)
        );
    }

    #[test]
    fn layouts_with_functions_have_spaces_of_their_own_or_none() {
        use core::ffi::c_void;
        unsafe extern "C" fn trace(_: *mut c_void, _: usize, _: usize, _: *mut c_void) {}
        let heap = heap();
        let function = Shape::Function { function: trace, environment: 0, calls: Calls::Always };
        let function = heap.layouts.intern(function).unwrap();
        let prefix = heap.layouts.intern(Shape::Prefix { bytes: 8 }).unwrap();
        let mut inner = heap.inner();
        inner.typed_space(&heap, prefix, 1).unwrap();
        let one = inner.spaces[inner.spaces.len() - 1];
        let fill = |inner: &mut Inner, most: usize| {
            (inner.spaces.len()..most).for_each(|_| inner.spaces.try_push(one).unwrap());
        };
        fill(&mut inner, MOST_SPACES - FOR_FUNCTIONS);
        let shared = Ok(SpaceId::of(Kind::Conservative, 2));
        assert_eq!(inner.typed_space(&heap, prefix, 2), shared);
        let own = inner.typed_space(&heap, function, 2).unwrap();
        assert_eq!(own.0 as usize, MOST_SPACES - FOR_FUNCTIONS);
        fill(&mut inner, MOST_SPACES);
        assert_eq!(inner.typed_space(&heap, function, 3), Err(NoMemory));
        assert_eq!(inner.typed_space(&heap, function, 2), Ok(own));
    }

    #[test]
    fn one_space_for_each_layout_and_class() {
        let heap = heap();
        let layout = heap.layouts.intern(crate::heap::layout::Shape::Prefix { bytes: 8 }).unwrap();
        let mut inner = heap.inner();
        inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, 0), 0, true).unwrap();
        inner.begin_sweep(&heap, false);
        while !inner.sweep_step(&heap) {}
        let first = inner.typed_space(&heap, layout, 2).unwrap();
        assert!(inner.is_swept());
        assert_eq!(inner.typed_space(&heap, layout, 2).unwrap(), first);
        assert_ne!(inner.typed_space(&heap, layout, 3).unwrap(), first);
        let block = inner.fresh_block(&heap, first, 0, true).unwrap();
        assert_eq!(
            (heap.header(block).scan(), heap.header(block).layout()),
            (Scan::Typed, layout.0)
        );
    }
}
