//! Functions of libc that have the kernel fill memory with data, for front ends to export in libc's
//! stead: under the `mprotect` watch the buffer's pages are lent to the kernel for as long as the
//! call takes, since the kernel asks no handler and would refuse with EFAULT.
//!
//! Invariant: each does what libc's does as far as the program can see; under other watches it only
//! passes the call on. A call that does not come back (its thread is cancelled, a signal's handler
//! jumps away) leaves its pages lent. Called by program threads, also in their signal handlers.
//!
//! # Safety
//!
//! Each function is libc's in type and promise; vectors and messages are read as the kernel itself
//! would read them, within the counts that the program gives. Functions of libc are found by name
//! and called by their own type.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ops::Range;

use crate::watch::mprotect;

pub use crate::sys::libc_function::LibcFunction;
pub use crate::watch::mprotect::has_to_lend;

/// Ranges that one call lends; more are lent as one that covers them.
const MOST: usize = 32;
/// Vectors in one call at most; the kernel refuses more.
const MOST_VECTORS: usize = 1024;

/// What one call lends to the kernel.
pub struct Loan {
    pages: [Range<usize>; MOST],
    count: usize,
    /// What did not fit: lowest address, and highest.
    more: (usize, usize),
}

impl Default for Loan {
    fn default() -> Self {
        Self::new()
    }
}

impl Loan {
    /// Nothing.
    pub fn new() -> Self {
        Self { pages: [const { 0..0 }; MOST], count: 0, more: (usize::MAX, 0) }
    }

    /// Lends `bytes` bytes at `start`.
    pub fn bytes<T>(&mut self, start: *const T, bytes: usize) {
        let range = start as usize..(start as usize).saturating_add(bytes);
        if self.count < MOST - 1 {
            self.lend(&range);
        } else if !range.is_empty() {
            self.more = (self.more.0.min(range.start), self.more.1.max(range.end));
        }
    }

    fn lend(&mut self, range: &Range<usize>) {
        if let Some(pages) = mprotect::lend(range) {
            self.pages[self.count] = pages;
            self.count += 1;
        }
    }

    /// Lends what vectors name.
    ///
    /// # Safety
    /// There are so many, or the pointer is null.
    pub unsafe fn vectors(&mut self, vectors: *const libc::iovec, count: usize) {
        if vectors.is_null() {
            return;
        }
        for index in 0..count.min(MOST_VECTORS) {
            // SAFETY: the caller's promise.
            let vector = unsafe { &*vectors.add(index) };
            self.bytes(vector.iov_base, vector.iov_len);
        }
    }

    /// Lends a message, and what it names.
    ///
    /// # Safety
    /// It is one, with what it names, or the pointer is null.
    pub unsafe fn message(&mut self, message: *const libc::msghdr) {
        self.bytes(message, size_of::<libc::msghdr>());
        // SAFETY: the caller's promise.
        if let Some(message) = unsafe { message.as_ref() } {
            self.bytes(message.msg_name, message.msg_namelen as usize);
            self.bytes(message.msg_control, message.msg_controllen);
            // SAFETY: as above.
            unsafe { self.vectors(message.msg_iov, message.msg_iovlen) };
        }
    }

    /// Lends messages, as [`Self::message`].
    ///
    /// # Safety
    /// There are so many, or the pointer is null.
    pub unsafe fn messages(&mut self, messages: *const libc::mmsghdr, count: usize) {
        self.bytes(messages, count.saturating_mul(size_of::<libc::mmsghdr>()));
        for index in 0..if messages.is_null() { 0 } else { count.min(MOST_VECTORS) } {
            // SAFETY: the caller's promise.
            unsafe { self.message(&raw const (*messages.add(index)).msg_hdr) };
        }
    }

    /// Lends an address of a socket, and its length.
    ///
    /// # Safety
    /// The length is valid or null.
    pub unsafe fn socket_address(&mut self, address: *const c_void, length: *const u32) {
        // SAFETY: the caller's promise.
        if let Some(bytes) = unsafe { length.as_ref() } {
            self.bytes(address, *bytes as usize);
            self.bytes(length, size_of::<u32>());
        }
    }

    /// Before the call: what did not fit is lent too.
    pub fn complete(&mut self) {
        let (low, high) = self.more;
        self.lend(&(low..high));
    }

    /// The call has returned.
    pub fn take_back(self) {
        self.pages.into_iter().take(self.count).for_each(mprotect::take_back);
    }
}

/// Defines functions of libc's names, for [`kernel_writes!`](crate::kernel_writes): each runs
/// libc's, with what its block says lent to the kernel.
#[doc(hidden)]
#[macro_export]
macro_rules! lending {
    ($(
        $name:ident($($argument:ident: $type:ty),*) -> $result:ty $(, waits on $socket:ident,)?
        { |$loan:ident| $lend:expr }
    )*) => {
        #[allow(non_upper_case_globals)]
        mod real {
            use super::*;
            use $crate::api::kernel_writes::LibcFunction;

            $(pub static $name: LibcFunction<unsafe extern "C" fn($($type),*) -> $result> =
                // SAFETY: libc's function of this name has this type.
                unsafe { LibcFunction::named(concat!(stringify!($name), "\0")) };)*
        }

        /// Finds libc's functions of these names, when the library is loaded: a first call may be
        /// in a signal's handler.
        pub fn find() {
            $(real::$name.find();)*
        }

        $(
        #[doc = concat!("As libc's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller calls it as libc's.
            unsafe {
                let real = real::$name.get();
                if !$crate::api::kernel_writes::has_to_lend() {
                    return $crate::waiting!(
                        $($socket)?, [$($argument as usize),*], real($($argument),*)
                    );
                }
                let mut loan = $crate::api::kernel_writes::Loan::new();
                {
                    let $loan = &mut loan;
                    $lend;
                }
                loan.complete();
                let result = $crate::waiting!(
                    $($socket)?, [$($argument as usize),*], real($($argument),*)
                );
                loan.take_back();
                result
            }
        }
    )*};
}

/// A call of libc's function. On a socket, if one is named, it is a wait, with these arguments: in
/// a blocked region, and no stop ends it.
#[doc(hidden)]
#[macro_export]
macro_rules! waiting {
    (, $arguments:expr, $call:expr) => {
        $call
    };
    ($socket:ident, $arguments:expr, $call:expr) => {
        $crate::api::waits::waiting($arguments, || {
            $crate::api::waits::on_socket($socket, $crate::api::waits::Direction::In, || $call)
        })
    };
}

/// Defines libc's functions that fill memory with data (see the module
/// `runtime::interposed::kernel_writes` of the core), those that fortified programs call too. In a
/// library that programs load before libc, once.
#[macro_export]
macro_rules! kernel_writes {
    () => {
        use core::ffi::{c_int, c_void};
        use libc::{iovec, mmsghdr, msghdr, off_t, timespec};

        $crate::lending! {
            read(file: c_int, buffer: *mut c_void, bytes: usize) -> isize, waits on file, {
                |loan| loan.bytes(buffer, bytes)
            }
            __read_chk(
                file: c_int, buffer: *mut c_void, bytes: usize, room: usize
            ) -> isize, waits on file, { |loan| loan.bytes(buffer, bytes) }
            pread(file: c_int, buffer: *mut c_void, bytes: usize, from: off_t) -> isize {
                |loan| loan.bytes(buffer, bytes)
            }
            pread64(file: c_int, buffer: *mut c_void, bytes: usize, from: off_t) -> isize {
                |loan| loan.bytes(buffer, bytes)
            }
            __pread_chk(
                file: c_int, buffer: *mut c_void, bytes: usize, from: off_t, room: usize
            ) -> isize { |loan| loan.bytes(buffer, bytes) }
            __pread64_chk(
                file: c_int, buffer: *mut c_void, bytes: usize, from: off_t, room: usize
            ) -> isize { |loan| loan.bytes(buffer, bytes) }
            readv(file: c_int, vectors: *const iovec, count: c_int) -> isize, waits on file, {
                |loan| loan.vectors(vectors, count.max(0) as usize)
            }
            preadv(file: c_int, vectors: *const iovec, count: c_int, from: off_t) -> isize {
                |loan| loan.vectors(vectors, count.max(0) as usize)
            }
            preadv64(file: c_int, vectors: *const iovec, count: c_int, from: off_t) -> isize {
                |loan| loan.vectors(vectors, count.max(0) as usize)
            }
            preadv2(
                file: c_int, vectors: *const iovec, count: c_int, from: off_t, flags: c_int
            ) -> isize { |loan| loan.vectors(vectors, count.max(0) as usize) }
            preadv64v2(
                file: c_int, vectors: *const iovec, count: c_int, from: off_t, flags: c_int
            ) -> isize { |loan| loan.vectors(vectors, count.max(0) as usize) }
            recv(
                socket: c_int, buffer: *mut c_void, bytes: usize, flags: c_int
            ) -> isize, waits on socket, { |loan| loan.bytes(buffer, bytes) }
            __recv_chk(
                socket: c_int, buffer: *mut c_void, bytes: usize, room: usize, flags: c_int
            ) -> isize, waits on socket, { |loan| loan.bytes(buffer, bytes) }
            recvfrom(
                socket: c_int, buffer: *mut c_void, bytes: usize, flags: c_int,
                address: *mut c_void, length: *mut u32
            ) -> isize, waits on socket, {
                |loan| { loan.bytes(buffer, bytes); loan.socket_address(address, length) }
            }
            __recvfrom_chk(
                socket: c_int, buffer: *mut c_void, bytes: usize, room: usize, flags: c_int,
                address: *mut c_void, length: *mut u32
            ) -> isize, waits on socket, {
                |loan| { loan.bytes(buffer, bytes); loan.socket_address(address, length) }
            }
            recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> isize, waits on socket, {
                |loan| loan.message(message)
            }
            recvmmsg(
                socket: c_int, messages: *mut mmsghdr, count: u32, flags: c_int,
                limit: *mut timespec
            ) -> c_int, waits on socket, {
                |loan| {
                    loan.messages(messages, count as usize);
                    loan.bytes(limit, size_of::<timespec>());
                }
            }
            fread(buffer: *mut c_void, bytes: usize, count: usize, stream: *mut c_void) -> usize {
                |loan| loan.bytes(buffer, bytes.saturating_mul(count))
            }
            fread_unlocked(
                buffer: *mut c_void, bytes: usize, count: usize, stream: *mut c_void
            ) -> usize { |loan| loan.bytes(buffer, bytes.saturating_mul(count)) }
            __fread_chk(
                buffer: *mut c_void, room: usize, bytes: usize, count: usize, stream: *mut c_void
            ) -> usize { |loan| loan.bytes(buffer, bytes.saturating_mul(count)) }
            __fread_unlocked_chk(
                buffer: *mut c_void, room: usize, bytes: usize, count: usize, stream: *mut c_void
            ) -> usize { |loan| loan.bytes(buffer, bytes.saturating_mul(count)) }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::PAGE_BYTES;
    use crate::watch::Watch;
    use crate::watch::mprotect::Mprotect;

    #[test]
    fn more_pieces_than_a_loan_has_room_for_are_lent_as_one() {
        let (heap, range, mut watch) = Mprotect::of_new_pages(256);
        let mut written = || {
            let mut pages = 0;
            watch.take_written(&range, &mut |found| pages += found.len() / PAGE_BYTES).unwrap();
            pages
        };
        written();
        let pieces: Vec<libc::iovec> = (0..40)
            .map(|piece| libc::iovec {
                iov_base: heap.add(3 * piece * PAGE_BYTES).pointer(),
                iov_len: 8,
            })
            .collect();
        // SAFETY: a zeroed message has no address and no control data.
        let none = unsafe { core::mem::zeroed::<libc::msghdr>() };
        let message =
            libc::msghdr { msg_iov: pieces.as_ptr().cast_mut(), msg_iovlen: pieces.len(), ..none };
        let mut loan = Loan::new();
        // SAFETY: a message of ours, which is not in the watched range.
        unsafe { loan.message(&message) };
        loan.complete();
        // The last pieces with what lies between them.
        let lent = MOST - 1 + (39 - (MOST - 1)) * 3 + 1;
        assert_eq!([written(), written()], [lent, lent]);
        for piece in &pieces {
            // SAFETY: lent, so writable.
            unsafe { piece.iov_base.cast::<u64>().write_volatile(1) };
        }
        loan.take_back();
        assert_eq!([written(), written()], [lent, 0]);
    }
}
