//! The kernel's write watch: userfaultfd in asynchronous write-protect mode, read and re-protected
//! by the `PAGEMAP_SCAN` ioctl.
//!
//! Assumes Linux ≥ 6.7, found out by doing (`watch::choose`). Seen on 6.18: a registered page that
//! was never protected reads as written; `MADV_DONTNEED` makes pages read as written; a scan over
//! memory that is not registered fails under `CHECK_WPASYNC` and would silently report nothing
//! without it; a child of `fork` has no watch. Writes by the kernel on the program's behalf
//! (`read`, `recv`) count as writes. Called by the collector's thread and by who stops the world.
//!
//! # Safety
//!
//! Requests to the kernel with structures of ours, by a system call of our own. Protecting a page
//! changes nothing but when the kernel notes a write; ranges are registered by their owner.

#![allow(unsafe_code)]

use core::mem::ManuallyDrop;
use core::ops::Range;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::UserfaultfdFlags;

use crate::sys::files::descriptor::Descriptor;
use crate::sys::meta_vec::Zeroed;
use crate::sys::process::instruments;
use crate::sys::refusal::Refusal;

/// An open watch.
pub struct WriteWatch {
    faults: OwnDescriptor,
    pagemap: OwnDescriptor,
}

/// A descriptor of ours in a program that may close it behind our back, and open its own under the
/// same number (daemons close all they find). Closed when dropped if it still is ours.
pub(super) struct OwnDescriptor {
    file: ManuallyDrop<Descriptor>,
    meant: Meant,
}

/// What a number meant when it was opened.
#[derive(Clone, Copy, Debug)]
pub struct Meant {
    /// The number.
    pub number: RawFd,
    /// Device and inode of what was opened.
    identity: Option<(u64, u64)>,
}

impl Meant {
    /// Whether it still means that, to the calling thread.
    pub(super) fn is_ours(&self) -> bool {
        self.identity.is_some() && self.identity == identity(self.number)
    }
}

impl OwnDescriptor {
    pub(super) fn new(file: OwnedFd) -> Self {
        let number = file.as_raw_fd();
        let meant = Meant { number, identity: identity(number) };
        Self { meant, file: ManuallyDrop::new(Descriptor::new(file)) }
    }

    /// Whether the number still means what was opened.
    pub(super) fn is_ours(&self) -> bool {
        self.meant.is_ours()
    }

    /// What it means.
    pub(super) fn meant(&self) -> Meant {
        self.meant
    }

    /// Its number.
    pub(super) fn number(&self) -> RawFd {
        self.meant.number
    }

    /// ioctl(2) on it.
    ///
    /// # Safety
    /// `argument` is what the request takes.
    pub(super) unsafe fn ioctl<T>(
        &self,
        request: libc::c_ulong,
        argument: &mut T,
    ) -> Result<usize, Errno> {
        // SAFETY: the caller's promise.
        unsafe { ioctl(&self.file, request, argument) }
    }
}

fn identity(number: RawFd) -> Option<(u64, u64)> {
    // SAFETY: nothing but its status is asked for, whatever the number means.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::fs::fstat(file).ok().map(|status| (status.st_dev, status.st_ino))
}

impl Drop for OwnDescriptor {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

/// A range of written pages, as the kernel writes it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    categories: u64,
}

// SAFETY: three numbers.
unsafe impl Zeroed for Region {}

/// What happens to the pages that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// They are protected again.
    Protect,
    /// They stay as they are, and will be reported again.
    Leave,
}

#[repr(C)]
pub(super) struct ApiArgument {
    pub(super) api: u64,
    pub(super) features: u64,
    pub(super) ioctls: u64,
}

#[repr(C)]
pub(super) struct RegisterArgument {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) mode: u64,
    pub(super) ioctls: u64,
}

#[repr(C)]
pub(super) struct ProtectArgument {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) mode: u64,
}

#[repr(C)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    most_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_of_mask: u64,
    return_mask: u64,
}

const fn read_write(group: u64, number: u64, bytes: usize) -> libc::c_ulong {
    3 << 30 | (bytes as u64) << 16 | group << 8 | number
}

pub(super) const API: u64 = 0xAA;
pub(super) const UFFDIO_API: libc::c_ulong = read_write(API, 0x3f, size_of::<ApiArgument>());
pub(super) const UFFDIO_REGISTER: libc::c_ulong =
    read_write(API, 0x00, size_of::<RegisterArgument>());
pub(super) const UFFDIO_WRITEPROTECT: libc::c_ulong =
    read_write(API, 0x06, size_of::<ProtectArgument>());
const PAGEMAP_SCAN: libc::c_ulong = read_write(b'f' as u64, 16, size_of::<ScanArgument>());
pub(super) const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
pub(super) const REGISTER_MODE_WP: u64 = 1 << 1;
const SCAN_WP_MATCHING: u64 = 1;
const SCAN_CHECK_WPASYNC: u64 = 2;
const PAGE_IS_WRITTEN: u64 = 1 << 1;

/// # Safety
/// `argument` is what the request takes.
unsafe fn ioctl<T>(
    file: &OwnedFd,
    request: libc::c_ulong,
    argument: &mut T,
) -> Result<usize, Errno> {
    // SAFETY: the caller's promise. A system call of its own: libc's `ioctl` may be interposed.
    let result = unsafe {
        libc::syscall(libc::SYS_ioctl, file.as_raw_fd(), request, core::ptr::from_mut(argument))
    };
    if result < 0 {
        // SAFETY: errno is this thread's.
        return Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }));
    }
    Ok(result as usize)
}

impl WriteWatch {
    /// Opens a watch as an ordinary user may.
    pub fn open() -> Result<Self, Refusal> {
        const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);
        if instruments::forbid_userfaultfd() {
            return Err(Refusal::new("userfaultfd", Errno::NOSYS));
        }
        // SAFETY: the descriptor only ever watches ranges that `register` names.
        let faults = unsafe {
            rustix::mm::userfaultfd(
                UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK | USER_MODE_ONLY,
            )
        }
        .map_err(|error| Refusal::new("userfaultfd", error))?;
        let mut api = ApiArgument {
            api: API,
            features: FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED,
            ioctls: 0,
        };
        // SAFETY: the argument of UFFDIO_API.
        unsafe { ioctl(&faults, UFFDIO_API, &mut api) }
            .map_err(|error| Refusal::new("UFFDIO_API", error))?;
        // Not the first thread's, if that can be helped: it may have ended.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let pagemap = rustix::fs::open(c"/proc/thread-self/pagemap", flags, Mode::empty())
            .or_else(|_| rustix::fs::open(c"/proc/self/pagemap", flags, Mode::empty()))
            .map_err(|error| Refusal::new("/proc/self/pagemap", error))?;
        Ok(Self { faults: OwnDescriptor::new(faults), pagemap: OwnDescriptor::new(pagemap) })
    }

    /// Whether the program has closed it behind our back.
    pub fn was_closed(&self) -> bool {
        !(self.faults.is_ours() && self.pagemap.is_ours())
    }

    /// Has the kernel watch a range of whole pages.
    pub fn register(&self, range: &Range<usize>) -> Result<(), Refusal> {
        let mut argument = RegisterArgument {
            start: range.start as u64,
            length: range.len() as u64,
            mode: REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: the argument of UFFDIO_REGISTER; with WP_ASYNC no fault ever waits for us.
        unsafe { ioctl(&self.faults.file, UFFDIO_REGISTER, &mut argument) }
            .map(|_| ())
            .map_err(|error| Refusal::new("UFFDIO_REGISTER", error))
    }

    /// Has the pages of a registered range count as written until they are protected again, so that
    /// a first write to them costs no fault.
    pub fn unprotect(&self, range: &Range<usize>) -> Result<(), Errno> {
        let mut argument =
            ProtectArgument { start: range.start as u64, length: range.len() as u64, mode: 0 };
        // SAFETY: the argument of UFFDIO_WRITEPROTECT.
        unsafe { ioctl(&self.faults.file, UFFDIO_WRITEPROTECT, &mut argument) }.map(|_| ())
    }

    /// Calls `written` for each range of pages written since they were protected last. With
    /// [`Then::Protect`] they are protected again in the same step: a write that is not reported
    /// now will be the next time.
    pub fn written(
        &self,
        range: &Range<usize>,
        then: Then,
        regions: &mut [Region],
        mut written: impl FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        let mut start = range.start;
        while start < range.end {
            start = self.some_written(&(start..range.end), then, 0, regions, &mut written)?;
        }
        Ok(())
    }

    /// The same until `most_pages` (0: any number) were reported, or there is no room for more;
    /// gives where it ended.
    pub fn some_written(
        &self,
        range: &Range<usize>,
        then: Then,
        most_pages: usize,
        regions: &mut [Region],
        mut written: impl FnMut(Range<usize>),
    ) -> Result<usize, Refusal> {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            flags: SCAN_CHECK_WPASYNC | if then == Then::Protect { SCAN_WP_MATCHING } else { 0 },
            start: range.start as u64,
            end: range.end as u64,
            walk_end: 0,
            regions: regions.as_mut_ptr() as u64,
            regions_length: regions.len() as u64,
            most_pages: most_pages as u64,
            category_inverted: 0,
            category_mask: PAGE_IS_WRITTEN,
            category_any_of_mask: 0,
            return_mask: PAGE_IS_WRITTEN,
        };
        // SAFETY: the argument of PAGEMAP_SCAN; the kernel writes at most `regions_length` regions.
        let count = unsafe { ioctl(&self.pagemap.file, PAGEMAP_SCAN, &mut argument) }
            .map_err(|error| Refusal::new("PAGEMAP_SCAN", error))?;
        // It goes no further in a part of a huge page of hugetlbfs.
        if argument.walk_end <= argument.start {
            return Err(Refusal::new("PAGEMAP_SCAN", Errno::INVAL));
        }
        // Where it stops for `most_pages`, the last one may be empty.
        for region in regions[..count].iter().filter(|region| region.start < region.end) {
            written(region.start as usize..region.end as usize);
        }
        Ok(argument.walk_end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_closed_unless_the_number_is_the_programs_by_now() {
        let open = || OwnedFd::from(std::fs::File::open("/proc/self/status").unwrap());
        let number = open().as_raw_fd();
        drop(OwnDescriptor::new(open()));
        // SAFETY: asks whether a number is open.
        assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } < 0, "it was ours: closed");
        let ours = OwnDescriptor::new(open());
        let theirs = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        // SAFETY: both numbers are open; the program's file takes the place of ours, as after
        // closing all and opening anew.
        unsafe { libc::dup2(theirs.as_raw_fd(), ours.file.as_raw_fd()) };
        let number = ours.file.as_raw_fd();
        drop(ours);
        // SAFETY: as above, and closes what this test opened.
        unsafe {
            assert!(libc::fcntl(number, libc::F_GETFD) >= 0, "it was not: left alone");
            libc::close(number);
        }
    }
}
