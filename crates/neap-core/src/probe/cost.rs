//! What a watch costs on this machine: measured on memory made for it.
//!
//! Invariant: every figure is of the very code that the collector uses. Single runs: the first
//! figures of a noisy machine. Called by `neap doctor --measure`, one watch at a time.
//!
//! # Safety
//!
//! Reads and writes memory that was made for the measurement, committed and known to nobody else,
//! and makes a child that only waits for a word which both share.

#![allow(unsafe_code)]

use crate::sys::clock::Instant;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;

use super::beside::beside;
use crate::addr::{Address, CHUNK_BYTES, PAGE_BYTES};
use crate::heap::before_images::BeforeImages;
use crate::sys::map;
use crate::sys::process::child;
use crate::sys::refusal::Refusal;
use crate::watch::Watch;
use crate::watch::choose::Watching;
use crate::watch::mprotect::Mprotect;
use crate::watch::pagemap::Pagemap;
use crate::watch::snapshot::Snapshot;
use rustix::io::Errno;

/// One page in so many is written for [`Cost::ask_some`].
const SOME: usize = 64;

/// Times for a size of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Protecting all of it; for `fork`, making the child.
    pub protect: Duration,
    /// Asking, and protecting again, when nothing was written.
    pub ask_clean: Option<Duration>,
    /// The same when one page in 64 was.
    pub ask_some: Option<Duration>,
    /// The same when all was.
    pub ask_all: Option<Duration>,
    /// The first write to a page, a mean over one page in 64, while another thread reads, as one
    /// that marks does.
    pub first_write: Duration,
}

/// Measures a watch over `bytes` bytes (whole chunks) of pages of 4 KiB, or of 2 MiB where `huge`.
/// None for what has nothing to measure.
pub fn measure(watching: Watching, bytes: usize, huge: bool) -> Option<Result<Cost, Refusal>> {
    let start = map::reserve(bytes, CHUNK_BYTES).ok()?;
    let result = prepare(start, bytes, huge).and_then(|range| match watching {
        Watching::None => Ok(None),
        Watching::Pagemap => by_watch(&mut Pagemap::open()?, &range).map(Some),
        Watching::Mprotect => by_watch(&mut Mprotect::open(range.clone())?, &range).map(Some),
        Watching::Fork => by_child(&range).map(Some),
        Watching::Snapshot => by_copies(&range).map(Some),
    });
    map::release(start, bytes);
    result.transpose()
}

/// Memory of which every page is there.
fn prepare(start: Address, bytes: usize, huge: bool) -> Result<Range<usize>, Refusal> {
    map::commit(start, bytes).map_err(|error| Refusal::new("mprotect", error))?;
    map::set_huge_pages(start, bytes, huge);
    let range = start.0..start.0 + bytes;
    write(&range, 1);
    Ok(range)
}

/// Writes to one page in `step`; gives the mean time.
fn write(range: &Range<usize>, step: usize) -> Duration {
    let began = Instant::now();
    let mut pages = 0;
    for address in range.clone().step_by(step * PAGE_BYTES) {
        // SAFETY: the range is ours and committed.
        unsafe { (address as *mut u64).write_volatile(1) };
        pages += 1;
    }
    began.elapsed() / pages.max(1)
}

/// The same while another thread reads all of the range, which keeps a processor from sleeping, as
/// marking does.
fn write_beside_a_reader(range: &Range<usize>, step: usize) -> Result<Duration, Refusal> {
    let at_work = AtomicBool::new(true);
    let read = |_| {
        while at_work.load(Relaxed) {
            for address in range.clone().step_by(PAGE_BYTES) {
                // SAFETY: the range is ours and committed.
                unsafe { (address as *const u64).read_volatile() };
            }
        }
    };
    let took = beside(1, read, || {
        let took = write(range, step);
        at_work.store(false, Relaxed);
        took
    });
    took.ok_or(Refusal::new("pthread_create", Errno::AGAIN))
}

fn by_watch(watch: &mut dyn Watch, range: &Range<usize>) -> Result<Cost, Refusal> {
    let all = range.len() / PAGE_BYTES;
    watch.register(range)?;
    let mut ask = |expected: Range<usize>| {
        let mut pages = 0;
        let began = Instant::now();
        watch.take_written(range, &mut |found| pages += found.len() / PAGE_BYTES)?;
        let took = began.elapsed();
        match expected.contains(&pages) {
            true => Ok(took),
            false => Err(Refusal::wrong("the watch")),
        }
    };
    let protect = ask(all..all + 1)?;
    let ask_clean = Some(ask(0..1)?);
    let first_write = write_beside_a_reader(range, SOME)?;
    let some = all.div_ceil(SOME);
    let ask_some = Some(ask(some..all + 1)?);
    write(range, 1);
    let ask_all = Some(ask(all..all + 1)?);
    Ok(Cost { protect, ask_clean, ask_some, ask_all, first_write })
}

/// What keeping pages costs: protecting them, and a copy of each that is written.
fn by_copies(range: &Range<usize>) -> Result<Cost, Refusal> {
    static KEPT: BeforeImages = BeforeImages::new();
    let kept = &KEPT;
    let pages = range.len() / PAGE_BYTES;
    kept.open(range, pages).map_err(|error| Refusal::new("mmap", error))?;
    let mut watch = Snapshot::open(kept)?;
    watch.start()?;
    watch.register(range)?;
    watch.begin_arming();
    let began = Instant::now();
    watch.protect(range)?;
    let protect = began.elapsed();
    watch.begin_keeping();
    let first_write = write_beside_a_reader(range, SOME);
    let all = kept.count() == pages.div_ceil(SOME);
    drop(watch);
    kept.close();
    match all {
        true => Ok(Cost { protect, first_write: first_write?, ..Cost::default() }),
        false => Err(Refusal::wrong("the watch")),
    }
}

/// What a snapshot costs: the copy of the page tables, and of each page that is written while the
/// child is there.
fn by_child(range: &Range<usize>) -> Result<Cost, Refusal> {
    let told = map::allocate_shared(PAGE_BYTES).map_err(|error| Refusal::new("mmap", error))?;
    let may_end = told.pointer::<u32>();
    let began = Instant::now();
    // SAFETY: the child only waits for a word of memory that both share.
    let made = unsafe { child::make() };
    let protect = began.elapsed();
    let cost = match made {
        Ok(None) => {
            // SAFETY: as above.
            while unsafe { may_end.read_volatile() } == 0 {
                core::hint::spin_loop();
            }
            child::exit(0)
        }
        Ok(Some(child)) => {
            let first_write = write_beside_a_reader(range, SOME);
            // SAFETY: as above.
            unsafe { may_end.write_volatile(1) };
            child.wait();
            Ok(Cost { protect, first_write: first_write?, ..Cost::default() })
        }
        Err(refusal) => Err(refusal),
    };
    map::release(told, PAGE_BYTES);
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_watch_that_works_has_figures() {
        for watching in Watching::ALL {
            for huge in [false, true] {
                match measure(watching, 4 * CHUNK_BYTES, huge) {
                    None => assert_eq!(watching, Watching::None),
                    Some(Ok(cost)) => assert!(cost.protect > Duration::ZERO),
                    Some(Err(refusal)) => assert!(watching.try_out().is_err(), "{refusal}"),
                }
            }
        }
    }
}
