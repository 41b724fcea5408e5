//! The slow path of a small allocation: the next run of the thread's block, the next block with
//! free cells, a new block.
//!
//! Invariant: a buffer is zeroed (unless leaf) before its allocation bits are set, and marked with
//! them while objects are born marked. Called by its thread in a critical section.
//!
//! # Safety
//!
//! Zeroes cells before they are handed out. They are free and this thread holds their block, so no
//! other thread has an address in them and no marker takes them for objects.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{Ordering::*, fence};

use super::buffer::{Buffer, Local};
use crate::addr::{Address, FRAME_BYTES, Frame, PAGE_BYTES};
use crate::heap::blocks::header::Header;
use crate::heap::kind::Scan;
use crate::heap::spaces::{Growth, MOST_SWEEPS, Search, SpaceId};
use crate::heap::{Heap, Refused};
use crate::stats::{assists, sampler};
use crate::sys::process::valgrind;
use crate::sys::{clock, map, thread};

/// Gives the buffer of a space further cells; says how many bytes.
pub fn refill(heap: &Heap, local: &Local, buffer: &Buffer, id: SpaceId) -> Result<usize, Refused> {
    let mut sweeps = 0;
    loop {
        if let Some(block) = buffer.block() {
            if let Some(bytes) = next_run(heap, local, buffer, block) {
                return Ok(bytes);
            }
            let free = freed_while_held(heap, block);
            if free > heap.header(block).cells() / MUCH_FREE {
                heap.header(block).set_cursor(0);
                continue;
            }
            // First of all: whoever forks now lets go for this thread of what its buffer has.
            let follower = heap.header(block).follower();
            buffer.set_block(follower);
            heap.header(block).let_go();
            // Who frees a cell now finds that nobody holds the block, or is found here.
            fence(SeqCst);
            if freed_while_held(heap, block) > 0 {
                heap.inner().note_free_cell(heap, block);
            }
            if let Some(block) = follower {
                write_to_protected(heap, block);
                continue;
            }
        }
        local.note_used(id);
        let mut inner = heap.inner();
        let shard = local.shard();
        let began = (!inner.is_swept()).then(clock::now_ns);
        let growth = if sweeps < MOST_SWEEPS { Growth::WhereSwept } else { Growth::Now };
        let found = inner.search(heap, id, shard, growth);
        let mut further = 0;
        if let Search::Found(block) = found {
            let block_bytes = heap.header(block).span() as usize * FRAME_BYTES;
            further = buffer.take_further(block_bytes);
            inner.search_further(heap, id, shard, block, further);
        }
        let waits = found == Search::Again && inner.is_held_back();
        drop(inner);
        if waits {
            // For the collector's thread, which may want this processor.
            thread::yield_now();
        }
        if let Some(began) = began {
            assists::add(clock::now_ns() - began);
        }
        match found {
            Search::Found(block) => {
                write_to_lent(heap, block);
                write_to_protected(heap, block);
                // A space of which little is used keeps its untouched pages untouched.
                if further > 0 {
                    populate(heap, block);
                }
                buffer.set_block(Some(block));
            }
            Search::Again => sweeps += usize::from(!waits),
            Search::None(refused) => return Err(refused),
        }
    }
}

/// A block of which more than this part is free when its thread has come to its end is gone through
/// once more. Larger: what was freed last is handed out first, while it is in the caches; smaller:
/// runs are longer.
const MUCH_FREE: u32 = 4;

/// How many cells of a block, which this thread holds or held and has come to the end of, are
/// free: they were freed meanwhile, and nobody else knows.
fn freed_while_held(heap: &Heap, block: Frame) -> u32 {
    let cells = heap.header(block).cells();
    cells - heap.bits(block).allocated(cells)
}

/// Gives the fresh ones among `first` and the blocks after it their memory: they are about to be
/// filled, and a fault for each page, beside other threads that have theirs, costs several times as
/// much `[alloc.why.populate]`.
fn populate(heap: &Heap, first: Frame) {
    for_each_row(
        heap,
        first,
        |header| header.fresh.load(Relaxed) != 0,
        |row| map::populate(Address(row.start), row.len()),
    );
}

/// Counts as a write to each page of the lent ones among `first` and the blocks after it, which are
/// about to be filled: one call instead of a fault for each `[alloc.why.lent]`.
fn write_to_lent(heap: &Heap, first: Frame) {
    for_each_row(heap, first, Header::is_lent, |row| map::populate(Address(row.start), row.len()));
}

/// The same for a block that is not lent, when its thread comes to it, if it will write to most of
/// its pages `[alloc.why.lent]`. A fresh one is not protected, and may never be filled.
fn write_to_protected(heap: &Heap, block: Frame) {
    let header = heap.header(block);
    let is_fresh = header.fresh.load(Relaxed) != 0;
    if !heap.state.protects.load(Relaxed)
        || is_fresh
        || header.scan() == Scan::Leaf
        || header.is_lent()
    {
        return;
    }
    let bytes = header.span() as usize * FRAME_BYTES;
    let free = header.cells() - heap.bits(block).allocated(header.cells());
    if free as usize >= bytes / PAGE_BYTES && heap.may_be_protected(block) {
        map::populate(heap.address(block), bytes);
    }
}

/// Calls `f` with the memory of the `wanted` ones among `first` and the blocks that its thread uses
/// after it, neighbours together.
fn for_each_row(
    heap: &Heap,
    first: Frame,
    wanted: impl Fn(&Header) -> bool,
    mut f: impl FnMut(Range<usize>),
) {
    let mut row = 0..0;
    let mut next = Some(first);
    while let Some(block) = next {
        let header = heap.header(block);
        let (start, bytes) = (heap.address(block).0, header.span() as usize * FRAME_BYTES);
        if wanted(header) {
            if start != row.end {
                if !row.is_empty() {
                    f(row.clone());
                }
                row.start = start;
            }
            row.end = start + bytes;
        }
        next = header.follower();
    }
    if !row.is_empty() {
        f(row);
    }
}

/// Installs the next run of free cells of a block that this thread holds.
fn next_run(heap: &Heap, local: &Local, buffer: &Buffer, block: Frame) -> Option<usize> {
    let header = heap.header(block);
    let bits = heap.bits(block);
    let mut cells = bits.next_free_run(header.cursor(), header.cells())?;
    // Some may have been freed a moment ago, by a thread that wrote to them before.
    fence(Acquire);
    let cell_bytes = header.cell_bytes();
    let mean = sampler::mean();
    if mean != 0 {
        let wish = cells.len() as u32;
        let owes = buffer.owes_sample.load(Relaxed);
        let (given, owes) = local.sampler.clip(mean, wish, cell_bytes, owes);
        buffer.owes_sample.store(owes, Relaxed);
        cells.end = cells.start + given;
    }
    header.set_cursor(cells.end);
    let start = heap.address(block).add(cells.start as usize * cell_bytes);
    let [start, bytes] = valgrind::defined([start.0, cells.len() * cell_bytes]);
    // Begun before the zeros, as it may be a locked instruction `[alloc.why.no-wait]`.
    local.change_bits(|| {
        if header.scan() != Scan::Leaf && header.fresh.load(Relaxed) == 0 {
            // SAFETY: the cells are free and this thread holds their block.
            unsafe { Address(start).pointer::<u8>().write_bytes(0, bytes) };
        }
        if heap.state.is_born_marked(header.is_uncollectable()) {
            heap.note_marked(block, header);
            bits.set_range(cells.clone(), true, false, true);
        }
        bits.allocate(cells);
    });
    local.install(buffer, start..start + bytes, cell_bytes);
    local.report(heap, bytes);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::buffer::TAKEN_AT_ONCE;
    use super::super::buffer::tests::local;
    use super::super::free::free;
    use super::*;
    use crate::addr::CHUNK_FRAMES;
    use crate::heap::classes;
    use crate::heap::frames::watched::Chosen;
    use crate::heap::kind::Kind;

    fn heap() -> Heap {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        heap
    }

    #[test]
    fn cells_are_distinct_zeroed_and_allocated() {
        let (heap, local) = (heap(), local());
        let class = classes::class_of(48);
        let id = SpaceId::of(Kind::Conservative, class);
        let buffer = local.buffer(id).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let mut cell = buffer.bump(48);
            if cell == 0 {
                refill(&heap, local, buffer, id).unwrap();
                cell = buffer.bump(48);
            }
            assert!(seen.insert(cell));
            assert_eq!(heap.object_at(cell + 47).unwrap().start.0, cell);
            // SAFETY: the cell is ours.
            unsafe {
                assert_eq!(*(cell as *const [u64; 6]), [0; 6]);
                *(cell as *mut [u64; 6]) = [!0; 6];
            }
        }
        heap.verify().unwrap();
    }

    #[test]
    fn dead_cells_come_back_zeroed_and_held_ones_do_not() {
        let (heap, local) = (heap(), local());
        let id = SpaceId::of(Kind::Conservative, classes::class_of(4096));
        let buffer = local.buffer(id).unwrap();
        refill(&heap, local, buffer, id).unwrap();
        let (live, dead) = (buffer.bump(4096), buffer.bump(4096));
        // SAFETY: the cells are ours.
        unsafe { (dead as *mut u8).write_bytes(0xff, 4096) };
        let rest = buffer.rest();
        heap.clear_marks();
        local.keep_cells(&heap);
        assert_eq!(buffer.rest(), rest.start..rest.start + 4096, "one cell stays");
        assert!(heap.object_at(rest.start).is_some() && heap.object_at(rest.end - 1).is_none());
        let cell = heap.object_at(live).unwrap();
        cell.bits.mark::<false>(cell.index);
        heap.note_marked(cell.block, cell.header);
        heap.inner().begin_sweep(&heap, false);
        assert_eq!(buffer.bump(4096), rest.start);
        assert_eq!(buffer.bump(4096), 0);
        refill(&heap, local, buffer, id).unwrap();
        assert_eq!(buffer.bump(4096), dead);
        // SAFETY: the cell is ours again.
        assert_eq!(unsafe { *(dead as *const [u64; 512]) }, [0; 512]);
        assert!(heap.object_at(live).is_some());
    }

    #[test]
    fn a_retired_threads_cells_are_used_by_others() {
        let (heap, first, second) = (heap(), local(), local());
        let id = SpaceId::of(Kind::Leaf, classes::class_of(64));
        refill(&heap, first, first.buffer(id).unwrap(), id).unwrap();
        let cell = first.buffer(id).unwrap().bump(64);
        first.let_go(&heap);
        refill(&heap, second, second.buffer(id).unwrap(), id).unwrap();
        assert_eq!(second.buffer(id).unwrap().bump(64), cell + 64);
        heap.verify().unwrap();
    }

    #[test]
    fn what_is_freed_while_its_block_is_held_is_handed_out_again() {
        let (heap, local) = (heap(), local());
        let id = SpaceId::of(Kind::Leaf, classes::class_of(48));
        let buffer = local.buffer(id).unwrap();
        let mut kept = Vec::new();
        for turn in 0..100_000 {
            let mut cell = buffer.bump(48);
            if cell == 0 {
                refill(&heap, local, buffer, id).unwrap();
                cell = buffer.bump(48);
            }
            if turn % 100 == 0 {
                kept.push(cell);
            } else {
                free(&heap, Address(cell)).unwrap();
            }
        }
        let taken = heap.inner().frames.taken() * FRAME_BYTES;
        assert!(taken <= kept.len() * 48 * 2 + (TAKEN_AT_ONCE << 1), "{taken}");
        kept.sort();
        kept.dedup();
        assert_eq!(kept.len(), 1000, "none was handed out twice");
        heap.verify().unwrap();
    }

    /// Full blocks that wait to be swept, the last of them empty then.
    fn unswept(heap: &Heap, id: SpaceId, blocks: usize) {
        let mut inner = heap.inner();
        for number in 0..blocks {
            let block = inner.fresh_block(heap, id, 0, true).unwrap();
            let header = heap.header(block);
            heap.note_marked(block, header);
            let is_live = number != blocks - 1;
            heap.bits(block).set_range(0..header.cells(), is_live, true, true);
            header.let_go();
        }
        inner.begin_sweep(heap, false);
    }

    #[test]
    fn one_allocation_sweeps_a_part_of_the_heap_and_all_where_it_cannot_grow() {
        const BLOCKS: usize = MOST_SWEEPS * 32 + 4 * CHUNK_FRAMES;
        let id = SpaceId::of(Kind::Leaf, classes::class_of(4096));
        for limit in [usize::MAX, BLOCKS * FRAME_BYTES] {
            let (heap, local) = (heap(), local());
            unswept(&heap, id, BLOCKS);
            heap.set_max_bytes(limit);
            refill(&heap, local, local.buffer(id).unwrap(), id).unwrap();
            let taken = heap.inner().frames.taken();
            assert_eq!(taken > BLOCKS, limit == usize::MAX);
            while !heap.inner().sweep_step(&heap) {}
            heap.verify().unwrap();
        }
    }

    #[test]
    fn a_protected_block_is_lent_to_who_fills_it() {
        let (heap, local) = (heap(), local());
        let id = SpaceId::of(Kind::Conservative, classes::class_of(48));
        let buffer = local.buffer(id).unwrap();
        refill(&heap, local, buffer, id).unwrap();
        let block = buffer.block().unwrap();
        let protect = || {
            let frames = &mut heap.inner().frames;
            frames.note_registered(0, 1);
            let all = |known: Range<usize>, unprotected, lent| {
                let chunk = known.start;
                let lent = heap.lent_in_chunk(chunk, lent);
                Chosen { wanted: unprotected, barred: heap.frames_of_blocks(chunk, lent, &mut 0) }
            };
            frames.protect(0, all, |_| {});
            frames.is_protected(block)
        };
        assert!(protect());
        for (lends, kept, lent) in [(false, 0, false), (true, 1, false), (true, 0, true)] {
            heap.state.lends_blocks.store(lends, Relaxed);
            local.let_go(&heap);
            assert!(protect(), "nobody holds it");
            let cells = heap.header(block).cells();
            heap.bits(block).set_range(0..cells, false, true, false);
            heap.bits(block).set_range(0..kept * (cells - 1), false, true, true);
            refill(&heap, local, buffer, id).unwrap();
            assert_eq!(buffer.block(), Some(block));
            assert_eq!(heap.header(block).is_lent(), lent);
            assert_eq!(protect(), !lent, "it counts as written as long as it is lent");
        }
    }

    fn resident(heap: &Heap, block: Frame) -> usize {
        map::resident_bytes(heap.address(block), FRAME_BYTES, &mut [0; 16]).unwrap()
    }

    #[test]
    fn pages_that_will_be_written_are_written_to_at_once_while_pages_are_protected() {
        let touched = |protects: bool, is_protected: bool, fresh: bool, free: u32| {
            let (heap, local) = (heap(), local());
            let id = SpaceId::of(Kind::Conservative, classes::class_of(48));
            let block = heap.inner().fresh_block(&heap, id, 0, true).unwrap();
            let header = heap.header(block);
            if is_protected {
                let frames = &mut heap.inner().frames;
                frames.note_registered(0, 1);
                frames.protect(0, |_, unprotected, _| Chosen::all_of(unprotected), |_| {});
            }
            heap.bits(block).set_range(0..header.cells() - free, false, true, true);
            header.fresh.store(fresh as u8, Relaxed);
            header.let_go();
            heap.inner().note_free_cell(&heap, block);
            heap.state.protects.store(protects, Relaxed);
            let buffer = local.buffer(id).unwrap();
            refill(&heap, local, buffer, id).unwrap();
            assert_eq!(buffer.block(), Some(block));
            resident(&heap, block)
        };
        let page = PAGE_BYTES;
        assert_eq!(touched(true, true, false, 10), FRAME_BYTES);
        assert_eq!([touched(false, true, false, 10), touched(true, true, false, 1)], [page, page]);
        assert_eq!(touched(true, false, false, 10), page, "this block is not");
        assert_eq!(touched(true, true, true, 10), 0, "nobody has written to it");
    }

    #[test]
    fn blocks_taken_together_have_their_memory() {
        let (heap, local) = (heap(), local());
        let id = SpaceId::of(Kind::Leaf, classes::class_of(48));
        let buffer = local.buffer(id).unwrap();
        let resident = |block| resident(&heap, block);
        let next_chain = || {
            while buffer.block().is_none_or(|block| heap.header(block).follower().is_none()) {
                refill(&heap, local, buffer, id).unwrap();
                buffer.bump(buffer.rest().len());
            }
            buffer.block().unwrap()
        };
        refill(&heap, local, buffer, id).unwrap();
        assert_eq!(resident(buffer.block().unwrap()), 0);
        let mut block = Some(next_chain());
        while let Some(here) = block {
            assert_eq!(resident(here), FRAME_BYTES);
            block = heap.header(here).follower();
        }
    }
}
