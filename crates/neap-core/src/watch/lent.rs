//! Pages that are lent to the kernel: a system call under way may write to them, or the kernel by
//! itself at any moment, so the `mprotect` watch leaves them writable and reports them as written
//! each time.
//!
//! Invariant: a page counts as lent from [`Lent::lend`] to [`Lent::take_back`], as often as it was
//! lent; one that was lent very often at once, or by a call that never came back (its thread was
//! cancelled, or is not in this child of a `fork`), stays so, which costs a rescan of that page and
//! no more. Used under the watch's lock.
//!
//! # Safety
//!
//! Reaches a page's count in a table that has one for each page of the range while it is open; the
//! caller's page lies in that range.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering::*};
use rustix::io::Errno;

use crate::addr::{Address, PAGE_BYTES};
use crate::sys::map;

/// How often each page is lent.
pub struct Lent {
    /// Address of a count for each page. Written while nobody asks.
    counts: AtomicUsize,
    /// Bytes of the mapping that holds them. As above.
    mapped_bytes: AtomicUsize,
    /// Ranges lent now.
    ranges: AtomicUsize,
}

impl Lent {
    /// Closed.
    pub const fn new() -> Self {
        Self {
            counts: AtomicUsize::new(0),
            mapped_bytes: AtomicUsize::new(0),
            ranges: AtomicUsize::new(0),
        }
    }

    /// Makes room for the counts of so many pages, none of them lent. Memory is taken as it is
    /// used.
    pub fn open(&self, pages: usize) -> Result<(), Errno> {
        let bytes = pages.next_multiple_of(PAGE_BYTES);
        self.counts.store(map::allocate(bytes)?.0, Relaxed);
        self.mapped_bytes.store(bytes, Relaxed);
        self.ranges.store(0, Relaxed);
        Ok(())
    }

    /// Gives the memory back.
    pub fn close(&self) {
        let bytes = self.mapped_bytes.swap(0, Relaxed);
        map::release(Address(self.counts.swap(0, Relaxed)), bytes);
    }

    fn count(&self, page: usize) -> &AtomicU8 {
        // SAFETY: the caller's page is below the number of pages, and each has a count while open.
        unsafe { &*(self.counts.load(Relaxed) as *const AtomicU8).add(page) }
    }

    /// Lends pages.
    pub fn lend(&self, pages: Range<usize>) {
        self.ranges.store(self.ranges.load(Relaxed) + 1, Relaxed);
        for page in pages {
            let count = self.count(page);
            count.store(count.load(Relaxed).saturating_add(1), Relaxed);
        }
    }

    /// Lends pages until [`Lent::forget`] is told of them.
    pub fn keep(&self, pages: Range<usize>) {
        self.ranges.store(self.ranges.load(Relaxed) + 1, Relaxed);
        pages.for_each(|page| self.count(page).store(u8::MAX, Relaxed));
    }

    /// Whether a page is kept.
    pub fn is_kept(&self, page: usize) -> bool {
        self.count(page).load(Relaxed) == u8::MAX
    }

    /// What is kept of these pages and is not in use is kept no more.
    pub fn forget(&self, pages: Range<usize>, is_in_use: impl Fn(usize) -> bool) {
        if self.ranges.load(Relaxed) != 0 {
            let kept = pages.filter(|page| self.count(*page).load(Relaxed) == u8::MAX);
            kept.filter(|page| !is_in_use(*page))
                .for_each(|page| self.count(page).store(0, Relaxed));
        }
    }

    /// Takes back what one call lent.
    pub fn take_back(&self, pages: Range<usize>) {
        self.ranges.store(self.ranges.load(Relaxed).saturating_sub(1), Relaxed);
        for page in pages {
            let count = self.count(page);
            let before = count.load(Relaxed);
            // A full count has lost its measure.
            if before != 0 && before != u8::MAX {
                count.store(before - 1, Relaxed);
            }
        }
    }

    /// Whether the first of some pages is lent, and the page up to which the same holds.
    pub fn row(&self, pages: Range<usize>) -> (bool, usize) {
        if self.ranges.load(Relaxed) == 0 {
            return (false, pages.end);
        }
        let is_lent = |page: usize| self.count(page).load(Relaxed) != 0;
        let first = is_lent(pages.start);
        let end = pages.end;
        (first, pages.into_iter().find(|page| is_lent(*page) != first).unwrap_or(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_lent_as_often_as_they_were() {
        let lent = Lent::new();
        lent.open(100).unwrap();
        assert_eq!(lent.row(0..100), (false, 100));
        lent.lend(10..20);
        lent.lend(15..16);
        assert_eq!([lent.row(0..100), lent.row(10..100)], [(false, 10), (true, 20)]);
        lent.take_back(10..20);
        assert_eq!([lent.row(10..100), lent.row(15..100)], [(false, 15), (true, 16)]);
        lent.take_back(15..16);
        assert_eq!(lent.row(10..100), (false, 100));
        lent.close();
    }

    #[test]
    fn what_is_kept_is_forgotten_when_nobody_uses_it() {
        let lent = Lent::new();
        lent.open(8).unwrap();
        lent.keep(2..6);
        lent.forget(0..8, |page| page < 4);
        assert_eq!([lent.row(2..8), lent.row(4..8)], [(true, 4), (false, 8)]);
        lent.forget(0..8, |_| false);
        assert_eq!(lent.row(0..8), (false, 8));
        lent.close();
    }

    #[test]
    fn what_was_lent_too_often_stays_lent() {
        let lent = Lent::new();
        lent.open(8).unwrap();
        (0..300).for_each(|_| lent.lend(3..4));
        (0..299).for_each(|_| lent.take_back(3..4));
        assert_eq!(lent.row(3..8), (true, 4));
        lent.close();
    }
}
