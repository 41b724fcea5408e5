//! One thread's requests, counted by exact size, kind and layout.
//!
//! Invariant: counts only grow. Counted by its thread without atomic read-modify-write; encoded by
//! the recorder under its lock at any time, each request exactly once: what was written before is
//! kept beside each count. A tally outlives its thread and is given to a later one as it is, so it
//! is never cleared.
//!
//! # Safety
//!
//! Makes tallies and their counts of zeroed memory, which is one of each, and reaches them by
//! number within a mapping that has room for every layout. Neither is ever unmapped.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use neap_record::{Full, KINDS, TYPED, Writer};

use crate::addr::Address;
use crate::heap::classes::LARGEST_SMALL;
use crate::heap::kind::Kind;
use crate::heap::layout::LayoutId;
use crate::rank::Rank;
use crate::sync::Lock;
use crate::sys::map;
use crate::sys::meta_vec::MetaVec;

/// Sizes are looked at in rows of so many. Larger: fewer chunks; smaller: less to look at.
const ROW: usize = 512;
const ROWS: usize = LARGEST_SMALL / ROW + 1;
const LAYOUTS: usize = 1 << 16;
/// Different sizes of large objects that are told apart. Beyond, a size counts as one that is its
/// next power of two.
const MOST_LARGE: usize = 1 << 15;

/// Requests of one small size and kind, and what such a request gets: all that counting it and
/// taking its cell reads or writes of the tally.
#[repr(C)]
pub struct Small {
    made: AtomicU64,
    /// Bytes of its cells, which are multiples of 8, and whether such a request gets a byte more
    /// than it asks for, in the lowest bit; 0 until [`Tally::learn`] was told.
    cell: AtomicU32,
    /// Whose cells those are: the number of the space, or, of typed objects, of the class.
    place: AtomicU32,
}

impl Small {
    /// Counts a request.
    #[inline(always)]
    pub fn add(&self) {
        self.made.store(self.made.load(Relaxed) + 1, Relaxed);
    }

    /// Bytes of the cells for such requests.
    #[inline(always)]
    pub fn cell_bytes(&self) -> usize {
        self.cell.load(Relaxed) as usize & !1
    }

    /// What [`Tally::learn`] was told.
    #[inline(always)]
    pub fn place(&self) -> u32 {
        self.place.load(Relaxed)
    }
}

/// What was counted, and how much of it was written.
#[repr(C)]
#[derive(Default)]
struct Count {
    made: AtomicU64,
    written: AtomicU64,
}

impl Count {
    fn add(&self, more: u64) {
        self.made.store(self.made.load(Relaxed) + more, Relaxed);
    }

    /// What is not written yet.
    fn fresh(&self) -> u64 {
        self.made.load(Relaxed) - self.written.load(Relaxed)
    }
}

/// Requests for objects of one layout.
#[repr(C)]
pub struct LayoutCount {
    objects: Count,
    bytes: Count,
}

impl LayoutCount {
    /// Counts a request.
    #[inline(always)]
    pub fn add(&self, bytes: usize) {
        self.objects.add(1);
        self.bytes.add(bytes as u64);
    }
}

/// Requests of one large size.
#[derive(Clone, Copy)]
struct Large {
    size: u64,
    kind: u8,
    made: u64,
    written: u64,
}

/// The counts of one thread. Zeroed memory is a valid one.
#[repr(C)]
pub struct Tally {
    small: [[Small; ROWS * ROW]; KINDS],
    /// How many of these were written; by the recorder.
    written: [[AtomicU64; ROWS * ROW]; KINDS],
    /// 1 where a row was ever counted in; written by its thread.
    touched: [[AtomicU8; ROWS]; KINDS],
    /// Address of counts by layout, 0 until the first; written by its thread.
    layouts: AtomicUsize,
    /// Layouts counted lie below this number; written by its thread.
    layouts_end: AtomicUsize,
    /// The kernel's id of its thread, 0 when that has ended; written by that thread.
    pub thread: AtomicU32,
    /// Links and number, protected by the recorder's lock.
    pub entry: UnsafeCell<Entry>,
    /// Taken by its thread for each large request, and by the recorder.
    large: UnsafeCell<core::mem::MaybeUninit<Lock<MetaVec<Large>>>>,
}

/// What the recorder keeps of a tally.
#[derive(Clone, Copy, Default)]
pub struct Entry {
    /// The next tally; 0 for none.
    pub next: usize,
    /// The number that its thread has in the recording.
    pub number: u64,
    /// Whether that was written.
    pub told: bool,
    /// Whether its thread has ended, and only its counts are to be written yet.
    pub has_ended: bool,
}

impl Tally {
    /// A new one; None when the system gives no memory.
    pub fn map() -> Option<&'static Tally> {
        let bytes = size_of::<Tally>().next_multiple_of(crate::addr::PAGE_BYTES);
        let place = map::allocate(bytes).ok()?;
        map::small_pages(place, bytes);
        map::name(place, bytes, c"neap: counts");
        // SAFETY: zeroed memory of the right size, nobody else's; it is never unmapped.
        let tally = unsafe { &*place.pointer::<Tally>() };
        // SAFETY: nobody else knows it yet.
        unsafe { (*tally.large.get()).write(Lock::new(Rank::Tally, MetaVec::new())) };
        Some(tally)
    }

    /// The address that stands for it.
    pub fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// The tally of an address; None for 0.
    ///
    /// # Safety
    /// The address is 0 or came from [`Self::address`].
    #[inline(always)]
    pub unsafe fn at(address: usize) -> Option<&'static Tally> {
        // SAFETY: the caller's promise; tallies live for ever.
        unsafe { (address as *const Tally).as_ref() }
    }

    /// Counts a request.
    pub fn count(&self, kind: Kind, bytes: usize) {
        self.count_as(kind as usize, bytes);
    }

    /// Counts a request for an object of a layout.
    pub fn count_typed(&self, layout: LayoutId, bytes: usize) {
        self.count_as(TYPED, bytes);
        if let Some(count) = self.layout(layout.0 as usize) {
            count.add(bytes);
        }
    }

    /// What requests of a size get, which is at most [`LARGEST_SMALL`], where each gets `past_end`
    /// bytes more, 0 or 1; None until [`Self::learn`] was told, and so until the first of them was
    /// counted.
    #[inline(always)]
    pub fn known(&self, kind: usize, bytes: usize, past_end: usize) -> Option<&Small> {
        let small = &self.small[kind][bytes];
        let other = small.cell.load(Relaxed) ^ past_end as u32;
        (other > 1 && other & 1 == 0).then_some(small)
    }

    /// What counts the objects of a layout; None until the first was counted.
    #[inline(always)]
    pub fn known_layout(&self, layout: LayoutId) -> Option<&LayoutCount> {
        self.layouts().get(layout.0 as usize)
    }

    /// Requests of a size, one of which was counted, get cells of `cell_bytes` from `place`, a
    /// space, or a class for typed objects, as long as each gets `past_end` bytes more.
    pub fn learn(&self, kind: usize, bytes: usize, past_end: usize, cell_bytes: usize, place: u32) {
        let small = &self.small[kind][bytes];
        small.place.store(place, Relaxed);
        small.cell.store((cell_bytes | past_end) as u32, Relaxed);
    }

    fn count_as(&self, kind: usize, bytes: usize) {
        if bytes <= LARGEST_SMALL {
            self.small[kind][bytes].add();
            self.touched[kind][bytes / ROW].store(1, Relaxed);
        } else {
            self.count_large(kind, bytes);
        }
    }

    #[cold]
    fn count_large(&self, kind: usize, bytes: usize) {
        let mut large = self.large().lock();
        let mut size = bytes as u64;
        let position = |large: &[Large], size| {
            large.binary_search_by_key(&(size, kind as u8), |entry| (entry.size, entry.kind))
        };
        let mut found = position(&large, size);
        if found.is_err() && large.len() >= MOST_LARGE {
            size = size.next_power_of_two();
            found = position(&large, size);
        }
        match found {
            Ok(at) => large[at].made += 1,
            Err(at) => {
                let entry = Large { size, kind: kind as u8, made: 1, written: 0 };
                if large.try_push(entry).is_ok() {
                    large[at..].rotate_right(1);
                }
            }
        }
    }

    fn large(&self) -> &Lock<MetaVec<Large>> {
        // SAFETY: `map` wrote it before anybody knew the tally.
        unsafe { (*self.large.get()).assume_init_ref() }
    }

    fn layout(&self, layout: usize) -> Option<&LayoutCount> {
        let mut counts = self.layouts.load(Relaxed);
        if counts == 0 {
            counts = map::allocate(LAYOUTS * size_of::<LayoutCount>()).ok()?.0;
            self.layouts.store(counts, Release);
        }
        if layout >= self.layouts_end.load(Relaxed) {
            self.layouts_end.store(layout + 1, Release);
        }
        // SAFETY: the mapping has a count for every layout; zeroed memory is one.
        Some(unsafe { &*(counts as *const LayoutCount).add(layout) })
    }

    fn layouts(&self) -> &[LayoutCount] {
        let end = self.layouts_end.load(Acquire);
        match self.layouts.load(Acquire) {
            0 => &[],
            // SAFETY: so many counts are in the mapping.
            counts => unsafe { core::slice::from_raw_parts(counts as *const LayoutCount, end) },
        }
    }

    /// Writes what was counted since the last time. [`Full`]: what was written so far stays
    /// written, and the rest is for the next buffer. Under the recorder's lock.
    pub fn encode(&self, out: &mut Writer<'_>, at_ns: u64, number: u64) -> Result<(), Full> {
        for kind in 0..KINDS {
            for row in 0..ROWS {
                if self.touched[kind][row].load(Relaxed) != 0 {
                    self.encode_row(out, at_ns, number, kind, row)?;
                }
            }
            self.encode_large(out, at_ns, number, kind)?;
        }
        self.encode_layouts(out, at_ns, number)
    }

    fn encode_row(
        &self,
        out: &mut Writer<'_>,
        at_ns: u64,
        number: u64,
        kind: usize,
        row: usize,
    ) -> Result<(), Full> {
        let range = row * ROW..(row + 1) * ROW;
        let (counts, written) = (&self.small[kind][range.clone()], &self.written[kind][range]);
        // What its thread counts from here on is for the next time.
        let mut fresh = [0; ROW];
        for ((fresh, count), written) in fresh.iter_mut().zip(counts).zip(written) {
            *fresh = count.made.load(Relaxed) - written.load(Relaxed);
        }
        let sizes = (row * ROW) as u64..;
        let entries = sizes.zip(fresh).filter(|(_, fresh)| *fresh > 0);
        if entries.clone().next().is_some() {
            out.counts(at_ns, number, kind, entries)?;
            for (fresh, written) in fresh.iter().zip(written) {
                written.store(written.load(Relaxed) + fresh, Relaxed);
            }
        }
        Ok(())
    }

    fn encode_large(
        &self,
        out: &mut Writer<'_>,
        at_ns: u64,
        number: u64,
        kind: usize,
    ) -> Result<(), Full> {
        let mut large = self.large().lock();
        for entries in large.chunks_mut(ROW) {
            let is_fresh =
                |entry: &Large| entry.kind as usize == kind && entry.made > entry.written;
            if entries.iter().any(is_fresh) {
                let fresh = entries.iter().filter(|entry| is_fresh(entry));
                let counts = fresh.map(|entry| (entry.size, entry.made - entry.written));
                out.counts(at_ns, number, kind, counts)?;
                entries
                    .iter_mut()
                    .filter(|entry| is_fresh(entry))
                    .for_each(|entry| entry.written = entry.made);
            }
        }
        Ok(())
    }

    fn encode_layouts(&self, out: &mut Writer<'_>, at_ns: u64, number: u64) -> Result<(), Full> {
        for (row, counts) in self.layouts().chunks(ROW).enumerate() {
            let mut fresh = [(0, 0); ROW];
            for (fresh, count) in fresh.iter_mut().zip(counts) {
                *fresh = (count.objects.fresh(), count.bytes.fresh());
            }
            let layouts = (row * ROW) as u64..;
            let entries = layouts
                .zip(fresh)
                .filter(|(_, (objects, bytes))| objects + bytes > 0)
                .map(|(layout, (objects, bytes))| (layout, objects, bytes));
            if entries.clone().next().is_some() {
                out.layouts(at_ns, number, entries)?;
                for (fresh, count) in fresh.iter().zip(counts) {
                    for (count, fresh) in [(&count.objects, fresh.0), (&count.bytes, fresh.1)] {
                        count.written.store(count.written.load(Relaxed) + fresh, Relaxed);
                    }
                }
            }
        }
        Ok(())
    }

    /// What was counted so far is not written: in the child of a `fork` it is the parent's, and
    /// what threads that ended counted may find no file.
    pub fn forget_counts(&self) {
        let settle = |count: &Count| count.written.store(count.made.load(Relaxed), Relaxed);
        for kind in 0..KINDS {
            for row in 0..ROWS {
                if self.touched[kind][row].load(Relaxed) != 0 {
                    let range = row * ROW..(row + 1) * ROW;
                    let counts = &self.small[kind][range.clone()];
                    for (written, count) in self.written[kind][range].iter().zip(counts) {
                        written.store(count.made.load(Relaxed), Relaxed);
                    }
                }
            }
        }
        self.large().lock().iter_mut().for_each(|entry| entry.written = entry.made);
        for count in self.layouts() {
            settle(&count.objects);
            settle(&count.bytes);
        }
    }

    /// Gives its memory back. Nobody uses it.
    pub fn unmap(&self) {
        let layouts = self.layouts.load(Relaxed);
        if layouts != 0 {
            map::release(Address(layouts), LAYOUTS * size_of::<LayoutCount>());
        }
        let bytes = size_of::<Tally>().next_multiple_of(crate::addr::PAGE_BYTES);
        map::release(Address(self.address()), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_record::{MAGIC, Recording};

    fn written(tally: &Tally) -> Recording {
        let mut buffer = vec![0; 1 << 20];
        let mut out = Writer::new(&mut buffer, 0);
        out.raw(&MAGIC);
        tally.encode(&mut out, 1, 7).unwrap();
        let length = out.length();
        Recording::read(&buffer[..length]).unwrap()
    }

    #[test]
    fn each_request_is_written_once() {
        let tally = Tally::map().unwrap();
        for (kind, bytes, times) in [
            (Kind::Conservative, 0, 1),
            (Kind::Conservative, 24, 3),
            (Kind::Leaf, 511, 1),
            (Kind::Leaf, 512, 2),
            (Kind::Conservative, LARGEST_SMALL, 1),
            (Kind::Leaf, LARGEST_SMALL + 1, 2),
            (Kind::Conservative, 1 << 33, 1),
            (Kind::Leaf, 40_000, 1),
        ] {
            (0..times).for_each(|_| tally.count(kind, bytes));
        }
        tally.count_typed(LayoutId(3), 48);
        let recording = written(tally);
        let counted: Vec<_> = recording.counts.into_iter().collect();
        assert_eq!(
            counted,
            [
                ((7, 0, 0), 1),
                ((7, 0, 24), 3),
                ((7, 0, 32768), 1),
                ((7, 0, 1 << 33), 1),
                ((7, 1, 511), 1),
                ((7, 1, 512), 2),
                ((7, 1, 32769), 2),
                ((7, 1, 40_000), 1),
                ((7, TYPED, 48), 1),
            ]
        );
        assert_eq!(recording.layouts[&3], (1, 48));
        assert!(written(tally).counts.is_empty() && written(tally).layouts.is_empty());
        tally.count(Kind::Conservative, 24);
        tally.count(Kind::Leaf, 40_000);
        assert_eq!(written(tally).counts.values().sum::<u64>(), 2);
        tally.count(Kind::Leaf, 8);
        tally.forget_counts();
        assert!(written(tally).counts.is_empty());
        tally.unmap();
    }

    #[test]
    fn a_full_buffer_loses_nothing() {
        let tally = Tally::map().unwrap();
        (0..5000).for_each(|bytes| tally.count(Kind::Leaf, bytes));
        (0..3000).for_each(|more| tally.count(Kind::Leaf, 40_000 + more));
        let (mut buffer, mut all, mut rounds) = (vec![0; 4096], MAGIC.to_vec(), 0);
        loop {
            let mut out = Writer::new(&mut buffer, 0);
            let done = tally.encode(&mut out, 1, 1).is_ok();
            let length = out.length();
            all.extend_from_slice(&buffer[..length]);
            rounds += 1;
            if done {
                break;
            }
            assert!(length > 0);
        }
        assert!(rounds > 3);
        let recording = Recording::read(&all).unwrap();
        assert_eq!((recording.counts.len(), recording.counts.values().sum()), (8000, 8000_u64));
    }

    #[test]
    fn too_many_large_sizes_are_still_counted() {
        let tally = Tally::map().unwrap();
        for more in 0..MOST_LARGE + 10 {
            tally.count(Kind::Leaf, 40_000 + more * 8);
        }
        let recording = written(tally);
        assert_eq!(recording.counts.values().sum::<u64>() as usize, MOST_LARGE + 10);
        assert!(recording.counts.len() <= MOST_LARGE + 1);
    }
}
