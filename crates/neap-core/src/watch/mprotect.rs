//! The `mprotect` watch: pages are read-only, and the first write to one ends in a handler that
//! notes it and makes the page writable.
//!
//! Invariant: a page whose bit is set is armed: registered, read-only, and not written since. Bits
//! and protection change together, under a lock that is held with every signal blocked, so no
//! handler waits for a thread that was stopped in it. `[watch.inv.rearm-before-scan]` holds since a
//! page is protected before it is reported. Rows of pages with different protection are mappings of
//! their own, of which the kernel allows so many (`vm.max_map_count`): past a share of them a fault
//! gives a whole chunk up as written. The kernel asks no handler: where it is to write, the front
//! ends lend it the pages first ([`lend`]), and lent pages are not armed. The watch is called by
//! one thread at a time; the handler, [`lend`] and [`take_back`] on any.
//!
//! # Safety
//!
//! Changes the protection of pages in registered ranges, and reads in a signal's handler what the
//! kernel hands it. Bits are atomics in a table that has one for each page while it is open.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use rustix::io::Errno;

use super::Watch;
use super::lent::Lent;
use crate::addr::{Address, CHUNK_BYTES, PAGE_BYTES};
use crate::sys::protection::fault;
use crate::sys::refusal::Refusal;
use crate::sys::{map, signal};

/// What the handler needs to know; one watch at a time is open.
struct Shared {
    /// First byte that can be watched; 0 while no watch is open.
    start: AtomicUsize,
    /// Bytes that can be.
    length: AtomicUsize,
    /// Address of the armed bits, one for each page.
    armed: AtomicUsize,
    /// One past the last byte that was ever registered.
    registered_end: AtomicUsize,
    /// Single pages that were given up since they were armed; each may make two mappings more.
    holes: AtomicUsize,
    /// Holes at most.
    most_holes: AtomicUsize,
    busy: AtomicBool,
    /// Pages that a system call may write to now.
    lent: Lent,
    /// The process that opened the watch. A child of `fork` has another number, and perhaps a lock
    /// that nobody will give back.
    process: AtomicU32,
}

static SHARED: Shared = Shared {
    start: AtomicUsize::new(0),
    length: AtomicUsize::new(0),
    armed: AtomicUsize::new(0),
    registered_end: AtomicUsize::new(0),
    holes: AtomicUsize::new(0),
    most_holes: AtomicUsize::new(0),
    busy: AtomicBool::new(false),
    lent: Lent::new(),
    process: AtomicU32::new(0),
};

/// Mappings that a process may have where the system does not say.
const USUAL_MAPPINGS: usize = 65_530;

impl Shared {
    /// Runs `f` alone, every signal blocked.
    fn alone<R>(&self, f: impl FnOnce() -> R) -> R {
        let mask = signal::block_all();
        let mut tries = 0_u32;
        while self.busy.swap(true, Acquire) {
            core::hint::spin_loop();
            tries += 1;
            // In the child of a fork that came while a thread had the lock; the child has one
            // thread when it finds out.
            if tries.is_multiple_of(1000) && self.is_inherited() {
                break;
            }
        }
        let result = f();
        self.busy.store(false, Release);
        signal::restore(&mask);
        result
    }

    fn is_inherited(&self) -> bool {
        self.process.load(Relaxed) != std::process::id()
    }

    fn word(&self, page: usize) -> &AtomicU64 {
        // SAFETY: the bits of every page of the span are mapped while a watch is open.
        unsafe { &*(self.armed.load(Relaxed) as *const AtomicU64).add(page / 64) }
    }

    fn is_armed(&self, page: usize) -> bool {
        self.word(page).load(Relaxed) >> (page % 64) & 1 != 0
    }

    /// The page that an address of the span lies in.
    fn page(&self, address: usize) -> usize {
        (address - self.start.load(Relaxed)) / PAGE_BYTES
    }

    /// The first page from `page` to `end` that is armed (or is not).
    fn next(&self, mut page: usize, end: usize, armed: bool) -> Option<usize> {
        let flip = if armed { 0 } else { u64::MAX };
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

    fn set(&self, pages: Range<usize>, armed: bool) {
        for page in pages {
            let word = self.word(page);
            let bit = 1 << (page % 64);
            let old = word.load(Relaxed);
            word.store(if armed { old | bit } else { old & !bit }, Relaxed);
        }
    }

    fn addresses(&self, pages: &Range<usize>) -> Range<usize> {
        let start = self.start.load(Relaxed);
        start + pages.start * PAGE_BYTES..start + pages.end * PAGE_BYTES
    }

    /// Gives pages up as written; false if the kernel refuses.
    fn give_up(&self, pages: Range<usize>) -> bool {
        let addresses = self.addresses(&pages);
        let done = map::set_writable(Address(addresses.start), addresses.len(), true).is_ok();
        if done {
            self.set(pages, false);
        }
        done
    }

    /// Makes armed pages writable, and more of them where the kernel has no room for the mappings.
    /// With the lock.
    fn let_write(&self, pages: Range<usize>) -> bool {
        let last = self.page(self.registered_end.load(Acquire));
        if self.is_inherited() {
            // Bits and protection may have been in the middle of a change: a child of `fork` gives
            // everything up, once.
            self.process.store(std::process::id(), Relaxed);
            return self.give_up(0..last);
        }
        let holes = self.holes.load(Relaxed) + pages.len();
        if holes <= self.most_holes.load(Relaxed) && self.give_up(pages.clone()) {
            self.holes.store(holes, Relaxed);
            return true;
        }
        let per_chunk = CHUNK_BYTES / PAGE_BYTES;
        let first = pages.start / per_chunk * per_chunk;
        let chunks = first..pages.end.next_multiple_of(per_chunk).min(last);
        // With everything given up there are fewer mappings than before.
        self.give_up(chunks) || self.give_up(0..last)
    }
}

/// The handler's part: a write to `address` faulted. Whether it can go on now.
fn on_write(address: usize) -> bool {
    let offset = address.wrapping_sub(SHARED.start.load(Acquire));
    let end = SHARED.registered_end.load(Acquire);
    if offset >= SHARED.length.load(Acquire) || address >= end {
        return false;
    }
    SHARED.alone(|| {
        let page = offset / PAGE_BYTES;
        // Another thread's fault on the same page may have been faster. What was registered is
        // writable when it is not armed.
        (!SHARED.is_inherited() && !SHARED.is_armed(page)) || SHARED.let_write(page..page + 1)
    })
}

/// Whether a watch is open.
pub fn is_open() -> bool {
    SHARED.start.load(Relaxed) != 0
}

/// Lets the kernel write to the watched pages of a range until [`take_back`] is called with the
/// answer; None if there are none.
pub fn lend(range: &Range<usize>) -> Option<Range<usize>> {
    let start = SHARED.start.load(Acquire);
    let (from, to) = (range.start.max(start), range.end.min(SHARED.registered_end.load(Acquire)));
    if start == 0 || from >= to {
        return None;
    }
    let pages = (from - start) / PAGE_BYTES..(to - start).div_ceil(PAGE_BYTES);
    SHARED.alone(|| {
        // Closed meanwhile, nothing is protected.
        is_open().then(|| {
            SHARED.lent.lend(pages.clone());
            let mut page = pages.start;
            while let Some(first) = SHARED.next(page, pages.end, true) {
                page = SHARED.next(first, pages.end, false).unwrap_or(pages.end);
                SHARED.let_write(first..page);
            }
            pages
        })
    })
}

/// The call that these pages were lent to has returned.
pub fn take_back(pages: Range<usize>) {
    SHARED.alone(|| {
        if is_open() {
            SHARED.lent.take_back(pages);
        }
    });
}

/// The watch.
pub struct Mprotect {
    bits_bytes: usize,
}

impl Mprotect {
    /// Opens the watch over memory that will be registered piece by piece.
    pub fn open(span: Range<usize>) -> Result<Self, Refusal> {
        let bits_bytes = (span.len() / PAGE_BYTES).div_ceil(8).next_multiple_of(PAGE_BYTES);
        let refusal = |error| Refusal::new("mmap", error);
        let bits = map::allocate(bits_bytes).map_err(refusal)?;
        let opened = SHARED.lent.open(span.len() / PAGE_BYTES).map_err(refusal);
        opened.and_then(|()| fault::install(on_write)).inspect_err(|_| {
            SHARED.lent.close();
            map::release(bits, bits_bytes);
        })?;
        let allowed = map::most_mappings().unwrap_or(USUAL_MAPPINGS);
        // Half of the mappings are the program's; each hole may take two.
        SHARED.most_holes.store(allowed / 4, Relaxed);
        SHARED.holes.store(0, Relaxed);
        SHARED.armed.store(bits.0, Relaxed);
        SHARED.registered_end.store(span.start, Relaxed);
        SHARED.length.store(span.len(), Relaxed);
        SHARED.process.store(std::process::id(), Relaxed);
        SHARED.start.store(span.start, Release);
        Ok(Self { bits_bytes })
    }
}

impl Drop for Mprotect {
    fn drop(&mut self) {
        let end = SHARED.registered_end.load(Relaxed);
        SHARED.alone(|| {
            let last = (end - SHARED.start.load(Relaxed)) / PAGE_BYTES;
            if last > 0 {
                SHARED.give_up(0..last);
            }
            SHARED.start.store(0, Relaxed);
            SHARED.length.store(0, Relaxed);
            SHARED.lent.close();
        });
        map::release(Address(SHARED.armed.swap(0, Relaxed)), self.bits_bytes);
    }
}

impl Watch for Mprotect {
    fn begin(&mut self) -> Result<(), Refusal> {
        fault::install(on_write)
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
                let row = SHARED.addresses(&(first..last));
                // Where the kernel refuses a further mapping the pages stay writable, and are
                // reported again the next time.
                if !lent && map::set_writable(Address(row.start), row.len(), false).is_ok() {
                    SHARED.set(first..last, true);
                    let holes = SHARED.holes.load(Relaxed);
                    SHARED.holes.store(holes.saturating_sub(last - first), Relaxed);
                }
                row
            });
            page = SHARED.page(row.end);
            written(row);
        }
        Ok(())
    }

    fn written(
        &mut self,
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

    fn disarm(&mut self, range: &Range<usize>) {
        let mut page = SHARED.page(range.start);
        let end = SHARED.page(range.end);
        while let Some(first) = SHARED.next(page, end, true) {
            page = SHARED.alone(|| {
                let last = SHARED.next(first, end, false).unwrap_or(end);
                // Refused, they stay armed: writing to them costs a fault each, and no more.
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
mod tests {
    use super::*;

    fn written(watch: &mut Mprotect, range: &Range<usize>) -> usize {
        let mut pages = 0;
        watch.take_written(range, &mut |found| pages += found.len() / PAGE_BYTES).unwrap();
        pages
    }

    #[test]
    fn many_holes_make_whole_chunks_written() {
        let bytes = 2 * CHUNK_BYTES;
        let start = map::reserve(bytes, CHUNK_BYTES).unwrap();
        map::commit(start, bytes).unwrap();
        let range = start.0..start.0 + bytes;
        let mut watch = Mprotect::open(range.clone()).unwrap();
        watch.register(&range).unwrap();
        assert_eq!(written(&mut watch, &range), 1024);
        SHARED.most_holes.store(10, Relaxed);
        for page in 0..11 {
            // SAFETY: the test's own pages.
            unsafe { start.add(page * 2 * PAGE_BYTES).pointer::<u8>().write_volatile(1) };
        }
        assert_eq!(written(&mut watch, &range), 512, "the eleventh hole gives the chunk up");
        assert_eq!(written(&mut watch, &range), 0);
        drop(watch);
        // SAFETY: as above; nothing is protected any more.
        unsafe { start.pointer::<u8>().write_volatile(2) };
    }

    #[test]
    fn the_kernel_writes_to_lent_pages_and_they_count_as_written() {
        let (heap, range, mut watch) = Mprotect::of_new_pages(8);
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let fill = || {
            // SAFETY: the test's own pages.
            let filled = unsafe {
                libc::read(std::os::fd::AsRawFd::as_raw_fd(&zero), heap.add(5000).pointer(), 5000)
            };
            (filled, std::io::Error::last_os_error().raw_os_error())
        };
        written(&mut watch, &range);
        assert_eq!(fill(), (-1, Some(libc::EFAULT)), "this is what lending is for");
        let pages = lend(&(heap.0 + 5000..heap.0 + 10_000)).unwrap();
        assert_eq!(pages, 1..3);
        for _ in 0..2 {
            assert_eq!(written(&mut watch, &range), 2, "not armed while they are lent");
            assert_eq!(fill().0, 5000);
        }
        take_back(pages);
        assert_eq!(written(&mut watch, &range), 2);
        assert_eq!(written(&mut watch, &range), 0);
        assert_eq!(fill().0, -1);
        assert_eq!(lend(&(heap.0 - PAGE_BYTES..heap.0)), None);
        drop(watch);
        assert_eq!(lend(&range), None);
    }

    #[test]
    fn a_child_of_fork_finds_the_lock_taken_and_goes_on() {
        let (heap, range, mut watch) = Mprotect::of_new_pages(4);
        written(&mut watch, &range);
        SHARED.busy.store(true, Relaxed);
        // SAFETY: the child writes to pages of the test and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; a child that waits for ever is ended by the alarm.
            unsafe {
                libc::alarm(10);
                heap.pointer::<u8>().write_volatile(1);
                heap.add(2 * PAGE_BYTES).pointer::<u8>().write_volatile(1);
                libc::_exit(7);
            }
        }
        SHARED.busy.store(false, Relaxed);
        let mut status = 0;
        // SAFETY: waits for our child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 7, "{status:#x}");
        assert_eq!(written(&mut watch, &range), 0);
    }

    #[test]
    fn other_faults_end_in_the_programs_handler_with_its_mask_and_flags() {
        use core::ffi::{c_int, c_void};
        use core::sync::atomic::{AtomicI32, AtomicUsize};
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        static BLOCKED: AtomicI32 = AtomicI32::new(-1);
        extern "C" fn program(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
            // SAFETY: the kernel's structure; the page is the test's own.
            unsafe {
                let address = (*info).si_addr() as usize;
                SEEN.store(address, Relaxed);
                let mut mask: libc::sigset_t = core::mem::zeroed();
                signal::raw_sigmask(libc::SIG_BLOCK, core::ptr::null(), &mut mask);
                BLOCKED.store(
                    libc::sigismember(&mask, libc::SIGUSR1) * 4
                        + libc::sigismember(&mask, libc::SIGSEGV) * 2
                        + libc::sigismember(&mask, libc::SIGUSR2),
                    Relaxed,
                );
                map::set_writable(Address(address & !(PAGE_BYTES - 1)), PAGE_BYTES, true).unwrap();
            }
        }
        let (heap, range, mut watch) = Mprotect::of_new_pages(4);
        let other = map::allocate(PAGE_BYTES).unwrap();
        for (flags, wanted) in [(libc::SA_SIGINFO, 6), (libc::SA_SIGINFO | libc::SA_NODEFER, 4)] {
            // SAFETY: a valid action; set after ours, as a program does.
            unsafe {
                let mut action: libc::sigaction = core::mem::zeroed();
                action.sa_sigaction = program as *const () as usize;
                action.sa_flags = flags;
                libc::sigaddset(&mut action.sa_mask, libc::SIGUSR1);
                assert_eq!(fault::set_program_action(&action, core::ptr::null_mut()), Some(0));
                let mut old: libc::sigaction = core::mem::zeroed();
                assert_eq!(fault::set_program_action(core::ptr::null(), &mut old), Some(0));
                assert_eq!(old.sa_sigaction, action.sa_sigaction);
            }
            written(&mut watch, &range);
            map::set_writable(other, PAGE_BYTES, false).unwrap();
            // SAFETY: the test's own pages; the first write is ours, the second the program's to
            // handle.
            unsafe {
                heap.pointer::<u8>().write_volatile(1);
                assert_eq!(SEEN.swap(0, Relaxed), 0);
                other.add(8).pointer::<u8>().write_volatile(1);
            }
            assert_eq!(SEEN.swap(0, Relaxed), other.0 + 8);
            assert_eq!(BLOCKED.swap(-1, Relaxed), wanted);
            assert_eq!(written(&mut watch, &range), 1);
        }
        // Past the front ends, as by a library that libc's function was found for.
        // SAFETY: a valid action; the test's own pages.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = program as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            signal::real_sigaction()(libc::SIGSEGV, &action, core::ptr::null_mut());
            watch.begin().unwrap();
            written(&mut watch, &range);
            heap.pointer::<u8>().write_volatile(1);
            assert_eq!(SEEN.swap(0, Relaxed), 0);
            map::set_writable(other, PAGE_BYTES, false).unwrap();
            other.add(16).pointer::<u8>().write_volatile(1);
        }
        assert_eq!(SEEN.swap(0, Relaxed), other.0 + 16);
        assert_eq!(written(&mut watch, &range), 1);
    }
}
