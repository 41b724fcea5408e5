//! The `mprotect` watch: pages are read-only, and the first write to one ends in a handler that
//! notes it and makes the page writable.
//!
//! Invariant: a page whose bit is set is protected: registered, read-only, and not written since.
//! Bits and protection change together, under a lock that is held with every signal blocked, so no
//! handler waits for a thread that was stopped in it. `[watch.inv.protect-before-scan]` holds since
//! a page is protected before it is reported. Rows of pages with different protection are mappings
//! of their own, of which the kernel allows so many (`vm.max_map_count`): past a share of them a
//! fault gives a whole chunk up as written. The kernel asks no handler: where it is to write, the
//! front ends lend it the pages first ([`lend`]), and lent pages are not protected. Nor are stacks
//! onto which the kernel puts frames of signals, from the moment the front ends tell of them
//! ([`keep`]). The watch is called by one thread at a time; the handler and what the front ends
//! call, on any.
//!
//! # Safety
//!
//! Changes the protection of pages in registered ranges, and reads in a signal's handler what the
//! kernel hands it. Bits are atomics in a table that has one for each page while it is open.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use rustix::io::Errno;

pub use self::lending::{after_fork, has_to_lend, keep, keep_stack, lend, prepare, take_back};

use super::Watch;
use super::lent::Lent;
use crate::addr::{Address, CHUNK_BYTES, PAGE_BYTES};
use crate::heap::HEAP;
use crate::sys::process::mappings;
use crate::sys::protection::fault::{self, Fault};
use crate::sys::refusal::Refusal;
use crate::sys::{map, print, signal, thread};

mod lending;

/// What the handler needs to know; one watch at a time is open.
struct Shared {
    /// First byte that can be watched; 0 while no watch is open.
    start: AtomicUsize,
    /// Bytes that can be.
    length: AtomicUsize,
    /// Address of the protected bits, one for each page.
    protected: AtomicUsize,
    /// One past the last byte that was ever registered.
    registered_end: AtomicUsize,
    /// Single pages that were given up since they were protected; each may make two mappings more.
    holes: AtomicUsize,
    /// Holes at most.
    most_holes: AtomicUsize,
    /// Control block of the thread that is at it; 0 for none.
    busy: AtomicUsize,
    /// Pages that a system call may write to now, or the kernel at any moment.
    lent: Lent,
    /// First byte that one of those counts is for, while no watch is open too; 0 for none.
    lent_start: AtomicUsize,
    /// Bytes that they are for.
    lent_length: AtomicUsize,
    /// Address of a word that is not 0 in the process that has the watch, and 0 in a child of
    /// `fork`, where perhaps nobody will give the lock back; 0 before the first is opened.
    is_own: AtomicUsize,
}

static SHARED: Shared = Shared {
    start: AtomicUsize::new(0),
    length: AtomicUsize::new(0),
    protected: AtomicUsize::new(0),
    registered_end: AtomicUsize::new(0),
    holes: AtomicUsize::new(0),
    most_holes: AtomicUsize::new(0),
    busy: AtomicUsize::new(0),
    lent: Lent::new(),
    lent_start: AtomicUsize::new(0),
    lent_length: AtomicUsize::new(0),
    is_own: AtomicUsize::new(0),
};

/// Mappings that a process may have where the system does not say.
const USUAL_MAPPINGS: usize = 65_530;

/// Bytes of the table of bits for a span of so many.
const fn bits_bytes(span: usize) -> usize {
    (span / PAGE_BYTES).div_ceil(8).next_multiple_of(PAGE_BYTES)
}

impl Shared {
    /// Runs `f` alone. Every signal is blocked but that of a fault: the thread may stand on a
    /// watched stack, which it writes to in here.
    fn alone<R>(&self, f: impl FnOnce() -> R) -> R {
        let _undisturbed = signal::undisturbed();
        let own = thread::control_block();
        let mut tries = 0_u32;
        while let Err(owner) = self.busy.compare_exchange(0, own, Acquire, Relaxed) {
            if owner == own {
                // In the handler, of a thread that went further down a watched stack in here: it
                // was changing other pages, or had not kept this one yet.
                return f();
            }
            core::hint::spin_loop();
            tries += 1;
            // In the child of a fork that came while a thread had the lock; the child has one
            // thread when it finds out.
            if tries.is_multiple_of(1000) && self.is_inherited() {
                break;
            }
        }
        // The own stack is not protected in here, where the bit of a page follows its protection.
        let below = thread::stack_pointer().wrapping_sub(1);
        if self.lendable(&(below..below + 1)).is_some_and(|page| !self.lent.is_kept(page.start)) {
            self.keep_stack(below + 1);
        }
        let result = f();
        self.busy.store(0, Release);
        result
    }

    fn own_word(&self) -> Option<&AtomicUsize> {
        // SAFETY: 0, or a page that stays mapped; zeroed memory is a word.
        unsafe { (self.is_own.load(Acquire) as *const AtomicUsize).as_ref() }
    }

    /// Whether this is the child of a `fork` and the watch its parent's. Asks no system call, which
    /// may be refused: the kernel clears the word.
    fn is_inherited(&self) -> bool {
        self.own_word().is_some_and(|word| word.load(Relaxed) == 0)
    }

    /// The watch is this process's.
    fn make_own(&self) -> Result<(), Errno> {
        if self.own_word().is_none() {
            let page = map::allocate(PAGE_BYTES)?;
            // Refused, the fork's handler does it.
            map::clear_in_children(page, PAGE_BYTES);
            self.is_own.store(page.0, Release);
        }
        self.own_word().inspect(|word| word.store(1, Relaxed));
        Ok(())
    }

    fn word(&self, page: usize) -> &AtomicU64 {
        // SAFETY: the bits of every page of the span are mapped while a watch is open.
        unsafe { &*(self.protected.load(Relaxed) as *const AtomicU64).add(page / 64) }
    }

    fn is_protected(&self, page: usize) -> bool {
        self.word(page).load(Relaxed) >> (page % 64) & 1 != 0
    }

    /// The page that an address of the span lies in.
    fn page(&self, address: usize) -> usize {
        (address - self.start.load(Relaxed)) / PAGE_BYTES
    }

    /// The first page from `page` to `end` that is protected (or is not).
    fn next(&self, mut page: usize, end: usize, protected: bool) -> Option<usize> {
        let flip = if protected { 0 } else { u64::MAX };
        while page < end {
            let word = (self.word(page).load(Relaxed) ^ flip) >> (page % 64);
            if word != 0 {
                let found = page + word.trailing_zeros() as usize;
                return (found < end).then_some(found);
            }
            page = (page | 63) + 1;
        }
        None
    }

    fn set(&self, pages: Range<usize>, protected: bool) {
        for page in pages {
            let (word, bit) = (self.word(page), 1 << (page % 64));
            // Atomic for the handler that comes between; see `alone`.
            _ = if protected { word.fetch_or(bit, Relaxed) } else { word.fetch_and(!bit, Relaxed) };
        }
    }

    fn addresses(&self, pages: &Range<usize>) -> Range<usize> {
        let start = self.start.load(Relaxed);
        start + pages.start * PAGE_BYTES..start + pages.end * PAGE_BYTES
    }

    /// Gives pages up as written; false if the kernel refuses, and then some of them may be.
    fn give_up(&self, pages: Range<usize>) -> bool {
        self.change(pages, false)
    }

    /// The same for all that are registered.
    fn give_up_all(&self) -> bool {
        let last = self.page(self.registered_end.load(Acquire));
        last == 0 || self.give_up(0..last)
    }

    /// Ends the watch. False if the kernel refuses to make pages writable: then the handler goes on
    /// trying.
    fn close(&self) -> bool {
        if !is_open() {
            return true;
        }
        let closed = self.alone(|| {
            let closed = self.give_up_all();
            closed.then(|| (self.start.swap(0, Relaxed), self.length.swap(0, Relaxed)))
        });
        let Some((_, length)) = closed else { return false };
        map::release(Address(self.protected.swap(0, Relaxed)), bits_bytes(length));
        true
    }

    /// Changes protection and bits of pages; false if the kernel refuses. It goes from mapping to
    /// mapping then, and stops at the first that it cannot divide: halving finds that one, so that
    /// bits and protection agree.
    fn change(&self, pages: Range<usize>, protected: bool) -> bool {
        let row = self.addresses(&pages);
        if map::set_writable(Address(row.start), row.len(), !protected).is_ok() {
            self.set(pages, protected);
            return true;
        }
        let middle = pages.start + pages.len() / 2;
        pages.len() > 1
            && self.change(pages.start..middle, protected)
            && self.change(middle..pages.end, protected)
    }

    /// Makes the protected ones of some pages writable. With the lock.
    fn let_write_all(&self, pages: Range<usize>) {
        let mut page = pages.start;
        while let Some(first) = self.next(page, pages.end, true) {
            page = self.next(first, pages.end, false).unwrap_or(pages.end);
            if !self.let_write(first..page) {
                refused();
            }
        }
    }

    /// The thread stands on an object: a stack of the program's own. From now on its pages are
    /// writable, as long as it is there. Whether any was not. With the lock.
    fn keep_stack(&self, stack_pointer: usize) -> bool {
        object_below(stack_pointer).is_some_and(|object| self.keep(&object))
    }

    /// The pages of a range are writable from now on, as long as objects are there. Whether any was
    /// not. With the lock.
    fn keep(&self, range: &Range<usize>) -> bool {
        let Some(pages) = self.lendable(range) else { return false };
        self.lent.keep(pages.clone());
        let changes = is_open() && self.next(pages.start, pages.end, true).is_some();
        if changes {
            self.let_write_all(pages);
        }
        changes
    }

    /// The pages of a range that can be lent; None if there are none.
    fn lendable(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let start = self.lent_start.load(Acquire);
        let end = start + self.lent_length.load(Relaxed);
        let (from, to) = (range.start.max(start), range.end.min(end));
        (start != 0 && from < to)
            .then(|| (from - start) / PAGE_BYTES..(to - start).div_ceil(PAGE_BYTES))
    }

    /// Makes room for the counts of a span's pages, if there is none. What is lent stays lent when
    /// a watch is opened anew over the same span.
    fn make_lendable(&self, span: &Range<usize>) -> Result<(), Errno> {
        let known = (self.lent_start.load(Relaxed), self.lent_length.load(Relaxed));
        if known == (span.start, span.len()) {
            return Ok(());
        }
        self.lent_start.store(0, Relaxed);
        self.lent.close();
        self.lent.open(span.len() / PAGE_BYTES)?;
        self.lent_length.store(span.len(), Relaxed);
        self.lent_start.store(span.start, Release);
        Ok(())
    }

    /// Makes protected pages writable, and more of them where the kernel has no room for the
    /// mappings. With the lock.
    fn let_write(&self, pages: Range<usize>) -> bool {
        if self.is_inherited() {
            // Bits and protection may have been in the middle of a change: a child of `fork` gives
            // everything up, once.
            self.own_word().inspect(|word| word.store(1, Relaxed));
            return self.give_up_all();
        }
        let holes = self.holes.load(Relaxed) + pages.len();
        if holes <= self.most_holes.load(Relaxed) && self.give_up(pages.clone()) {
            self.holes.store(holes, Relaxed);
            return true;
        }
        let last = self.page(self.registered_end.load(Acquire));
        let per_chunk = CHUNK_BYTES / PAGE_BYTES;
        let first = pages.start / per_chunk * per_chunk;
        let chunks = first..pages.end.next_multiple_of(per_chunk).min(last);
        // With everything given up there are fewer mappings than before.
        self.give_up(chunks) || self.give_up_all()
    }
}

/// The handler's part: whether the thread whose write faulted can go on now.
fn on_write(fault: &Fault) -> bool {
    let start = SHARED.start.load(Acquire);
    let end = SHARED.registered_end.load(Acquire);
    let is_ours =
        |address: usize| address.wrapping_sub(start) < SHARED.length.load(Acquire) && address < end;
    let on_stack = is_ours(fault.stack_pointer.wrapping_sub(1));
    let Some(address) = fault.address else {
        // A stop is asked for again where the request was lost.
        return on_stack && SHARED.alone(|| SHARED.keep_stack(fault.stack_pointer));
    };
    is_ours(address)
        && SHARED.alone(|| {
            if on_stack {
                SHARED.keep_stack(fault.stack_pointer);
            }
            let page = (address - start) / PAGE_BYTES;
            if !SHARED.is_inherited() && !SHARED.is_protected(page) {
                // Another thread's fault on the same page may have been faster. Else it is not we
                // who keep it from being written: it is a guard page, or the program's doing.
                return fault::can_write(address);
            }
            SHARED.let_write(page..page + 1) || refused()
        })
}

/// The write can neither go on nor be given back to the program, which did nothing wrong.
#[cold]
fn refused() -> ! {
    print::fatal(format_args!(
        "the system refuses to make memory writable again that NEAP_WATCH=mprotect protects; \
         choose another way with NEAP_WATCH"
    ))
}

/// Refuses where the process's data is limited. What is read-only does not count as such: the
/// program may use up what is left, and then these pages cannot be made writable again.
pub fn try_limits() -> Result<(), Refusal> {
    match thread::limit(libc::RLIMIT_DATA) {
        Some(_) => Err(Refusal::wrong("mprotect under RLIMIT_DATA")),
        None => Ok(()),
    }
}

/// The object that a stack lies in, of which `stack_pointer` is a position. Nothing may be on it
/// yet: then it begins there.
fn object_below(stack_pointer: usize) -> Option<Range<usize>> {
    let object = HEAP.object_at(stack_pointer.wrapping_sub(1))?;
    Some(object.start.0..object.start.0 + object.bytes())
}

/// Whether a watch is open.
fn is_open() -> bool {
    SHARED.start.load(Relaxed) != 0
}

/// The watch.
pub struct Mprotect(());

impl Mprotect {
    /// Opens the watch over memory that will be registered piece by piece.
    pub fn open(span: Range<usize>) -> Result<Self, Refusal> {
        try_limits()?;
        if is_open() && !SHARED.close() {
            return Err(Refusal::new("mprotect", Errno::NOMEM));
        }
        let bits_bytes = bits_bytes(span.len());
        let refusal = |error| Refusal::new("mmap", error);
        let bits = map::allocate(bits_bytes).map_err(refusal)?;
        let own = SHARED.own_word().map_or_else(|| SHARED.make_own(), |_| Ok(()));
        own.and_then(|()| SHARED.make_lendable(&span))
            .map_err(refusal)
            .and_then(|()| fault::install(on_write))
            .inspect_err(|_| map::release(bits, bits_bytes))?;
        let allowed = map::most_mappings().unwrap_or(USUAL_MAPPINGS);
        // Half of the mappings are the program's; each hole may take two. In a child of `fork`
        // those of its parent's pages stay: the kernel joins none that were copied.
        let left = allowed.saturating_sub(mappings::count());
        SHARED.most_holes.store(left / 4, Relaxed);
        SHARED.holes.store(0, Relaxed);
        SHARED.protected.store(bits.0, Relaxed);
        SHARED.registered_end.store(span.start, Relaxed);
        SHARED.length.store(span.len(), Relaxed);
        if SHARED.is_inherited() {
            // A thread that does not exist here may have had it.
            SHARED.busy.store(0, Relaxed);
            SHARED.own_word().inspect(|word| word.store(1, Relaxed));
        }
        SHARED.start.store(span.start, Release);
        Ok(Self(()))
    }
}

impl Drop for Mprotect {
    fn drop(&mut self) {
        SHARED.close();
    }
}

impl Watch for Mprotect {
    fn begin(&mut self) -> Result<(), Refusal> {
        fault::install(on_write)?;
        // It may have been set since; as long as there is room everything can be given up.
        try_limits().inspect_err(|_| _ = SHARED.alone(|| SHARED.give_up_all()))
    }

    fn register(&mut self, range: &Range<usize>) -> Result<(), Refusal> {
        let span = SHARED.start.load(Relaxed);
        if range.start < span || range.end > span + SHARED.length.load(Relaxed) {
            return Err(Refusal::new("mprotect", Errno::INVAL));
        }
        SHARED.registered_end.fetch_max(range.end, Release);
        Ok(())
    }

    fn take_written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        let mut page = SHARED.page(range.start);
        let end = SHARED.page(range.end);
        while let Some(first) = SHARED.next(page, end, false) {
            let row = SHARED.alone(|| {
                let last = SHARED.next(first, end, true).unwrap_or(end);
                let (lent, last) = SHARED.lent.row(first..last);
                if !lent && SHARED.change(first..last, true) {
                    let holes = SHARED.holes.load(Relaxed);
                    SHARED.holes.store(holes.saturating_sub(last - first), Relaxed);
                } else if !lent {
                    // All stay writable, and are reported again the next time.
                    SHARED.give_up(first..last);
                }
                SHARED.addresses(&(first..last))
            });
            page = SHARED.page(row.end);
            written(row);
        }
        Ok(())
    }

    fn written(
        &self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        let mut page = SHARED.page(range.start);
        let end = SHARED.page(range.end);
        while let Some(first) = SHARED.next(page, end, false) {
            page = SHARED.next(first, end, true).unwrap_or(end);
            written(SHARED.addresses(&(first..page)));
        }
        Ok(())
    }

    fn unprotect(&mut self, range: &Range<usize>) {
        let mut page = SHARED.page(range.start);
        let end = SHARED.page(range.end);
        // A thread may be in a system call on a stack that is an object of the heap, and so may who
        // comes back to it: nothing would fault before the kernel writes there. Part of a page too.
        let is_in_use = |page: usize| {
            let start = SHARED.addresses(&(page..page)).start;
            [0, PAGE_BYTES / 2, PAGE_BYTES - 1]
                .into_iter()
                .any(|offset| HEAP.object_at(start + offset).is_some())
        };
        SHARED.alone(|| SHARED.lent.forget(page..end, is_in_use));
        while let Some(first) = SHARED.next(page, end, true) {
            page = SHARED.alone(|| {
                let last = SHARED.next(first, end, false).unwrap_or(end);
                // Refused, they stay protected: writing to them costs a fault each, and no more.
                SHARED.give_up(first..last);
                last
            });
        }
    }
}

#[cfg(test)]
impl Mprotect {
    /// A watch of so many new pages: where they begin and end, and the watch.
    pub(crate) fn of_new_pages(pages: usize) -> (Address, Range<usize>, Self) {
        let start = map::allocate(pages * PAGE_BYTES).unwrap();
        let range = start.0..start.0 + pages * PAGE_BYTES;
        let mut watch = Self::open(range.clone()).unwrap();
        watch.register(&range).unwrap();
        (start, range, watch)
    }
}

#[cfg(test)]
mod tests;
