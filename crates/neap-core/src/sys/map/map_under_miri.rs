//! Address ranges where miri runs the tests, which knows no mappings: each is an allocation of
//! Rust's, zeroed, whose address is exposed.
//!
//! Invariant: as `sys::map`'s, whose place this takes, as far as tests under miri go: all of a
//! range is committed from the start, and nothing is given back to a system. Called from any
//! thread.
//!
//! # Safety
//! An allocation is freed as a whole, with the layout that it was made with: [`release`] keeps what
//! it is asked to release in part.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed};
use std::sync::Mutex;

use crate::addr::{Address, PAGE_BYTES};
use rustix::io::Errno;

/// Start and bytes of what was allocated.
static RANGES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// The largest alignment that the compiler knows.
const MOST_ALIGNMENT: usize = 1 << 29;

/// Memory at a multiple of `alignment`.
pub fn reserve(bytes: usize, alignment: usize) -> Result<Address, Errno> {
    if alignment > MOST_ALIGNMENT {
        return Err(Errno::NOMEM);
    }
    let layout = Layout::from_size_align(bytes, alignment).map_err(|_| Errno::NOMEM)?;
    // SAFETY: no range of tests is empty.
    let start = unsafe { alloc_zeroed(layout) }.expose_provenance();
    RANGES.lock().unwrap().push((start, bytes));
    Ok(Address(start))
}

/// No place is to be had.
pub fn reserve_at(_: Address, _: usize) -> Result<Address, Errno> {
    Err(Errno::EXIST)
}

/// There are none.
///
/// # Safety
/// None is asked for.
pub unsafe fn install_guard(_: Address, _: usize) -> bool {
    false
}

/// There are none.
pub fn remove_guard(_: Address, _: usize) {}

/// Nothing can be protected.
///
/// # Safety
/// None is asked for.
pub unsafe fn forbid(_: Address, _: usize) -> bool {
    false
}

/// Everything is committed.
pub fn commit(_: Address, _: usize) -> Result<(), Errno> {
    Ok(())
}

/// The same.
pub fn commit_objects(_: Address, _: usize) -> Result<(), Errno> {
    Ok(())
}

/// Nothing can be executed.
pub fn set_executable(executable: bool) -> bool {
    !executable
}

/// There are no children.
pub fn clear_in_children(_: Address, _: usize) -> bool {
    false
}

/// All pages have memory.
pub fn populate(_: Address, _: usize) {}

/// Makes the range read as zero.
///
/// # Safety
/// Nobody needs what the range holds.
pub unsafe fn give_back(start: Address, bytes: usize) -> bool {
    // SAFETY: the contents are the caller's to drop.
    unsafe { start.pointer::<u8>().write_bytes(0, bytes) };
    true
}

/// There are none.
pub fn huge_pages(_: Address, _: usize) {}

/// All are.
pub fn small_pages(_: Address, _: usize) {}

/// New memory, zeroed.
pub fn allocate(bytes: usize) -> Result<Address, Errno> {
    reserve(bytes, PAGE_BYTES)
}

/// There are no children to share with.
pub fn allocate_shared(bytes: usize) -> Result<Address, Errno> {
    allocate(bytes)
}

/// Nothing can be protected.
pub fn set_writable(_: Address, _: usize, _: bool) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Not known.
pub fn most_mappings() -> Option<usize> {
    None
}

/// There are none.
pub fn set_huge_pages(_: Address, _: usize, _: bool) {}

/// All pages have memory.
pub fn fetch(_: Address, _: usize) {}

/// There are no huge pages.
pub fn collapse(_: Address, _: usize) -> bool {
    false
}

/// A copy in a larger range.
///
/// # Safety
/// The range is one of [`allocate`] as a whole, and nobody holds an address into it.
pub unsafe fn grow(start: Address, bytes: usize, new_bytes: usize) -> Result<Address, Errno> {
    let grown = allocate(new_bytes)?;
    // SAFETY: the caller's promise; the new range is another.
    unsafe { core::ptr::copy_nonoverlapping(start.pointer::<u8>(), grown.pointer(), bytes) };
    release(start, bytes);
    Ok(grown)
}

/// All of it.
pub fn resident_bytes(_: Address, bytes: usize, _: &mut [u8]) -> Option<usize> {
    Some(bytes)
}

/// Frees a range of ours as a whole.
pub fn release(start: Address, bytes: usize) {
    let mut ranges = RANGES.lock().unwrap();
    if let Some(index) = ranges.iter().position(|range| *range == (start.0, bytes)) {
        ranges.swap_remove(index);
    }
}

/// Mappings have no names.
pub fn name(_: Address, _: usize, _: &'static core::ffi::CStr) {}

/// There is none.
pub fn address_space_limit() -> Option<usize> {
    None
}
