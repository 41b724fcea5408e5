//! `/proc/self/maps`, asked or read without malloc, for what nothing else answers: which mapping
//! holds this stack address, and whether memory is private to the process. What can be read:
//! [`readable`].
//!
//! Invariant: an answer is as old as the reading; the caller knows why it still holds. Called when
//! a thread of unknown origin is attached, for a stopped thread that runs on an alternate stack,
//! before roots are watched, and where large ones are left to a child that marks.
//!
//! # Safety
//!
//! A request to the kernel with a structure of ours, which it fills. The file is closed by a system
//! call of our own: nobody else knows its number.

#![allow(unsafe_code)]

pub mod readable;

use crate::addr::PAGE_BYTES;
use crate::sys::files::descriptor::Descriptor;
use core::ops::Range;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, Updater, opcode};
use rustix::mm::{self, MsyncFlags};

/// The mapping that contains `address`, None if there is none. Where `/proc` cannot be opened, as
/// after a `chroot` or with no descriptor left, what can be read around it without a hole, which
/// may be more (Linux 5.14; None before).
pub fn mapping_of(address: usize) -> Option<Range<usize>> {
    let mut found = None;
    match for_each_from(address, |mapping| {
        found = mapping.range.contains(&address).then_some(mapping.range);
        found.is_none()
    }) {
        Ok(()) => found,
        Err(Unopened) => readable::around(address),
    }
}

/// How many there are; 0 where nobody says.
pub fn count() -> usize {
    let mut count = 0;
    let asked = for_each_from(0, |_| {
        count += 1;
        true
    });
    asked.map_or(0, |()| count)
}

/// Whether something of a range is not mapped, or the system does not say.
pub fn may_have_hole(range: &Range<usize>) -> bool {
    let pages = whole_pages(range);
    // SAFETY: a question: with this flag the kernel looks for holes and begins to write nothing.
    unsafe { mm::msync(pages.start as *mut _, pages.len(), MsyncFlags::ASYNC) }.is_err()
}

/// The pages that a range has a part of.
fn whole_pages(range: &Range<usize>) -> Range<usize> {
    range.start & !(PAGE_BYTES - 1)..range.end.next_multiple_of(PAGE_BYTES)
}

/// The whole mappings, without a gap, that contain `range`, if all are private: what is stored
/// there comes from this process alone. None if `/proc` is not there.
pub fn covering(range: &Range<usize>) -> Option<Range<usize>> {
    let mut covered: Option<Range<usize>> = None;
    let _ = for_each_from(range.start, |mapping| {
        let next = mapping.range;
        match &mut covered {
            _ if next.end <= range.start => return true,
            None if next.start <= range.start && mapping.private => covered = Some(next),
            Some(so_far) if next.start == so_far.end && mapping.private => so_far.end = next.end,
            _ => return false,
        }
        covered.as_ref().is_some_and(|covered| covered.end < range.end)
    });
    covered.filter(|covered| covered.end >= range.end)
}

/// A line of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    range: Range<usize>,
    private: bool,
}

/// Calls `f` for mappings, lower addresses first, until it gives false: for all that end above
/// `address`, and for others before them where the kernel only lists them all.
fn for_each_from(address: usize, mut f: impl FnMut(Mapping) -> bool) -> Result<(), Unopened> {
    // The first is the first thread's, and without a line once that has ended.
    for path in [c"/proc/self/maps", c"/proc/thread-self/maps"] {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { continue };
        let file = Descriptor::new(file);
        if ask(&file, address, &mut f).is_ok() || read(&file, &mut f) {
            return Ok(());
        }
    }
    Err(Unopened)
}

/// The list of mappings could not be opened.
struct Unopened;

/// The kernel does not answer questions about single mappings.
struct Unanswered;

/// The argument of `PROCMAP_QUERY` (Linux 6.11): with it the kernel does not write a line for each
/// mapping of the process.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    mapping_flags: u64,
    /// Page size, offset, inode, device: what it fills in besides.
    rest: [u64; 4],
    /// Sizes and addresses of room for a name and a build id: none.
    names: [u64; 3],
}

const PROCMAP_QUERY: Opcode = opcode::read_write::<Query>(b'f', 17);
const COVERING_OR_NEXT: u64 = 0x10;
const IS_SHARED: u64 = 0x08;

/// By questions.
fn ask(file: &OwnedFd, from: usize, f: impl FnMut(Mapping) -> bool) -> Result<(), Unanswered> {
    let mut f = f;
    let mut address = from;
    loop {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            flags: COVERING_OR_NEXT,
            address: address as u64,
            ..Query::default()
        };
        // SAFETY: the argument of the request.
        match unsafe { ioctl::ioctl(file, Updater::<PROCMAP_QUERY, Query>::new(&mut query)) } {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(_) => return Err(Unanswered),
        }
        let range = query.start as usize..query.end as usize;
        address = range.end;
        if !f(Mapping { range, private: query.mapping_flags & IS_SHARED == 0 }) {
            return Ok(());
        }
    }
}

/// By reading the list.
fn read(file: &OwnedFd, mut f: impl FnMut(Mapping) -> bool) -> bool {
    let mut parser = Parser::default();
    // On a program's stack, which may be small.
    let mut buffer = [0_u8; 512];
    let mut has_lines = false;
    while let Ok(read @ 1..) = rustix::io::read(file, &mut buffer) {
        has_lines = true;
        if !buffer[..read].iter().filter_map(|byte| parser.feed(*byte)).all(&mut f) {
            break;
        }
    }
    has_lines
}

/// Reads `START-END PERMISSIONS ` at the beginning of each line and skips the rest.
#[derive(Default)]
pub(super) struct Parser {
    start: usize,
    end: usize,
    number: usize,
    spaces: u32,
    last: u8,
}

impl Parser {
    pub(super) fn feed(&mut self, byte: u8) -> Option<Mapping> {
        let last = core::mem::replace(&mut self.last, byte);
        match (byte, self.spaces) {
            (b'\n', _) => *self = Self::default(),
            (b'-', 0) => (self.start, self.number) = (self.number, 0),
            (b' ', spaces) => {
                self.spaces += 1;
                if spaces == 0 {
                    self.end = self.number;
                } else if spaces == 1 {
                    return Some(Mapping { range: self.start..self.end, private: last == b'p' });
                }
            }
            (digit, 0) => {
                self.number = self.number << 4 | (digit as char).to_digit(16).unwrap_or(0) as usize
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Address;
    use crate::check::skip;
    use crate::sys::map;

    #[test]
    fn finds_the_mapping_of_a_local() {
        let local = 0_u8;
        let address = core::ptr::from_ref(&local) as usize;
        assert!(mapping_of(address).unwrap().contains(&address));
        assert_eq!(mapping_of(1), None);
    }

    #[test]
    fn what_others_may_write_is_not_private() {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, PAGE_BYTES as u64).unwrap();
        let start = map::allocate(3 * PAGE_BYTES).unwrap().0;
        let range = start..start + 3 * PAGE_BYTES;
        let covered = covering(&range).unwrap();
        assert!(covered.start <= range.start && range.end <= covered.end);
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let middle = (start + PAGE_BYTES) as *mut core::ffi::c_void;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: a page of the test's own memory is replaced, which nobody else uses.
        unsafe { mmap(middle, PAGE_BYTES, ProtFlags::READ, flags, &file, 0) }.unwrap();
        assert_eq!(covering(&range), None);
        let first = start..start + PAGE_BYTES;
        assert_eq!(covering(&first).unwrap().end, first.end);
        map::release(Address(start + PAGE_BYTES), PAGE_BYTES);
        assert_eq!(covering(&range), None, "a gap");
        assert_eq!(covering(&(0..PAGE_BYTES)), None, "nothing is there");
    }

    #[test]
    fn what_is_asked_and_what_is_read_agree() {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(c"/proc/self/maps", flags, Mode::empty()).unwrap();
        let local = 0_u8;
        let address = core::ptr::from_ref(&local) as usize;
        let (mut asked, mut listed) = (None, None);
        let first = |found: &mut Option<Mapping>, mapping: Mapping| {
            *found = (mapping.range.end > address).then_some(mapping);
            found.is_none()
        };
        if ask(&file, address, |mapping| first(&mut asked, mapping)).is_err() {
            return skip("the kernel does not answer questions about mappings");
        }
        read(&file, |mapping| first(&mut listed, mapping));
        assert_eq!(asked, listed);
        assert!(ask(&file, usize::MAX - 1, |_| panic!("nothing is there")).is_ok());
    }

    #[test]
    fn parses_lines() {
        let mut parser = Parser::default();
        let found: Vec<_> = b"1000-2000 rw-p 0 f-f 0\nab-cd r--s 00 b\n"
            .iter()
            .filter_map(|byte| parser.feed(*byte))
            .collect();
        let mapping = |range, private| Mapping { range, private };
        assert_eq!(found, [mapping(0x1000..0x2000, true), mapping(0xab..0xcd, false)]);
    }
}
