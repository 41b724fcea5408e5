//! `pwrite` and `write` to the process's own memory (`/proc/self/mem`), for front ends to export in
//! libc's stead: the kernel writes there past the protection of pages. Under the `snapshot` watch
//! it gives up with EIO where a program's store would wait; under `mprotect` it writes without a
//! fault.
//!
//! Invariant: each does what libc's does as far as the program can see; only a call whose place is
//! an address in the heap is looked at, and hardly any other file is that long. Called by program
//! threads, also in their signal handlers.
//!
//! # Safety
//!
//! libc's functions are called with what the caller gave. Pages are touched without changing them,
//! and only where the heap has memory that can be written.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::errno::{error, set_error};
use super::kernel_writes::{LibcFunction, Loan, has_to_lend};
use crate::addr::PAGE_BYTES;
use crate::heap::HEAP;

/// pwrite(2).
pub type Pwrite = unsafe extern "C" fn(c_int, *const c_void, usize, libc::off_t) -> isize;
// SAFETY: libc's functions of these names have this type.
static PWRITE: LibcFunction<Pwrite> = unsafe { LibcFunction::named("pwrite\0") };

/// Finds libc's function, when the library is loaded.
pub fn find() {
    PWRITE.find();
}

/// As pwrite(2).
///
/// # Safety
/// As pwrite(2).
pub unsafe fn pwrite(file: c_int, from: *const c_void, bytes: usize, place: libc::off_t) -> isize {
    // SAFETY: the caller's promise.
    let call = || unsafe { PWRITE.get()(file, from, bytes, place) };
    if has_heap(&range(place, bytes)) { into_heap(range(place, bytes), call) } else { call() }
}

/// A write at the file's position, by `call`.
pub fn write_at_position(file: c_int, bytes: usize, mut call: impl FnMut() -> isize) -> isize {
    let result = if has_to_lend() { -1 } else { call() };
    if result >= 0 || (!has_to_lend() && error() != libc::EIO) {
        return result;
    }
    let before = error();
    // SAFETY: any descriptor will do; what has no position has none in the heap.
    let place = range(unsafe { libc::lseek(file, 0, libc::SEEK_CUR) }, bytes);
    set_error(before);
    match (has_heap(&place), has_to_lend()) {
        (true, _) => into_heap(place, call),
        (false, true) => call(),
        (false, false) => result,
    }
}

fn range(place: libc::off_t, bytes: usize) -> Range<usize> {
    place.max(0) as usize..(place.max(0) as usize).saturating_add(bytes)
}

fn has_heap(place: &Range<usize>) -> bool {
    !place.is_empty() && (HEAP.contains(place.start) || HEAP.contains(place.end - 1))
}

/// How often a page that is protected again and again is let go before the refusal is passed on.
/// More than the cycles that may begin meanwhile.
const TRIES: usize = 100;

#[cold]
fn into_heap(place: Range<usize>, mut call: impl FnMut() -> isize) -> isize {
    let mut loan = Loan::new();
    loan.bytes(place.start as *const u8, place.len());
    loan.complete();
    let mut result = call();
    for _ in 0..TRIES {
        if result >= 0 || error() != libc::EIO {
            break;
        }
        touch(&place);
        result = call();
    }
    loan.take_back();
    result
}

/// Stores to each page as the program would, without changing it: waits until it was kept.
fn touch(place: &Range<usize>) {
    for page in (place.start & !(PAGE_BYTES - 1)..place.end).step_by(PAGE_BYTES) {
        if HEAP.contains(page) {
            // SAFETY: the heap's memory can be written as far as it is committed, and stays so.
            let byte = unsafe { &*(page as *const AtomicU8) };
            let value = byte.load(Relaxed);
            // Not an operation that the compiler may turn into a load.
            let _ = byte.compare_exchange(value, value, Relaxed, Relaxed);
        }
    }
}

/// Defines libc's functions that write at a place. In a library that programs load before libc,
/// once.
#[macro_export]
macro_rules! process_memory {
    () => {
        use core::ffi::{c_int, c_void};

        $crate::process_memory!(pwrite);
        $crate::process_memory!(pwrite64);
    };
    ($name:ident) => {
        #[doc = concat!("As libc's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            file: c_int,
            from: *const c_void,
            bytes: usize,
            place: libc::off_t,
        ) -> isize {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::process_memory::pwrite(file, from, bytes, place) }
        }
    };
}
