//! What threads share costs on this machine: a hold of the heap's lock by who refills, and
//! protecting pages beside threads that run.
//!
//! Invariant: every figure is of the very code that allocation and cycles use. On a heap and on
//! memory made for the measurement. Called by the simulation of larger machines
//! (`bench/scaling`), which takes its costs from here.
//!
//! # Safety
//!
//! Writes to memory that was made for the measurement, committed and known to nobody else.

#![allow(unsafe_code)]

use crate::sys::clock::Instant;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;

use super::beside::beside;
use crate::addr::{CHUNK_BYTES, FRAME_BYTES, Frame, PAGE_BYTES};
use crate::heap::classes::class_of;
use crate::heap::kind::Kind;
use crate::heap::spaces::{Growth, Search, SpaceId};
use crate::heap::{Heap, Refused};
use crate::sys::map;
use crate::sys::refusal::Refusal;
use crate::watch::Watch;
use crate::watch::pagemap::Pagemap;

/// Blocks that a hold of the lock is measured over.
const BLOCKS: usize = 4096;
/// Bytes of their cells.
const CELL_BYTES: usize = 64;

/// Has `threads` threads take all of [`BLOCKS`] unswept blocks, `together` in a hold of the heap's
/// lock, as refills do; of each of them `live` of four cells are alive. Gives the mean time between
/// two holds: with one thread what a hold takes, with more what it takes where the lock and what it
/// protects come from another processor. None where the system gives no memory.
pub fn hold(threads: usize, together: usize, live: u32) -> Option<Duration> {
    let heap = Heap::new();
    heap.reserve(BLOCKS * 4 * FRAME_BYTES).ok()?;
    let id = SpaceId::of(Kind::Conservative, class_of(CELL_BYTES));
    fill(&heap, id, live, threads).ok()?;
    let (holds, waiting) = (AtomicUsize::new(0), AtomicUsize::new(threads));
    let take = |shard: usize| {
        waiting.fetch_sub(1, Relaxed);
        while waiting.load(Relaxed) > 0 {
            core::hint::spin_loop();
        }
        let began = Instant::now();
        let mut own = 0;
        while own < BLOCKS / threads / together {
            let mut inner = heap.inner();
            let Search::Found(block) = inner.search(&heap, id, shard, Growth::Never) else {
                break;
            };
            inner.search_further(&heap, id, shard, block, together - 1);
            own += 1;
        }
        holds.fetch_add(own, Relaxed);
        began.elapsed()
    };
    let longest_ns = AtomicU64::new(0);
    let note = |shard| _ = longest_ns.fetch_max(take(shard).as_nanos() as u64, Relaxed);
    beside(threads - 1, note, || note(0))?;
    Some(Duration::from_nanos(longest_ns.into_inner()) / holds.load(Relaxed).max(1) as u32)
}

/// Makes the blocks, a share of them for the shard of each thread, and ends a cycle over them.
fn fill(heap: &Heap, id: SpaceId, live: u32, threads: usize) -> Result<(), Refused> {
    let mut inner = heap.inner();
    for number in 0..BLOCKS {
        let block: Frame = inner.fresh_block(heap, id, number % threads, true)?;
        let header = heap.header(block);
        let cells = header.cells();
        heap.bits(block).set_range(0..cells, false, true, true);
        if live > 0 {
            heap.bits(block).set_range(0..cells / 4 * live, true, false, true);
            heap.note_marked(block, header);
        }
        header.let_go();
    }
    inner.begin_sweep(heap, false);
    Ok(())
}

/// What protecting takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Protecting {
    /// A question about one page that was written, which protects it again.
    pub one_page: Duration,
    /// One about [`MANY_PAGES`] pages that all were.
    pub many_pages: Duration,
    /// One about as many of which none was.
    pub many_clean: Duration,
    /// A first write to a protected page.
    pub first_write: Duration,
}

/// The pages of the larger questions.
pub const MANY_PAGES: usize = 512;
const TURNS: u32 = 400;

/// Measures what the watch `pagemap` takes beside `others` threads that run; None where it is
/// refused.
pub fn protecting(others: usize) -> Option<Protecting> {
    let mut watch = Pagemap::open().ok()?;
    let start = map::reserve(CHUNK_BYTES, CHUNK_BYTES).ok()?;
    map::commit(start, CHUNK_BYTES).ok()?;
    map::set_huge_pages(start, CHUNK_BYTES, false);
    let range = start.0..start.0 + MANY_PAGES * PAGE_BYTES;
    write(&range);
    watch.register(&range).ok()?;
    let ends = AtomicBool::new(false);
    let spin = |_| {
        while !ends.load(Relaxed) {
            core::hint::spin_loop();
        }
    };
    let measured = beside(others, spin, || {
        let measured = measure(&mut watch, &range);
        ends.store(true, Relaxed);
        measured
    });
    map::release(start, CHUNK_BYTES);
    measured?.ok()
}

fn measure(watch: &mut Pagemap, range: &Range<usize>) -> Result<Protecting, Refusal> {
    let mut total = Protecting::default();
    let first = range.start..range.start + PAGE_BYTES;
    for _ in 0..TURNS {
        let began = Instant::now();
        write(range);
        total.first_write += began.elapsed();
        let mut ask = |range: &Range<usize>| {
            let began = Instant::now();
            watch.take_written(range, &mut |_| {})?;
            Ok(began.elapsed())
        };
        total.one_page += ask(&first)?;
        total.many_pages += ask(range)?;
        total.many_clean += ask(range)?;
    }
    Ok(Protecting {
        one_page: total.one_page / TURNS,
        many_pages: total.many_pages / TURNS,
        many_clean: total.many_clean / TURNS,
        first_write: total.first_write / TURNS / MANY_PAGES as u32,
    })
}

fn write(range: &Range<usize>) {
    for address in range.clone().step_by(PAGE_BYTES) {
        // SAFETY: the range is ours and committed.
        unsafe { (address as *mut u64).write_volatile(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_hold_that_sweeps_more_blocks_takes_longer() {
        let [one, eight] = [1, 8]
            .map(|together| (0..5).filter_map(|_| hold(1, together, 2)).min().unwrap_or_default());
        assert!(one > Duration::ZERO && eight > one, "{one:?} {eight:?}");
    }
}
