//! Blocks of large objects: made in two steps, freed, and swept.
//!
//! Invariant: as `[heap.inv.lists]`, and a block that is no object yet is in no list. Under the
//! heap's lock, for a thread that allocates or frees, or sweeps.

use core::sync::atomic::Ordering::Relaxed;

use super::Inner;
use crate::addr::{Frame, GRANULE_BYTES, PAGE_BYTES, round_up};
use crate::heap::blocks::header::{BlockList, Form, NO_LAYOUT, NONE, State};
use crate::heap::kind::Kind;
use crate::heap::layout::LayoutId;
use crate::heap::{Heap, Refused};

/// The sweep fetches the header of the block so many places behind the one that it looks at: it
/// would wait for each otherwise. More: further ahead than the caches keep; fewer: fetched too
/// late.
const AHEAD: usize = 8;

/// The blocks that were listed last.
pub struct BlockListLast {
    blocks: [u32; AHEAD],
    next: usize,
}

impl BlockListLast {
    /// None.
    pub const fn new() -> Self {
        Self { blocks: [NONE; AHEAD], next: 0 }
    }

    /// Puts a block in the place of the one that was listed [`AHEAD`] before it; gives that one.
    fn exchange(&mut self, block: Frame) -> u32 {
        let before = core::mem::replace(&mut self.blocks[self.next], block.0);
        self.next = (self.next + 1) % AHEAD;
        before
    }
}

impl Inner {
    /// A block of pages of its own for one object of `requested` bytes, which is neither allocated
    /// nor in a list yet: no sweep meets it. Says whether it reads as zero.
    pub fn large_block(
        &mut self,
        heap: &Heap,
        kind: Kind,
        layout: u32,
        requested: usize,
        may_grow: bool,
    ) -> Result<(Frame, bool), Refused> {
        let requested = round_up(requested, GRANULE_BYTES).ok_or(Refused::System)?;
        let cell_bytes = round_up(requested, PAGE_BYTES).ok_or(Refused::System)?;
        let scan = match layout {
            NO_LAYOUT => kind.scan(),
            layout => heap.layouts.scan(LayoutId(layout)),
        };
        let frames = heap.frames_of_large(cell_bytes);
        let taken = heap.take_frames(self, frames, scan, may_grow)?;
        heap.form_block(
            taken.first,
            &Form {
                state: State::Large,
                scan,
                uncollectable: kind.is_uncollectable(),
                frames: frames as u32,
                reciprocal: 0,
                cells: 1,
                cell_bytes,
                requested,
                layout,
                space: 0,
                fresh: taken.fresh,
            },
        );
        heap.guard_large(taken.first);
        self.large_uncollectable += kind.is_uncollectable() as usize;
        // The next one mostly comes to lie there.
        heap.prefetch_large(taken.first.add(frames));
        Ok((taken.first, taken.fresh))
    }

    /// Makes a block from [`Inner::large_block`] an object: from now on it is swept like all
    /// others.
    pub fn publish_large(&mut self, heap: &Heap, block: Frame) {
        self.list_large(heap, block);
        let header = heap.header(block);
        let black = heap.state.is_born_marked(header.is_uncollectable());
        if black {
            heap.note_marked(block, header);
        }
        heap.bits(block).publish_only(black);
    }

    fn list_large(&mut self, heap: &Heap, block: Frame) {
        let epoch = self.epoch;
        self.large.push_used(epoch, block, |frame| heap.header(frame));
        let before = self.listed_last.exchange(block);
        if before != NONE {
            heap.header(Frame(before)).ahead.store(block.0, Relaxed);
        }
    }

    /// Ends a large object; gives the bytes freed.
    pub fn free_large(&mut self, heap: &Heap, block: Frame) -> usize {
        let header = |frame| heap.header(frame);
        match heap.header(block).list() {
            BlockList::Frozen => {
                // Pointers to it lead to whatever lies there next.
                self.frames.forget_all_closed();
                self.frozen.remove(block, header);
            }
            _ => self.large.remove(block, header),
        }
        heap.dissolve_block(self, block)
    }

    /// Sweeps some large objects; true when there is nothing left to sweep.
    pub(super) fn sweep_large(&mut self, heap: &Heap, most: usize) -> bool {
        let header = |frame| heap.header(frame);
        for _ in 0..most {
            let Some(block) = self.large.pop(1 - self.epoch, 0, header) else { return true };
            let ahead = heap.header(block).ahead.load(Relaxed);
            if ahead != NONE {
                heap.prefetch_large(Frame(ahead));
            }
            if heap.bits(block).sweep(1) == 0 {
                heap.dissolve_block(self, block);
            } else {
                self.list_large(heap, block);
            }
        }
        false
    }
}
