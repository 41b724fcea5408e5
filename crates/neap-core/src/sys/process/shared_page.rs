//! Memory that other processes can read, or write too if they may look into this one: a memfd, kept
//! open under a high number so that its memory is found among the process's open files.
//!
//! Assumes memfd_create (Linux 3.17); where it is refused there is no such page. The number is
//! above what programs count on, close-on-exec, and may be closed by a program that closes
//! everything: the page stays. On the thread that starts the collector, and in the child of a
//! `fork`.
//!
//! # Safety
//!
//! Maps a file that is ours and one page long; a number that may have been closed meanwhile is only
//! asked about.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, MemfdFlags};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::mm::{self, MapFlags, ProtFlags};

use crate::addr::Address;
use crate::sys::files::descriptor::Descriptor;
use crate::sys::thread;

/// Numbers from here on are tried first; shells keep their own files up there too.
const HIGH_NUMBERS: [c_int; 2] = [1000, 200];

/// A page and the file that it is found by.
#[derive(Clone, Copy, Debug)]
pub struct SharedPage {
    /// Its memory, zeroed, for ever.
    pub start: Address,
    /// The file's number.
    number: c_int,
    /// The file itself, to be told from another one that has the number since.
    inode: u64,
}

/// Who writes to a page besides this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Nobody.
    None,
    /// Processes of the same user, which could do worse to this one.
    SameUser,
}

/// Makes a page of so many bytes; None where the system refuses.
pub fn create(name: &CStr, bytes: usize, writers: Writers) -> Option<SharedPage> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = Descriptor::new(fs::memfd_create(name, flags).ok()?);
    // A file beyond the limit on file sizes would end the process with SIGXFSZ.
    if thread::limit(libc::RLIMIT_FSIZE).is_some_and(|limit| limit < bytes as u64) {
        return None;
    }
    fs::ftruncate(&file, bytes as u64).ok()?;
    // SAFETY: a new mapping where the kernel likes aliases nothing; its file is so long and
    // stays so.
    let start = unsafe {
        mm::mmap(
            core::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            0,
        )
    }
    .ok()?;
    // Nobody else may write to it, or make it shorter under us.
    let mut seals = fs::SealFlags::SHRINK | fs::SealFlags::GROW;
    match writers {
        Writers::None => seals |= fs::SealFlags::FUTURE_WRITE,
        Writers::SameUser => fs::fchmod(&file, fs::Mode::from(0o600)).ok()?,
    }
    fs::fcntl_add_seals(&file, seals)
        .or(match writers {
            Writers::None => Ok(()),
            // Who could cut it would end this process with SIGBUS.
            Writers::SameUser => Err(rustix::io::Errno::PERM),
        })
        .ok()?;
    let inode = fs::fstat(&file).ok()?.st_ino;
    let kept = high_number(&file).map_or(file, Descriptor::new);
    Some(SharedPage { start: Address(start as usize), number: kept.into_number(), inode })
}

/// Has the kernel make room for a high number while the process has one thread. With several it
/// does so only after 10 to 30 ms, in which the caller cannot be stopped. Needs standard input to
/// be open.
pub fn make_room() {
    // SAFETY: borrowed for the calls only, which answer with an error if it is not open.
    let input = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
    drop(high_number(input).map(Descriptor::new));
}

/// The same file under a high number.
fn high_number(file: impl AsFd) -> Option<OwnedFd> {
    let file = file.as_fd();
    HIGH_NUMBERS.into_iter().find_map(|lowest| fcntl_dupfd_cloexec(file, lowest).ok())
}

/// Closes the file of a page, if it is still the one under the number: in a child of `fork`, whose
/// parent's page it is.
pub fn close(page: SharedPage) {
    // SAFETY: borrowed for a question only; a number that is not open is answered with an error.
    let file = unsafe { BorrowedFd::borrow_raw(page.number) };
    if fs::fstat(file).is_ok_and(|status| status.st_ino == page.inode) {
        // SAFETY: the file is ours, and nobody else knows its number.
        unsafe { rustix::io::close(page.number) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::PAGE_BYTES;

    fn is_open(page: SharedPage) -> bool {
        std::fs::read_link(format!("/proc/self/fd/{}", page.number))
            .is_ok_and(|name| name.to_string_lossy().contains("neap-test"))
    }

    #[test]
    fn what_is_written_is_read_through_the_file() {
        let page = create(c"neap-test", PAGE_BYTES, Writers::None).unwrap();
        assert!(page.number >= 200 && is_open(page));
        // SAFETY: the page is ours.
        unsafe { page.start.pointer::<u64>().write_volatile(0x1234) };
        let file = format!("/proc/self/fd/{}", page.number);
        let bytes = std::fs::read(&file).unwrap();
        assert_eq!(bytes.len(), PAGE_BYTES);
        assert_eq!(u64::from_ne_bytes(*bytes.first_chunk().unwrap()), 0x1234);
        // Others can read it, and neither write nor cut it.
        use std::io::Write;
        let writer = std::fs::OpenOptions::new().write(true).open(&file);
        assert!(writer.is_err() || writer.unwrap().write(b"x").is_err());
        close(page);
        assert!(!is_open(page));
        close(page);
    }
}
