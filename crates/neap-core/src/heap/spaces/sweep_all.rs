//! Sweeping all spaces, in steps that keep the heap's lock short.
//!
//! Invariant: as `[heap.inv.lists]`: a block in a list of the other epoch waits to be swept by its
//! mark bits. While what stays is not known, it waits longer. Under the heap's lock.

use core::sync::atomic::Ordering::*;

use super::{Inner, SWEEP_STEP};
use crate::heap::Heap;
use crate::heap::blocks::header::SHARDS;

/// To look at so many spaces takes as long as to sweep a block: a program may have thousands, most
/// of them without blocks.
const SPACES_A_BLOCK: usize = 16;

impl Heap {
    /// Sweeps until nothing is left.
    pub fn finish_sweep<T>(&self, enter: impl Fn() -> T) {
        self.in_steps(enter, |inner| inner.sweep_step(self));
    }
}

impl Inner {
    /// Sweeps some blocks of any space and frees the empty ones; true when there is nothing left to
    /// sweep.
    pub fn sweep_step(&mut self, heap: &Heap) -> bool {
        if self.held_back {
            return false;
        }
        let header = |frame| heap.header(frame);
        let (now, before) = (self.epoch, 1 - self.epoch);
        let mut left = SWEEP_STEP;
        while self.swept_below < self.in_use.len() {
            let index = self.in_use[self.swept_below] as usize;
            for shard in 0..SHARDS {
                while let Some(block) = self.spaces[index].lists.pop(before, shard, header) {
                    let its = heap.header(block);
                    let live = heap.bits(block).sweep(its.cells());
                    let lists = &mut self.spaces[index].lists;
                    if live == 0 {
                        heap.dissolve_block(self, block);
                    } else if live == its.cells() {
                        lists.push_used(now, block, header);
                    } else {
                        its.fresh.store(0, Relaxed);
                        lists.push_partial(now, block, header);
                    }
                    left -= 1;
                    if left == 0 {
                        return false;
                    }
                }
            }
            self.swept_below += 1;
            if self.swept_below.is_multiple_of(SPACES_A_BLOCK) {
                left -= 1;
                if left == 0 {
                    return false;
                }
            }
        }
        self.sweep_large(heap, left)
    }

    /// The same, but large objects first: who wants pages finds them sooner.
    pub fn sweep_step_for_pages(&mut self, heap: &Heap) {
        if !self.held_back && self.sweep_large(heap, SWEEP_STEP) {
            self.sweep_step(heap);
        }
    }

    /// Whether every block is swept.
    pub fn is_swept(&self) -> bool {
        self.swept_below >= self.in_use.len() && self.large.is_empty(1 - self.epoch)
    }

    /// The end of a cycle: every block is to be swept by its new mark bits. All were swept by the
    /// old ones before.
    ///
    /// If they are `held_back`, it is not known yet what stays: nothing is swept until
    /// [`Inner::let_sweep`], and who needs memory gets new blocks.
    pub fn begin_sweep(&mut self, heap: &Heap, held_back: bool) {
        self.held_back = held_back;
        self.leaves_gaps_until = 0;
        debug_assert!(self.is_swept(), "[heap.inv.lists] a cycle begins with everything swept");
        self.epoch = 1 - self.epoch;
        heap.state.epoch.store(self.epoch, Relaxed);
        self.swept_below = 0;
    }

    /// All marks are final.
    pub fn let_sweep(&mut self) {
        self.held_back = false;
    }

    /// Whether unswept blocks have to wait.
    pub fn is_held_back(&self) -> bool {
        self.held_back
    }
}
