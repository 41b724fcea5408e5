//! The `pagemap` watch: userfaultfd's asynchronous write protection, read by `PAGEMAP_SCAN`. No
//! signal, no handler thread, no copy.
//!
//! Invariant: as the trait's contract; the kernel does both halves of a report under the page
//! table's lock. Used by one thread at a time, but for the last question.

use core::ops::Range;
use rustix::io::Errno;

use super::Watch;
use crate::sys::meta_vec::MetaVec;
use crate::sys::protection::write_watch::{Region, Then, WriteWatch};
use crate::sys::refusal::Refusal;

/// Written ranges that one system call reports at most.
const REGIONS: usize = 1 << 12;
/// The same where several threads ask, each with room on its stack: with the world stopped, when
/// few are left.
const REGIONS_AT_LAST: usize = 64;

/// An open watch and room for its answers.
pub struct Pagemap {
    watch: WriteWatch,
    regions: MetaVec<Region>,
}

impl Pagemap {
    /// Opens the watch.
    pub fn open() -> Result<Self, Refusal> {
        let watch = WriteWatch::open()?;
        let regions = MetaVec::zeroed(REGIONS).map_err(|_| Refusal::new("mmap", Errno::NOMEM))?;
        Ok(Self { watch, regions })
    }
}

impl Watch for Pagemap {
    fn takes_any_memory(&self) -> bool {
        true
    }

    fn was_closed(&self) -> bool {
        self.watch.was_closed()
    }

    fn register(&mut self, range: &Range<usize>) -> Result<(), Refusal> {
        self.watch.register(range)
    }

    fn unprotect(&mut self, range: &Range<usize>) {
        // If the system refuses, the pages stay protected: a fault more, and what is asked about is
        // more exact than it need be.
        let _ = self.watch.unprotect(range);
    }

    fn take_written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        self.watch.written(range, Then::Protect, &mut self.regions, written)
    }

    fn take_some_written(
        &mut self,
        range: &Range<usize>,
        most_pages: usize,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<usize, Refusal> {
        self.watch.some_written(range, Then::Protect, most_pages, &mut self.regions, written)
    }

    fn written(
        &self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        self.watch.written(range, Then::Leave, &mut [Region::default(); REGIONS_AT_LAST], written)
    }
}
