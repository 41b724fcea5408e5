//! What of the process's memory can be read: asked of the kernel, or copied by it.
//!
//! Assumes `MADV_POPULATE_READ` (Linux 5.14) and process_vm_readv(2); where the kernel knows
//! neither, all is taken for readable. There may be guard pages within a mapping (Linux 6.13), as
//! thread stacks of newer libcs have, or a file that became shorter. Invariant: an answer holds as
//! long as nobody unmaps what it is about; a copy needs no such promise. Called as [`super`] is.
//!
//! # Safety
//!
//! Requests that have the kernel look at pages as a read would, or copy them into memory of ours.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering::*};
use rustix::io::Errno;
use rustix::mm::{self, Advice};

use super::{may_have_hole, whole_pages};
use crate::addr::{PAGE_BYTES, WORD_BYTES};
use crate::sys::{map, thread};

/// Copied at once.
const PIECE_BYTES: usize = 64 << 10;

/// What can be read around `address` without a hole, and not further up than so far.
pub(super) fn around(address: usize) -> Option<Range<usize>> {
    const FURTHEST: usize = 4 << 30;
    let page = address & !(PAGE_BYTES - 1);
    populate(&(page..page + PAGE_BYTES)).ok()?;
    let end = start_of(page..page + FURTHEST).end;
    let below = page.saturating_sub(FURTHEST)..page;
    Some(end_of(below).start..end)
}

/// Whether the kernel says that this address can be read; false too where it does not know the
/// question.
pub fn is_readable(address: usize) -> bool {
    populate(&whole_pages(&(address..address + 1))).is_ok()
}

/// The part of a range, whose start can be read, that can be read from there on without a hole; all
/// of it where the kernel does not know the question.
pub fn start_of(range: Range<usize>) -> Range<usize> {
    let pages = whole_pages(&range);
    if !is_known() || populate(&pages).is_ok() {
        return range;
    }
    let (mut end, mut bytes) = (pages.start, pages.len());
    while bytes >= PAGE_BYTES {
        let next = end..end + bytes;
        if next.end <= pages.end && populate(&next).is_ok() {
            end = next.end;
        } else {
            bytes = bytes / PAGE_BYTES / 2 * PAGE_BYTES;
        }
    }
    range.start..end.clamp(range.start, range.end)
}

/// The part of a range that can be read from its end down without a hole; all of it where the
/// kernel does not know the question.
pub fn end_of(range: Range<usize>) -> Range<usize> {
    let pages = whole_pages(&range);
    let can_be_read = |pages: &Range<usize>| match populate(pages) {
        Err(Errno::NOMEM) => !may_have_hole(pages),
        answer => answer.is_ok(),
    };
    if !is_known() || can_be_read(&pages) {
        return range;
    }
    let (mut start, mut bytes) = (pages.end, pages.len());
    while bytes >= PAGE_BYTES {
        match start.checked_sub(bytes) {
            Some(below) if below >= pages.start && can_be_read(&(below..start)) => {
                start = below;
            }
            _ => bytes = bytes / PAGE_BYTES / 2 * PAGE_BYTES,
        }
    }
    start.clamp(range.start, range.end)..range.end
}

/// Calls `f` for the parts of a range that can be read.
pub fn for_each(range: Range<usize>, f: &mut impl FnMut(Range<usize>)) {
    let pages = whole_pages(&range);
    match populate(&pages) {
        Err(_) if is_known() && pages.len() > PAGE_BYTES => {
            let middle = pages.start + (pages.len() / PAGE_BYTES / 2) * PAGE_BYTES;
            for_each(range.start..middle, f);
            for_each(middle..range.end, f);
        }
        Err(Errno::FAULT | Errno::HWPOISON) => {}
        // Nobody may read it: so the kernel names a question too that it does not know.
        Err(Errno::INVAL) if is_known() => {}
        Err(Errno::NOMEM) if may_have_hole(&range) => {}
        _ => f(range),
    }
}

/// Calls `f` with copies of the parts of a range that can be read, each in memory that is `f`'s
/// during the call: for what a thread may unmap that nobody stops. Where the kernel does not copy,
/// with the parts themselves. Only whole words.
pub fn for_each_copied(range: Range<usize>, f: &mut impl FnMut(Range<usize>)) {
    let Ok(room) = map::allocate(PIECE_BYTES) else { return for_each(range, f) };
    let mut at = range.start.next_multiple_of(WORD_BYTES);
    let mut questions = 0;
    while at < range.end {
        match copy(at, room.0, PIECE_BYTES.min(range.end - at)) {
            Ok(bytes @ 1..) => {
                f(room.0..room.0 + bytes);
                at += bytes;
            }
            // Of more than this page the kernel would have copied something.
            Ok(0) | Err(Errno::FAULT) => {
                let page = at..((at / PAGE_BYTES + 1) * PAGE_BYTES).min(range.end);
                questions += 1;
                if questions <= MOST_QUESTIONS && lacks_memory(&page) {
                    f(page.clone());
                }
                at = page.end;
            }
            Err(_) => {
                for_each(at..range.end, f);
                break;
            }
        }
    }
    map::release(room, PIECE_BYTES);
}

/// So often the kernel is asked why it did not copy a page: of what comes and goes each answer may
/// take milliseconds.
const MOST_QUESTIONS: usize = 64;

/// Whether a page was not copied for want of memory: the kernel says no more than that it was not.
fn lacks_memory(page: &Range<usize>) -> bool {
    populate(&whole_pages(page)) == Err(Errno::NOMEM) && !may_have_hole(page)
}

/// How many bytes the kernel copied.
fn copy(from: usize, to: usize, bytes: usize) -> Result<usize, Errno> {
    let part = |start: usize| libc::iovec { iov_base: start as *mut _, iov_len: bytes };
    let (from, to) = (part(from), part(to));
    // SAFETY: reads whatever there is, and writes to room that is as long.
    let copied = unsafe {
        libc::syscall(
            libc::SYS_process_vm_readv,
            // The process's first thread may have ended.
            thread::current(),
            &raw const to,
            1_usize,
            &raw const from,
            1_usize,
            0_usize,
        )
    };
    // SAFETY: errno is this thread's.
    usize::try_from(copied)
        .map_err(|_| Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
}

/// Whether the kernel knows the question what can be read (Linux 5.14).
pub fn is_known() -> bool {
    const UNASKED: u8 = 0;
    const KNOWN: u8 = 1;
    const UNKNOWN: u8 = 2;
    static IS_KNOWN: AtomicU8 = AtomicU8::new(UNASKED);
    if IS_KNOWN.load(Relaxed) == UNASKED {
        let own = IS_KNOWN.as_ptr() as usize;
        let answered = populate(&whole_pages(&(own..own + 1))) != Err(Errno::INVAL);
        IS_KNOWN.store(if answered { KNOWN } else { UNKNOWN }, Relaxed);
    }
    IS_KNOWN.load(Relaxed) == KNOWN
}

/// Has the kernel look at whole pages as a read would; an error where one cannot be read.
fn populate(pages: &Range<usize>) -> Result<(), Errno> {
    // SAFETY: what is asked for is what a read would do.
    unsafe { mm::madvise(pages.start as *mut _, pages.len(), Advice::LinuxPopulateRead) }
}

#[cfg(test)]
mod tests {
    use super::super::mapping_of;
    use super::*;
    use crate::addr::Address;
    use crate::check::skip;

    #[test]
    fn what_can_be_read_is_found_without_the_list() {
        let start = map::allocate(600 * PAGE_BYTES).unwrap().0;
        let page = |index: usize| start + index * PAGE_BYTES;
        map::release(Address(page(10)), PAGE_BYTES);
        map::release(Address(page(590)), PAGE_BYTES);
        let inner = page(11)..page(590);
        for address in [inner.start, page(300) + 40, inner.end - 1] {
            assert_eq!(around(address), Some(inner.clone()));
            assert_eq!(mapping_of(address), Some(inner.clone()));
        }
        assert_eq!(around(page(10)), None);
        assert!(is_readable(page(300) + 40) && !is_readable(page(10)) && !is_readable(page(590)));
        let (from, to) = (page(300) + 40, page(599) - 40);
        assert_eq!(start_of(from..to), from..page(590));
        assert_eq!(start_of(from..page(590) - 8), from..page(590) - 8);
        assert!(map::set_writable(Address(page(400)), PAGE_BYTES, false).is_ok());
        assert_eq!(start_of(from..to), from..page(590), "reading is all that is wanted");
        assert_eq!(end_of(page(0)..page(590) - 8), page(11)..page(590) - 8);
        assert_eq!(end_of(page(11) + 40..page(590) - 8), page(11) + 40..page(590) - 8);
        assert_eq!(end_of(page(0)..page(591)), page(591)..page(591));
        let mut parts = Vec::new();
        for_each(page(9) + 40..page(591), &mut |part| parts.push(part));
        assert_eq!(parts.first().map(|part| part.start), Some(page(9) + 40));
        assert_eq!(parts.iter().map(Range::len).sum::<usize>(), 580 * PAGE_BYTES - 40);
        for rest in [page(0)..page(10), inner, page(591)..page(600)] {
            map::release(Address(rest.start), rest.len());
        }
    }

    #[test]
    fn guard_pages_are_left_out() {
        let start = map::allocate(9 * PAGE_BYTES).unwrap().0;
        let page = |index: usize| start + index * PAGE_BYTES;
        let found = |range| {
            let mut found = Vec::new();
            for_each(range, &mut |part| found.push(part));
            found
        };
        let range = page(0) + 40..page(9) - 40;
        assert_eq!(found(range.clone()), core::slice::from_ref(&range));
        // SAFETY: memory of the test's own.
        let guard = |index| unsafe { map::install_guard(Address(page(index)), PAGE_BYTES) };
        if ![0, 5].into_iter().all(guard) {
            return skip("the kernel has no such guard pages");
        }
        let parts = found(range.clone());
        assert_eq!(parts.iter().map(Range::len).sum::<usize>(), 7 * PAGE_BYTES - 40, "{parts:x?}");
        let touches =
            |part: &Range<usize>, index| part.start < page(index + 1) && part.end > page(index);
        assert!(parts.iter().all(|part| !touches(part, 0) && !touches(part, 5)), "{parts:x?}");
        map::release(Address(start), 9 * PAGE_BYTES);
    }

    #[test]
    fn what_nobody_may_read_is_left_out() {
        let start = map::allocate(40 * PAGE_BYTES).unwrap().0;
        let page = |index: usize| start + index * PAGE_BYTES;
        for index in 0..40 {
            // SAFETY: memory of the test's own.
            unsafe { (page(index) as *mut usize).write(index + 1) };
        }
        // SAFETY: the same.
        unsafe { libc::mprotect(page(3) as *mut _, 2 * PAGE_BYTES, libc::PROT_NONE) };
        map::release(Address(page(8)), PAGE_BYTES);
        let wanted: Vec<_> =
            (0..40).filter(|index| ![3, 4, 8].contains(index)).map(|index| index + 1).collect();
        let (mut read, mut copied) = (Vec::new(), Vec::new());
        let words = |found: &mut Vec<usize>, part: Range<usize>| {
            for address in part.step_by(PAGE_BYTES) {
                // SAFETY: what this test is about.
                found.push(unsafe { (address as *const usize).read() });
            }
        };
        for_each(page(0)..page(40), &mut |part| words(&mut read, part));
        for_each_copied(page(0)..page(40), &mut |part| words(&mut copied, part));
        assert_eq!(read, wanted);
        assert_eq!(copied, wanted);
        for part in [page(0)..page(8), page(9)..page(40)] {
            map::release(Address(part.start), part.len());
        }
    }

    #[test]
    fn copies_hold_what_is_there_while_others_take_it_away() {
        const BYTES: usize = 16 << 20;
        let start = map::allocate(BYTES).unwrap().0;
        let over = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    // As if it was unmapped, but that nobody else's comes to lie there.
                    for protection in [libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE] {
                        let upper = (start + BYTES / 2) as *mut _;
                        // SAFETY: memory of the test's own.
                        unsafe { libc::mprotect(upper, BYTES / 2, protection) };
                    }
                }
            });
            for _ in 0..20 {
                let mut bytes = 0;
                for_each_copied(start..start + BYTES, &mut |part| {
                    bytes += part.len();
                    // SAFETY: the copy.
                    assert_eq!(unsafe { (part.start as *const usize).read() }, 0);
                });
                assert!(bytes >= BYTES / 2);
            }
            over.store(true, Relaxed);
        });
        map::release(Address(start), BYTES);
    }
}
