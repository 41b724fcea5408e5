//! Where registrations live: pages of 125 entries, handed out by the thread that owns the page, one
//! after the other.
//!
//! Invariant: a page has at most one owner, and only the owner takes entries of it, so taking one
//! needs no lock and no contended word. `[refs.inv.grace]`: an entry that was let go stays readable
//! as it was until the world has been stopped once more: whoever walks a list does so in a critical
//! section, which a stop waits for, so [`reclaim`] after a stop finds nobody who could still be at
//! it. Entries are taken by mutators in critical sections, let go by anybody, reclaimed by the
//! cycle.
//!
//! # Safety
//!
//! Makes references to slabs and entries from addresses. Slabs are mapped for ever, valid when
//! zeroed, and all their fields are atomics. Prefetching reads nothing.

#![allow(unsafe_code)]

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use super::page_stack::{PageStack, set_next};
use crate::addr::PAGE_BYTES;
use crate::refs::NoMemory;
use crate::sys::map;

/// Entries of a slab.
pub(crate) const ENTRIES: usize = 125;
/// Entries between the one that is taken and the one that is fetched, which is mostly the next to
/// be taken after those between. Larger: hides longer latencies; smaller: what was fetched is still
/// there.
const AHEAD: usize = 8;
const LINE_BYTES: usize = 64;
/// Taken from the system at once: so much at first, then twice as much each time. Larger: fewer
/// system calls; smaller: programs with few registrations have and reclaim fewer pages.
const REGION_BYTES: core::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;

/// How large a region is that follows one of `newest` bytes.
fn region_bytes(newest: Option<usize>) -> usize {
    newest.map_or(*REGION_BYTES.start(), |bytes| (bytes * 2).min(*REGION_BYTES.end()))
}

/// What the first page of a region holds.
#[repr(C)]
struct Region {
    /// The one that was taken before it, 0 if none.
    next: AtomicUsize,
    /// Its size, this page included.
    bytes: AtomicUsize,
}

impl Region {
    /// That at an address, None for 0.
    fn at(address: usize) -> Option<&'static Self> {
        // SAFETY: 0, or a region, which is mapped for ever and valid when zeroed.
        unsafe { (address as *const Self).as_ref() }
    }

    /// The pages of its slabs.
    fn slabs(&self) -> core::ops::Range<usize> {
        let start = core::ptr::from_ref(self) as usize;
        start + PAGE_BYTES..start + self.bytes.load(Relaxed)
    }
}

/// One registration: 32 bytes.
#[repr(C)]
pub(crate) struct Entry {
    /// The object's address and, in the low three bits, what kind of registration this is; kind 0
    /// is none.
    pub(crate) object: AtomicUsize,
    /// The next entry of its list; changed by the cycle alone once the entry is in one.
    pub(crate) next: AtomicUsize,
    /// A function or a queue in the low 48 bits; the rest is the registration's kind's own.
    pub(crate) function: AtomicUsize,
    /// What the function is told.
    pub(crate) data: AtomicUsize,
}

/// A page of entries. Zeroed memory is one without free entries.
#[repr(C)]
struct Slab {
    /// Link of [`AVAILABLE`].
    next: AtomicUsize,
    /// [`NOWHERE`], [`LISTED`] or [`OWNED`]. At a thread's end the word of the slab that it owned
    /// becomes 0, see `Mutator::claim`.
    state: AtomicU32,
    /// Free entries that the owner is handing out, of group `group`. The owner's.
    at_hand: AtomicU64,
    group: AtomicUsize,
    /// Free entries. Bits are set by the cycle and taken by the owner.
    free: [AtomicU64; 2],
    /// Entries let go: since the last stop, and before it, in the place that [`SINCE`] says.
    let_go: [[AtomicU64; 2]; 2],
    entries: [Entry; ENTRIES],
}

/// Nobody owns the slab, and it is on no list: it was full.
const NOWHERE: u32 = 0;
/// It is on [`AVAILABLE`].
const LISTED: u32 = 1;
/// A thread takes entries of it.
const OWNED: u32 = 2;

const _: () = assert!(size_of::<Slab>() <= PAGE_BYTES);

/// Slabs with free entries that nobody owns.
static AVAILABLE: PageStack = PageStack::new();
/// Which place of `let_go` is for what is let go now: 0 or 1. Changed in stops.
static SINCE: AtomicUsize = AtomicUsize::new(0);
/// The regions, newest first; never given back.
static REGIONS: AtomicUsize = AtomicUsize::new(0);

/// Where a thread keeps the slab that it owns: the address of the slab's claim word, or 0.
pub(crate) type Own = AtomicUsize;

impl Slab {
    fn at(page: usize) -> &'static Self {
        // SAFETY: slabs are mapped for ever and valid when zeroed; all their fields are atomics.
        unsafe { &*(page as *const Self) }
    }

    fn page(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    fn of(entry: &Entry) -> &'static Self {
        Self::at(core::ptr::from_ref(entry) as usize & !(PAGE_BYTES - 1))
    }

    fn index(&self, entry: &Entry) -> usize {
        (core::ptr::from_ref(entry) as usize - self.entries.as_ptr() as usize) / size_of::<Entry>()
    }

    /// A free entry; only for the owner.
    #[inline]
    fn take(&self) -> Option<&'static Entry> {
        let mut at_hand = self.at_hand.load(Relaxed);
        if at_hand == 0 {
            let group = (0..2).find(|group| self.free[*group].load(Relaxed) != 0)?;
            at_hand = self.free[group].swap(0, Acquire);
            self.group.store(group, Relaxed);
        }
        self.at_hand.store(at_hand & (at_hand - 1), Relaxed);
        let index = self.group.load(Relaxed) * 64 + at_hand.trailing_zeros() as usize;
        let entries = &Self::at(self.page()).entries;
        prefetch_to_write(entries.as_ptr().wrapping_add(index + AHEAD));
        Some(&entries[index])
    }

    fn has_free(&self) -> bool {
        self.at_hand.load(Relaxed) != 0 || self.free.iter().any(|bits| bits.load(Relaxed) != 0)
    }

    /// Lists it if it has free entries and is nowhere.
    fn offer(&self) {
        if self.state.load(Acquire) == NOWHERE
            && self.has_free()
            && self.state.compare_exchange(NOWHERE, LISTED, AcqRel, Relaxed).is_ok()
        {
            AVAILABLE.push(self.page());
        }
    }
}

/// An entry for the calling thread, whose own slab is noted in `own`. In a critical section.
#[inline]
pub(crate) fn take(own: &Own) -> Result<&'static Entry, NoMemory> {
    let claim = own.load(Relaxed);
    if claim != 0
        && let Some(entry) = Slab::at(claim & !(PAGE_BYTES - 1)).take()
    {
        return Ok(entry);
    }
    take_from_another(own)
}

#[cold]
fn take_from_another(own: &Own) -> Result<&'static Entry, NoMemory> {
    let claim = own.swap(0, Relaxed);
    if claim != 0 {
        let slab = Slab::at(claim & !(PAGE_BYTES - 1));
        slab.state.store(NOWHERE, Release);
        slab.offer();
    }
    loop {
        while let Some(page) = AVAILABLE.pop() {
            let slab = Slab::at(page);
            slab.state.store(OWNED, Relaxed);
            if let Some(entry) = slab.take() {
                own.store(core::ptr::from_ref(&slab.state) as usize, Relaxed);
                return Ok(entry);
            }
            slab.state.store(NOWHERE, Release);
        }
        add_region()?;
    }
}

fn add_region() -> Result<(), NoMemory> {
    let newest = Region::at(REGIONS.load(Acquire));
    let bytes = region_bytes(newest.map(|newest| newest.bytes.load(Relaxed)));
    let address = map::allocate(bytes).map_err(|_| NoMemory)?;
    map::name(address, bytes, c"neap: registrations");
    let region = Region::at(address.0).ok_or(NoMemory)?;
    region.bytes.store(bytes, Relaxed);
    let slabs = region.slabs();
    let mut pages = slabs.clone().step_by(PAGE_BYTES).peekable();
    while let Some(page) = pages.next() {
        let slab = Slab::at(page);
        slab.state.store(LISTED, Relaxed);
        slab.free[0].store(!0, Relaxed);
        slab.free[1].store(!0 >> (128 - ENTRIES), Relaxed);
        if let Some(next) = pages.peek() {
            set_next(page, *next);
        }
    }
    let mut first = REGIONS.load(Relaxed);
    loop {
        region.next.store(first, Relaxed);
        match REGIONS.compare_exchange_weak(first, address.0, Release, Relaxed) {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    AVAILABLE.push_chain(slabs.start, slabs.end - PAGE_BYTES);
    Ok(())
}

/// Has the first entries of the list that begins at `first` fetched: those of a list were mostly
/// taken one after the other, the first one last.
#[inline]
pub(crate) fn prefetch_list(first: usize) {
    for line in 0..4 {
        // SAFETY: prefetching any address is harmless.
        unsafe { _mm_prefetch(first.wrapping_sub(line * LINE_BYTES) as *const i8, _MM_HINT_T0) };
    }
}

/// Has an entry fetched to be written: the cycle has read it, on another processor.
#[inline(always)]
fn prefetch_to_write(entry: *const Entry) {
    // SAFETY: prefetching any address is harmless, and where the instruction is not known it does
    // nothing.
    unsafe { core::arch::asm!("prefetchw [{}]", in(reg) entry, options(nostack, preserves_flags)) };
}

/// The entry is in no list any more; it can be taken again after the next [`stopped`] and
/// [`reclaim`]. By the cycle, or in a critical section.
pub(crate) fn let_go(entry: &Entry) {
    let slab = Slab::of(entry);
    let index = slab.index(entry);
    slab.let_go[SINCE.load(Relaxed)][index / 64].fetch_or(1 << (index % 64), Release);
}

/// Lets entries go one after the other, with one write for those of a slab that come together. What
/// it holds is let go when it is dropped.
pub(crate) struct LettingGo {
    /// Address of the slab; 0 for none.
    page: usize,
    bits: [u64; 2],
}

impl LettingGo {
    pub(crate) fn new() -> Self {
        Self { page: 0, bits: [0; 2] }
    }

    /// As [`let_go`].
    #[inline]
    pub(crate) fn add(&mut self, entry: &Entry) {
        let slab = Slab::of(entry);
        if slab.page() != self.page {
            self.flush();
            self.page = slab.page();
        }
        let index = slab.index(entry);
        self.bits[index / 64] |= 1 << (index % 64);
    }

    fn flush(&mut self) {
        for (group, bits) in self.bits.iter_mut().enumerate() {
            let bits = core::mem::take(bits);
            if bits != 0 {
                let since = SINCE.load(Relaxed);
                Slab::at(self.page).let_go[since][group].fetch_or(bits, Release);
            }
        }
    }
}

impl Drop for LettingGo {
    fn drop(&mut self) {
        self.flush();
    }
}

/// What was let go so far is free from the next [`reclaim`] on: nobody looks at it. World stopped.
pub(crate) fn stopped() {
    SINCE.fetch_xor(1, Relaxed);
}

/// Makes free again what was let go before the last [`stopped`], and finds the slabs of threads
/// that have ended. By the cycle, world running or not.
pub(crate) fn reclaim() {
    let before = SINCE.load(Relaxed) ^ 1;
    let mut next = REGIONS.load(Acquire);
    while let Some(region) = Region::at(next) {
        for page in region.slabs().step_by(PAGE_BYTES) {
            let slab = Slab::at(page);
            for group in 0..2 {
                if slab.let_go[before][group].load(Relaxed) != 0 {
                    let freed = slab.let_go[before][group].swap(0, Acquire);
                    slab.free[group].fetch_or(freed, Release);
                }
            }
            slab.offer();
        }
        next = region.next.load(Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn address(entry: &Entry) -> usize {
        core::ptr::from_ref(entry) as usize
    }

    #[test]
    fn entries_are_distinct_and_come_back_after_reclaiming() {
        let own = Own::new(0);
        let mut seen = HashSet::new();
        let taken: Vec<_> = (0..1000).map(|_| take(&own).unwrap()).collect();
        assert!(taken.iter().all(|entry| seen.insert(address(entry))));
        let kept = taken[500];
        for entry in taken.iter().filter(|entry| address(entry) != address(kept)) {
            let_go(entry);
        }
        // Not yet: somebody may still be looking at them.
        reclaim();
        let is_new = |_| !seen.contains(&address(take(&own).unwrap()));
        assert!((0..1000).all(is_new), "[refs.inv.grace] what was taken out stays until a stop");
        stopped();
        reclaim();
        let again = (0..200_000).filter(|_| seen.contains(&address(take(&own).unwrap()))).count();
        // Another test may have taken some.
        assert!(again >= 500, "{again}");
    }

    #[test]
    fn regions_begin_small_and_double() {
        let next = |newest| region_bytes(newest) >> 10;
        assert_eq!([next(None), next(Some(64 << 10)), next(Some(1 << 20))], [64, 128, 1024]);
        let own = Own::new(0);
        take(&own).unwrap();
        let newest = Region::at(REGIONS.load(Acquire)).unwrap();
        assert!(newest.slabs().contains(&own.load(Relaxed)) || newest.next.load(Relaxed) != 0);
        assert!(REGION_BYTES.contains(&(newest.slabs().len() + PAGE_BYTES)));
    }

    #[test]
    fn an_ended_threads_slab_is_found() {
        let own = Own::new(0);
        let entry = take(&own).unwrap();
        let page = Slab::of(entry).page();
        let claim = own.load(Relaxed);
        // SAFETY: what the world does at a thread's end.
        unsafe { (*(claim as *const AtomicU32)).store(0, Release) };
        reclaim();
        assert_ne!(Slab::at(page).state.load(Relaxed), NOWHERE);
    }
}
