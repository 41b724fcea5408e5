//! An open descriptor of the library's own, closed by the kernel and not by libc.
//!
//! Invariant: no function of another library's runs when one is dropped. What stands before libc's
//! `close` may crash on a thread that it does not know, as ThreadSanitizer's does on those of the
//! collector, and on any before the program begins. Called from any thread.
//!
//! # Safety
//!
//! Closes what it owns, once.

#![allow(unsafe_code)]

use core::mem::{ManuallyDrop, forget};
use core::ops::Deref;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A descriptor that nobody else closes.
#[derive(Debug)]
pub struct Descriptor(ManuallyDrop<OwnedFd>);

impl Descriptor {
    /// Takes it over.
    pub const fn new(file: OwnedFd) -> Self {
        Self(ManuallyDrop::new(file))
    }

    /// Gives its number, and leaves it open.
    pub fn into_number(self) -> RawFd {
        let number = self.as_raw_fd();
        forget(self);
        number
    }
}

impl Deref for Descriptor {
    type Target = OwnedFd;
    fn deref(&self) -> &OwnedFd {
        &self.0
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: it is ours, and not used afterwards.
        unsafe { rustix::io::close(self.as_raw_fd()) };
    }
}
