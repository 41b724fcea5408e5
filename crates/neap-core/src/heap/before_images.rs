//! Before-images of pages: copies that were taken before the program wrote to a page, for markers
//! that are to see the heap as it was at one moment.
//!
//! Invariant `[heap.inv.before-images]`: a page is copied at most once, while nobody can write to
//! it, and its copy is published before anybody can. So who reads words of a page and finds no copy
//! *afterwards* has read the old contents. There are at most as many copies as
//! [`BeforeImages::open`] says; the page after those is refused, and everything that was kept is
//! worth nothing then. Opened and closed by the collector's thread while nobody marks; kept by the
//! thread that handles page faults, one page at a time; read by markers.
//!
//! # Safety
//!
//! Copies a page while its writers wait, so nobody changes it, into memory that nobody else knows
//! yet. The table has an entry for every page of the range while it is open.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*, fence};
use rustix::io::Errno;

use crate::addr::{Address, PAGE_BYTES};
use crate::sys::map;

/// Copies whose memory is fetched from the system at once. Larger: fewer calls; smaller: whoever
/// writes next waits less.
const AHEAD: usize = 16;

/// The part of all copies whose memory is fetched when there is none yet. Larger: fewer writers
/// wait for memory; smaller: less of it for programs that write little.
const FETCHED_FIRST: usize = 16;

/// The copies, and which page each is of.
pub struct BeforeImages {
    /// First byte whose page can be kept. Written while nobody marks.
    start: AtomicUsize,
    /// Pages that can be; 0 while closed. As above.
    pages: AtomicUsize,
    /// Address of a 32-bit number for each page: of its copy, plus one; 0 for none. As above.
    table: AtomicUsize,
    /// Address of the first copy. As above.
    copies: AtomicUsize,
    /// Copies at most. As above.
    most: AtomicUsize,
    /// Bytes of the mapping that holds table and copies. As above.
    mapped_bytes: AtomicUsize,
    /// Copies there are; written by who keeps.
    used: AtomicUsize,
    /// Copies whose memory was fetched; written by who keeps.
    fetched: AtomicUsize,
    /// A page was refused; written by who keeps.
    overflowed: AtomicBool,
}

/// Part of a page that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeforeImage {
    /// Where it is in the heap.
    pub original: usize,
    /// Where its old contents are.
    pub copy: usize,
    /// Bytes of it.
    pub bytes: usize,
}

impl BeforeImages {
    /// Closed.
    pub const fn new() -> Self {
        Self {
            start: AtomicUsize::new(0),
            pages: AtomicUsize::new(0),
            table: AtomicUsize::new(0),
            copies: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            mapped_bytes: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            fetched: AtomicUsize::new(0),
            overflowed: AtomicBool::new(false),
        }
    }

    /// Makes room for `most` copies of pages of `range`; what was open before is closed. Memory is
    /// taken as it is used.
    pub fn open(&self, range: &Range<usize>, most: usize) -> Result<(), Errno> {
        self.close();
        let pages = range.len() / PAGE_BYTES;
        let table_bytes = (pages * size_of::<u32>()).next_multiple_of(PAGE_BYTES);
        let bytes = table_bytes + most.max(1) * PAGE_BYTES;
        let table = map::allocate(bytes)?;
        map::name(table, bytes, c"neap-kept-pages");
        self.start.store(range.start, Relaxed);
        self.table.store(table.0, Relaxed);
        self.copies.store(table.0 + table_bytes, Relaxed);
        self.most.store(most, Relaxed);
        self.mapped_bytes.store(bytes, Relaxed);
        self.used.store(0, Relaxed);
        let first = most / FETCHED_FIRST;
        map::fetch(table.add(table_bytes), first * PAGE_BYTES);
        self.fetched.store(first, Relaxed);
        self.overflowed.store(false, Relaxed);
        self.pages.store(pages, Release);
        Ok(())
    }

    /// Gives all memory back. Forgotten first: a child of `fork` closes it too, whatever this
    /// thread of its parent was doing.
    pub fn close(&self) {
        self.pages.store(0, Release);
        let bytes = self.mapped_bytes.swap(0, Relaxed);
        map::release(Address(self.table.swap(0, Relaxed)), bytes);
    }

    /// Whether markers have to ask.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.pages.load(Relaxed) != 0
    }

    /// Whether all of a range can be kept.
    pub fn covers(&self, range: &Range<usize>) -> bool {
        let start = self.start.load(Relaxed);
        range.start >= start && range.end <= start + self.pages.load(Relaxed) * PAGE_BYTES
    }

    /// Whether a page was refused.
    #[inline(always)]
    pub fn has_overflowed(&self) -> bool {
        self.overflowed.load(Relaxed)
    }

    /// Copies there are.
    pub fn count(&self) -> usize {
        self.used.load(Relaxed)
    }

    fn entry(&self, page: usize) -> &AtomicU32 {
        // SAFETY: the caller's page is below the count of pages, and the table has an entry for
        // each, zero at first, while open.
        unsafe { &*(self.table.load(Relaxed) as *const AtomicU32).add(page) }
    }

    /// Keeps the contents of the page at `address`, to which nobody can write meanwhile. False if
    /// there is no room, or if it is none of the pages; then everything kept is void.
    pub fn keep(&self, address: usize) -> bool {
        let page = address.wrapping_sub(self.start.load(Relaxed)) / PAGE_BYTES;
        if page < self.pages.load(Acquire) && self.entry(page).load(Relaxed) != 0 {
            return true;
        }
        let index = self.used.load(Relaxed);
        if page >= self.pages.load(Relaxed) || index >= self.most.load(Relaxed) {
            self.overflowed.store(true, Relaxed);
            return false;
        }
        let copy = self.copies.load(Relaxed) + index * PAGE_BYTES;
        // SAFETY: the page is mapped and readable, the copy's memory ours and nobody's yet.
        unsafe {
            let page = (address & !(PAGE_BYTES - 1)) as *const u8;
            core::ptr::copy_nonoverlapping(page, copy as *mut u8, PAGE_BYTES);
        }
        self.used.store(index + 1, Relaxed);
        self.entry(page).store(index as u32 + 1, Release);
        true
    }

    /// Fetches memory for the next copies, so that who waits for one does not wait for that too. By
    /// who keeps, while nobody waits.
    pub fn fetch_ahead(&self) {
        let (used, fetched) = (self.used.load(Relaxed), self.fetched.load(Relaxed));
        let end = (used + 2 * AHEAD).min(self.most.load(Relaxed));
        if !self.is_open() || fetched + AHEAD > end {
            return;
        }
        let from = fetched.max(used);
        map::fetch(
            Address(self.copies.load(Relaxed) + from * PAGE_BYTES),
            (end - from) * PAGE_BYTES,
        );
        self.fetched.store(end, Relaxed);
    }

    /// Calls `f` for each part of `[low, high)` that was kept. After those words were read: what is
    /// not among them was old.
    #[inline(always)]
    pub fn for_each_before_image(&self, low: usize, high: usize, mut f: impl FnMut(BeforeImage)) {
        // The words were read before the table is.
        fence(Acquire);
        let start = self.start.load(Relaxed);
        let mut from = low;
        while from < high {
            let page = from.wrapping_sub(start) / PAGE_BYTES;
            if page >= self.pages.load(Relaxed) {
                return;
            }
            let end = high.min(start + (page + 1) * PAGE_BYTES);
            let number = self.entry(page).load(Acquire) as usize;
            if number != 0 {
                let copy = self.copies.load(Relaxed) + (number - 1) * PAGE_BYTES;
                let within = (from - start) % PAGE_BYTES;
                f(BeforeImage { original: from, copy: copy + within, bytes: end - from });
            }
            from = end;
        }
    }
}

impl Default for BeforeImages {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old(kept: &BeforeImages, range: Range<usize>) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        kept.for_each_before_image(range.start, range.end, |image| {
            // SAFETY: the test's own words.
            let word = unsafe { *(image.copy as *const usize) };
            found.push((image.bytes, word));
        });
        found
    }

    #[test]
    fn contents_are_those_of_the_first_time() {
        let heap = map::allocate(8 * PAGE_BYTES).unwrap();
        let at = |page: usize, word: usize| heap.add(page * PAGE_BYTES + word * 8);
        // SAFETY: the test's own words.
        let store = |page, word, value| unsafe { at(page, word).pointer::<usize>().write(value) };
        let kept = BeforeImages::new();
        assert!(!kept.is_open() && old(&kept, heap.0..heap.0 + 64).is_empty());
        kept.open(&(heap.0..heap.0 + 8 * PAGE_BYTES), 2).unwrap();
        store(2, 5, 25);
        store(3, 0, 30);
        assert!(kept.keep(at(2, 7).0));
        store(2, 5, 26);
        assert!(kept.keep(at(2, 0).0), "once is enough");
        kept.fetch_ahead();
        assert!(kept.keep(at(3, 0).0));
        store(3, 0, 31);
        assert_eq!(kept.count(), 2);
        assert_eq!(
            old(&kept, at(2, 5).0..at(3, 3).0),
            [(PAGE_BYTES - 40, 25), (24, 30)],
            "pieces of an object across two pages"
        );
        assert_eq!(old(&kept, at(4, 0).0..at(5, 0).0), []);
        assert!(!kept.has_overflowed() && !kept.keep(at(4, 0).0) && kept.has_overflowed());
        kept.open(&(heap.0..heap.0 + 8 * PAGE_BYTES), 2).unwrap();
        assert!(!kept.has_overflowed() && old(&kept, at(2, 0).0..at(4, 0).0).is_empty());
        assert!(!kept.keep(heap.0 + 8 * PAGE_BYTES), "beyond its end");
        kept.close();
        assert!(!kept.is_open());
        map::release(heap, 8 * PAGE_BYTES);
    }
}
