//! Objects larger than the largest class: pages of their own.
//!
//! Invariant: the object reads as zero (unless leaf) before its allocation bit makes it one.
//! Zeroing happens outside the critical section, since it takes as long as the object is large.
//! Called by the thread that allocates.
//!
//! # Safety
//!
//! Zeroes and reads the pages of a new object. They were taken under the heap's lock for this
//! thread, are committed, and nobody else learns of them before the allocation bit is set.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::addr::{Address, Frame};
use crate::heap::kind::Kind;
use crate::heap::spaces::{Inner, MOST_SWEEPS};
use crate::heap::{Heap, Refused};
use crate::stats::assists;
use crate::sys::{clock, thread};

/// Pages taken for a large object, published or not yet.
#[derive(Clone, Copy, Debug)]
pub struct LargePages {
    block: Frame,
    /// Its first byte.
    pub start: Address,
    /// Its pages, in bytes.
    pub bytes: usize,
    /// They read as zero.
    pub fresh: bool,
}

/// Takes pages for `requested` bytes, and notes them in `note`, the thread's own, until they are an
/// object: where another thread forks meanwhile, the child gives them back. In a critical section.
pub fn take(
    heap: &Heap,
    note: &AtomicU32,
    kind: Kind,
    layout: u32,
    requested: usize,
) -> Result<LargePages, Refused> {
    taken(heap, kind, layout, requested, |_, unpublished| {
        note.store(unpublished.block.0 + 1, Relaxed);
    })
}

/// Takes pages and makes them an object at once: one that need not be zeroed. In a critical
/// section.
pub fn take_published(
    heap: &Heap,
    kind: Kind,
    layout: u32,
    requested: usize,
) -> Result<LargePages, Refused> {
    taken(heap, kind, layout, requested, |inner, unpublished| {
        inner.publish_large(heap, unpublished.block);
    })
}

/// Takes pages and runs `then` under the same hold of the heap's lock.
fn taken(
    heap: &Heap,
    kind: Kind,
    layout: u32,
    requested: usize,
    then: impl FnOnce(&mut Inner, &LargePages),
) -> Result<LargePages, Refused> {
    let (mut grow, mut sweeps) = (false, 0);
    loop {
        let mut inner = heap.inner();
        match inner.large_block(heap, kind, layout, requested, grow) {
            Ok((block, fresh)) => {
                let bytes = heap.header(block).cell_bytes();
                let unpublished = LargePages { block, start: heap.address(block), bytes, fresh };
                then(&mut inner, &unpublished);
                return Ok(unpublished);
            }
            Err(Refused::System) if inner.is_held_back() && !grow => grow = true,
            Err(_) if inner.is_held_back() => {
                drop(inner);
                // To the collector's thread, which may want this processor.
                thread::yield_now();
            }
            Err(Refused::System) if !grow && (inner.is_swept() || sweeps >= MOST_SWEEPS) => {
                grow = true;
            }
            // Dead memory first: before the heap grows, and where it cannot.
            Err(_) if !inner.is_swept() => {
                let began = clock::now_ns();
                inner.sweep_step_for_pages(heap);
                sweeps += 1;
                assists::add(clock::now_ns() - began);
            }
            Err(refused) => return Err(refused),
        }
    }
}

/// Makes the pages an object. In a critical section, after the caller has zeroed them where needed.
pub fn publish(heap: &Heap, note: &AtomicU32, unpublished: &LargePages) {
    let mut inner = heap.inner();
    inner.publish_large(heap, unpublished.block);
    note.store(0, Relaxed);
}

/// Gives back the pages that a thread, which is gone, had taken and noted.
pub fn forget_unpublished(heap: &Heap, note: &AtomicU32) {
    if let Some(block) = note.swap(0, Relaxed).checked_sub(1) {
        heap.dissolve_block(&mut heap.inner(), Frame(block));
    }
}

/// Zeroes what may not be zero. Outside the critical section.
///
/// # Safety
/// `unpublished` was just taken by this thread.
pub unsafe fn zero(unpublished: &LargePages) {
    if !unpublished.fresh {
        // SAFETY: the pages are committed, and nobody else knows them.
        unsafe { unpublished.start.pointer::<u8>().write_bytes(0, unpublished.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{CHUNK_FRAMES, FRAME_BYTES};
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::Scan;
    use crate::heap::spaces::SpaceId;

    #[test]
    fn pages_become_an_object_and_are_zero_again_after_reuse() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        for round in 0..2 {
            let note = AtomicU32::new(0);
            let unpublished = take(&heap, &note, Kind::Conservative, NO_LAYOUT, 40_000).unwrap();
            assert!(heap.object_at(unpublished.start.0).is_none());
            assert_eq!(unpublished.fresh, round == 0);
            // SAFETY: just taken.
            unsafe { zero(&unpublished) };
            publish(&heap, &note, &unpublished);
            let cell = heap.object_at(unpublished.start.0 + 39_999).unwrap();
            assert_eq!((cell.start, cell.bytes()), (unpublished.start, 40_960));
            assert!(heap.object_at(unpublished.start.0 + 40_000).is_none());
            // SAFETY: the object is ours.
            unsafe {
                let bytes =
                    core::slice::from_raw_parts_mut(unpublished.start.pointer::<u8>(), 40_000);
                assert!(bytes.iter().all(|byte| *byte == 0));
                bytes.fill(7);
            }
            heap.inner().free_large(&heap, cell.block);
        }
    }

    #[test]
    fn pages_that_never_became_an_object_come_back() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let note = AtomicU32::new(0);
        let unpublished = take(&heap, &note, Kind::Leaf, NO_LAYOUT, 40_000).unwrap();
        assert_eq!(heap.inner().frames.taken(), 3);
        forget_unpublished(&heap, &note);
        assert_eq!(heap.inner().frames.taken(), 0);
        let born = take(&heap, &note, Kind::Leaf, NO_LAYOUT, 40_000).unwrap();
        assert_eq!(born.start, unpublished.start);
        publish(&heap, &note, &born);
        forget_unpublished(&heap, &note);
        assert!(heap.object_at(born.start.0).is_some(), "an object is nobody's note any more");
        heap.verify().unwrap();
    }

    #[test]
    fn one_object_sweeps_a_part_of_the_heap_and_all_where_it_cannot_grow() {
        const BLOCKS: usize = MOST_SWEEPS * 32 + 4 * CHUNK_FRAMES;
        for limit in [usize::MAX, BLOCKS * FRAME_BYTES] {
            let heap = Heap::new();
            heap.reserve(128 << 20).unwrap();
            let mut inner = heap.inner();
            for number in 0..BLOCKS {
                let (block, _) =
                    inner.large_block(&heap, Kind::Leaf, NO_LAYOUT, FRAME_BYTES, true).unwrap();
                inner.publish_large(&heap, block);
                heap.bits(block).set_range(0..1, true, false, number != BLOCKS - 1);
            }
            inner.begin_sweep(&heap, false);
            drop(inner);
            heap.set_max_bytes(limit);
            take(&heap, &AtomicU32::new(0), Kind::Leaf, NO_LAYOUT, FRAME_BYTES).unwrap();
            let inner = heap.inner();
            assert_eq!(inner.frames.taken() > BLOCKS, limit == usize::MAX);
            assert_eq!(inner.is_swept(), limit != usize::MAX);
        }
    }

    #[test]
    fn dead_large_objects_are_found_before_the_heap_grows_whatever_else_is_to_be_swept() {
        const SMALL: usize = MOST_SWEEPS * 32 + CHUNK_FRAMES;
        let heap = Heap::new();
        heap.reserve(128 << 20).unwrap();
        let mut inner = heap.inner();
        for _ in 0..SMALL {
            let id = SpaceId::of(Kind::Leaf, 0);
            let block = inner.fresh_block(&heap, id, 0, true).unwrap();
            heap.header(block).let_go();
            heap.bits(block).set_range(0..1, true, false, true);
        }
        let dead = inner.large_block(&heap, Kind::Leaf, NO_LAYOUT, 2 << 20, true).unwrap().0;
        inner.publish_large(&heap, dead);
        inner.begin_sweep(&heap, false);
        let chunks = inner.frames.chunks();
        drop(inner);
        let found = take(&heap, &AtomicU32::new(0), Kind::Leaf, NO_LAYOUT, 2 << 20).unwrap();
        assert_eq!((found.block, heap.inner().frames.chunks()), (dead, chunks));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let take = |bytes| take(&heap, &AtomicU32::new(0), Kind::Leaf, NO_LAYOUT, bytes);
        for requested in [65 << 20, 1 << 40, isize::MAX as usize, usize::MAX, usize::MAX - 5000] {
            assert!(take(requested).is_err());
        }
        // Beside one that is there they are more than a word counts.
        take(40_000).unwrap();
        heap.set_max_bytes(32 << 20);
        for requested in [33 << 20, isize::MAX as usize, usize::MAX - 20_000] {
            assert_eq!(take(requested).unwrap_err(), Refused::Limit);
            let (behind, frames) = (Frame(3), requested / FRAME_BYTES);
            let grown = heap.take_frames_at(&mut heap.inner(), behind, frames, Scan::Leaf, false);
            assert_eq!(grown, Err(Refused::Limit));
        }
        heap.verify().unwrap();
    }
}
