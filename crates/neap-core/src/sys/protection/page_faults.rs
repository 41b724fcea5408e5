//! The kernel's write protection with a say: a write to a protected page waits until a thread of
//! ours lets it go on (userfaultfd, synchronous).
//!
//! Assumes Linux ≥ 6.4, found out by doing (`watch::snapshot`): since then pages that nobody has
//! touched can be protected too. Writes by the kernel on the program's behalf (`read`, `recv`) wait
//! as well, which takes a descriptor that the system gives not to everybody: to who may trace
//! processes (`CAP_SYS_PTRACE`), to all where `vm.unprivileged_userfaultfd` is 1, or through
//! `/dev/userfaultfd`. With the one that everybody gets such a call fails with EFAULT: then this
//! refuses. A child of `fork` has no protection. Called by the collector's thread, by who stops the
//! world, and by the thread that serves.
//!
//! # Safety
//!
//! Requests to the kernel with structures of ours, which it fills up to their length. The
//! descriptor hears only of ranges that were registered by their owner.

#![allow(unsafe_code)]

use crate::sys::files::descriptor::Descriptor;
use core::ops::Range;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::UserfaultfdFlags;

pub use super::write_watch::Meant;
use super::write_watch::{
    API, ApiArgument, FEATURE_WP_UNPOPULATED, ProtectArgument, RegisterArgument,
    UFFDIO_WRITEPROTECT,
};
use super::write_watch::{OwnDescriptor, REGISTER_MODE_WP, UFFDIO_API, UFFDIO_REGISTER};
use crate::sys::process::instruments;
use crate::sys::refusal::Refusal;
use crate::sys::{futex, print};

/// What refuses, in messages: faults of the kernel itself.
pub const FOR_THE_KERNEL: &str = "userfaultfd for writes by the kernel";

const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const PROTECT: u64 = 1 << 0;
const EVENT_PAGEFAULT: u8 = 0x12;
const FLAG_WP: u64 = 1 << 1;
/// `_IO(0xAA, 0)` of `/dev/userfaultfd`.
const USERFAULTFD_IOC_NEW: libc::c_ulong = 0xAA00;

/// A message of the kernel's.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u64,
}

impl Message {
    /// The address of a write that waits; None for anything else.
    pub fn waiting_write(&self) -> Option<usize> {
        let write = self.event == EVENT_PAGEFAULT && self.flags & FLAG_WP != 0;
        write.then_some(self.address as usize)
    }
}

/// The open descriptor.
pub struct PageFaults {
    file: OwnDescriptor,
}

/// Opens a descriptor that hears of the kernel's own faults too.
fn open_file() -> Result<OwnedFd, Refusal> {
    if instruments::forbid_userfaultfd() {
        return Err(Refusal::new("userfaultfd", Errno::NOSYS));
    }
    // SAFETY: the descriptor only ever hears of ranges that `register` names.
    let opened = unsafe { rustix::mm::userfaultfd(UserfaultfdFlags::CLOEXEC) };
    let Err(error) = opened else {
        return opened.map_err(|error| Refusal::new("userfaultfd", error));
    };
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(device) = rustix::fs::open(c"/dev/userfaultfd", flags, Mode::empty()) else {
        // Where everybody may have one for their own faults it is only this kind that is refused.
        let ordinary = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(1);
        // SAFETY: as above; closed at once.
        let call = match unsafe { rustix::mm::userfaultfd(ordinary) }.map(Descriptor::new) {
            Ok(_) => FOR_THE_KERNEL,
            Err(_) => "userfaultfd",
        };
        return Err(Refusal::new(call, error));
    };
    let device = Descriptor::new(device);
    // SAFETY: the request takes flags, and gives a descriptor.
    let made = unsafe {
        libc::syscall(libc::SYS_ioctl, device.as_raw_fd(), USERFAULTFD_IOC_NEW, libc::O_CLOEXEC)
    };
    match made {
        // SAFETY: the kernel just gave us this descriptor.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(made as RawFd) }),
        _ => Err(Refusal::new(FOR_THE_KERNEL, Errno::PERM)),
    }
}

impl PageFaults {
    /// Opens it.
    pub fn open() -> Result<Self, Refusal> {
        let file = OwnDescriptor::new(open_file()?);
        let mut api = ApiArgument {
            api: API,
            features: FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_UNPOPULATED,
            ioctls: 0,
        };
        // SAFETY: the argument of UFFDIO_API.
        unsafe { file.ioctl(UFFDIO_API, &mut api) }
            .map_err(|error| Refusal::new("UFFDIO_API", error))?;
        Ok(Self { file })
    }

    /// Whether the program has closed it behind our back.
    pub fn was_closed(&self) -> bool {
        !self.file.is_ours()
    }

    /// What [`Served::alone`] needs.
    pub fn meant(&self) -> Meant {
        self.file.meant()
    }

    /// Has the kernel know a range of whole pages.
    pub fn register(&self, range: &Range<usize>) -> Result<(), Refusal> {
        let mut argument = RegisterArgument {
            start: range.start as u64,
            length: range.len() as u64,
            mode: REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: the argument of UFFDIO_REGISTER; who writes to what is protected waits for the
        // thread that serves.
        unsafe { self.file.ioctl(UFFDIO_REGISTER, &mut argument) }
            .map(|_| ())
            .map_err(|error| Refusal::new("UFFDIO_REGISTER", error))
    }

    /// Has writes to a registered range wait.
    pub fn protect(&self, range: &Range<usize>) -> Result<(), Refusal> {
        set_protected(self.file.number(), range, true)
            .map_err(|error| Refusal::new("UFFDIO_WRITEPROTECT", error))
    }

    /// Lets writes to a registered range go on, those that wait too.
    pub fn release(&self, range: &Range<usize>) -> Result<(), Refusal> {
        set_protected(self.file.number(), range, false)
            .map_err(|error| Refusal::new("UFFDIO_WRITEPROTECT", error))
    }
}

fn set_protected(file: RawFd, range: &Range<usize>, protected: bool) -> Result<(), Errno> {
    let mut argument = ProtectArgument {
        start: range.start as u64,
        length: range.len() as u64,
        mode: if protected { PROTECT } else { 0 },
    };
    loop {
        // SAFETY: the argument of UFFDIO_WRITEPROTECT.
        let result =
            unsafe { libc::syscall(libc::SYS_ioctl, file, UFFDIO_WRITEPROTECT, &raw mut argument) };
        if result == 0 {
            return Ok(());
        }
        // SAFETY: errno is this thread's.
        match Errno::from_raw_os_error(unsafe { *libc::__errno_location() }) {
            // The process's mappings were being changed.
            Errno::AGAIN | Errno::INTR => {}
            error => return Err(error),
        }
    }
}

/// The thread's own view of the descriptor, which the program cannot close.
pub struct Served(RawFd);

impl Served {
    /// Gives the calling thread a table of descriptors of its own, with this one alone. None if the
    /// system refuses, or the program has closed it and has a file of its own there, maybe.
    pub fn alone(meant: Meant) -> Option<Self> {
        let file = meant.number;
        // SAFETY: from here on this thread's descriptors are its own; what it closes is its own
        // copies.
        let alone = unsafe {
            libc::syscall(libc::SYS_unshare, libc::CLONE_FILES) == 0
                && (file == 0 || libc::syscall(libc::SYS_close_range, 0, file - 1, 0) == 0)
                && libc::syscall(libc::SYS_close_range, file + 1, u32::MAX, 0) == 0
        };
        (alone && meant.is_ours()).then_some(Self(file))
    }

    /// Waits for messages. Whoever waits to write would wait for ever if none were taken any more,
    /// so an error is tried again, and ends the process if it stays.
    pub fn wait<'m>(&self, messages: &'m mut [Message]) -> &'m [Message] {
        let mut failed = 0;
        loop {
            // SAFETY: the kernel writes whole messages to the room that is given.
            let read = unsafe {
                libc::syscall(
                    libc::SYS_read,
                    self.0,
                    messages.as_mut_ptr(),
                    size_of_val::<[Message]>(messages),
                )
            };
            // SAFETY: errno is this thread's.
            let error = unsafe { *libc::__errno_location() };
            match read {
                0.. => return &messages[..read as usize / size_of::<Message>()],
                _ if error == libc::EINTR || error == libc::EAGAIN => {}
                _ => {
                    failed += 1;
                    again("read", Errno::from_raw_os_error(error), failed);
                }
            }
        }
    }

    /// Closes the thread's copy.
    pub fn close(self) {
        // SAFETY: a number in the calling thread's own table.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }

    /// As [`PageFaults::release`]; false if the system refuses.
    pub fn release(&self, range: &Range<usize>) -> bool {
        set_protected(self.0, range, false).is_ok()
    }

    /// The same for a page that somebody waits for: tried again as in [`Self::wait`].
    pub fn let_go(&self, page: &Range<usize>) {
        let mut failed = 0;
        while let Err(error) = set_protected(self.0, page, false) {
            failed += 1;
            again("UFFDIO_WRITEPROTECT", error, failed);
        }
    }
}

/// The calling thread, which has a table of descriptors of its own, gets the process's standard
/// error.
#[cold]
fn borrow_standard_error() {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::NONBLOCK;
    if let Ok(file) = rustix::fs::open(c"/proc/self/fd/2", flags, Mode::empty()) {
        let _ = rustix::stdio::dup2_stderr(Descriptor::new(file));
    }
}

/// How often what serves writers is tried again. Larger: longer refusals are lived through.
const TRIES: u32 = 100;

/// What serves writers was refused for the `failed`th time: waits a moment, or ends the process.
#[cold]
fn again(what: &str, error: Errno, failed: u32) {
    if failed > TRIES {
        borrow_standard_error();
        print::fatal(format_args!(
            "the system refuses to let threads write to pages that are watched ({what} of \
             userfaultfd: {error}); choose another way with NEAP_WATCH"
        ));
    }
    futex::sleep(1_000_000);
}
