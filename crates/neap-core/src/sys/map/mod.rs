//! Address ranges: reserving, committing, giving back; naming them in `/proc/self/maps`.
//!
//! Assumes: `mmap` of `PROT_NONE` with `MAP_NORESERVE` costs address space only (Linux);
//! `MADV_DONTNEED` on private anonymous memory makes it read as zero (Linux); naming is Linux ≥
//! 5.17 and its refusal is of no consequence. Called from any thread.
//!
//! # Safety
//!
//! System calls about address ranges. New mappings are made where the kernel likes and alias
//! nothing; for others the caller owns the range and gives its contents up, as each function's own
//! section says.

#![allow(unsafe_code)]

mod arena;

use crate::addr::{Address, PAGE_BYTES};
use crate::sys::files::descriptor::Descriptor;
use crate::sys::thread;
use core::sync::atomic::{AtomicBool, Ordering::*};
use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

/// Reserves `bytes` of address space that nothing can touch yet, at a multiple of `alignment`.
pub fn reserve(bytes: usize, alignment: usize) -> Result<Address, Errno> {
    // Mappings begin at a page anyway.
    let padded = bytes.checked_add(alignment - PAGE_BYTES).ok_or(Errno::NOMEM)?;
    // SAFETY: a new anonymous mapping where the kernel likes aliases nothing.
    let start = unsafe {
        mm::mmap_anonymous(
            core::ptr::null_mut(),
            padded,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }? as usize;
    let aligned = start.next_multiple_of(alignment);
    release(Address(start), aligned - start);
    release(Address(aligned + bytes), start + padded - aligned - bytes);
    Ok(Address(aligned))
}

/// The same at a place that is asked for, a multiple of the alignment, if nothing lies there.
pub fn reserve_at(place: Address, bytes: usize) -> Result<Address, Errno> {
    // SAFETY: nothing that is there is replaced.
    let start = unsafe {
        mm::mmap_anonymous(
            place.pointer(),
            bytes,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE,
        )
    }? as usize;
    if start != place.0 {
        // A kernel before Linux 4.17 takes the place for a hint.
        release(Address(start), bytes);
        return Err(Errno::EXIST);
    }
    Ok(place)
}

/// Makes part of a reservation readable and writable; fresh pages read as zero.
pub fn commit(start: Address, bytes: usize) -> Result<(), Errno> {
    // SAFETY: the caller names its own reservation; more access to it cannot break anybody's
    // reference.
    unsafe { mm::mprotect(start.pointer(), bytes, MprotectFlags::READ | MprotectFlags::WRITE) }
}

/// Whether the memory of objects is executable that is committed from now on. Set by front ends.
static EXECUTABLE: AtomicBool = AtomicBool::new(false);

/// Says so; false if the system refuses memory that is writable and executable.
pub fn set_executable(executable: bool) -> bool {
    if executable {
        let all = ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC;
        // SAFETY: a fresh mapping.
        let tried = unsafe {
            mm::mmap_anonymous(core::ptr::null_mut(), PAGE_BYTES, all, MapFlags::PRIVATE)
        };
        match tried {
            Ok(page) => release(Address(page as usize), PAGE_BYTES),
            Err(_) => return false,
        }
    }
    EXECUTABLE.store(executable, Relaxed);
    true
}

fn access_to_objects(writable: bool) -> MprotectFlags {
    let mut flags = MprotectFlags::READ;
    flags.set(MprotectFlags::WRITE, writable);
    flags.set(MprotectFlags::EXEC, EXECUTABLE.load(Relaxed));
    flags
}

/// As [`commit`], for memory of objects.
pub fn commit_objects(start: Address, bytes: usize) -> Result<(), Errno> {
    set_writable(start, bytes, true)
}

/// Has the system give pages their memory now, many for the price of one fault. Pages that have
/// theirs stay as they are; what is refused comes with the first touch (or not at all).
pub fn populate(start: Address, bytes: usize) {
    if bytes > 0 {
        // SAFETY: a mapping of ours; contents do not change.
        let _ = unsafe { mm::madvise(start.pointer(), bytes, Advice::LinuxPopulateWrite) };
    }
}

/// Gives the pages of a committed range back; it stays usable and reads as zero. False if the
/// system refuses, as it does for locked memory: then nothing has changed.
///
/// # Safety
/// Nobody needs what the range holds.
pub unsafe fn give_back(start: Address, bytes: usize) -> bool {
    // SAFETY: the contents are the caller's to drop.
    unsafe { mm::madvise(start.pointer(), bytes, Advice::LinuxDontNeed) }.is_ok()
}

/// Asks for huge pages over a range; refusal is of no consequence.
pub fn huge_pages(start: Address, bytes: usize) {
    // SAFETY: advice that does not change contents.
    let _ = unsafe { mm::madvise(start.pointer(), bytes, Advice::LinuxHugepage) };
}

/// Asks for ordinary pages over a range, now and later; huge ones that are there stay until they
/// are written after a `fork`, and are then divided. Refusal is of no consequence.
pub fn small_pages(start: Address, bytes: usize) {
    // SAFETY: advice that does not change contents.
    let _ = unsafe { mm::madvise(start.pointer(), bytes, Advice::LinuxNoHugepage) };
}

/// New committed memory, zeroed.
pub fn allocate(bytes: usize) -> Result<Address, Errno> {
    let piece = (bytes <= arena::LARGEST_BYTES).then(|| arena::cut(bytes)).flatten();
    piece.map_or_else(|| allocate_alone(bytes), Ok)
}

/// The same as a mapping of its own.
fn allocate_alone(bytes: usize) -> Result<Address, Errno> {
    // SAFETY: a new anonymous mapping where the kernel likes aliases nothing.
    unsafe {
        mm::mmap_anonymous(
            core::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }
    .map(|pointer| Address(pointer as usize))
}

/// New committed memory, zeroed, that a child of `fork` shares with this process. Pages are taken
/// as they are touched.
pub fn allocate_shared(bytes: usize) -> Result<Address, Errno> {
    // SAFETY: a new anonymous mapping where the kernel likes aliases nothing.
    unsafe {
        mm::mmap_anonymous(
            core::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::NORESERVE,
        )
    }
    .map(|pointer| Address(pointer as usize))
}

/// Makes committed pages of objects writable, or read-only.
pub fn set_writable(start: Address, bytes: usize, writable: bool) -> Result<(), Errno> {
    // SAFETY: the caller names its own memory, and handles the faults of writing to what is
    // read-only.
    unsafe { mm::mprotect(start.pointer(), bytes, access_to_objects(writable)) }
}

const MADV_GUARD_INSTALL: libc::c_int = 102;
const MADV_GUARD_REMOVE: libc::c_int = 103;

/// Has the pages be zeroed in a child of `fork`. False where the kernel cannot (before Linux 4.14).
pub fn clear_in_children(start: Address, bytes: usize) -> bool {
    // SAFETY: changes nothing here; the caller names its own memory.
    unsafe { libc::madvise(start.pointer(), bytes, libc::MADV_WIPEONFORK) == 0 }
}

/// Has every access to committed pages end in SIGSEGV, whatever else is done with them, until
/// [`remove_guard`]; what they held is lost. False where the kernel cannot (before Linux 6.13).
///
/// # Safety
/// Nobody needs what the range holds, or touches it.
pub unsafe fn install_guard(start: Address, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(start.pointer(), bytes, MADV_GUARD_INSTALL) == 0 }
}

/// The pages can be used again, and read as zero.
pub fn remove_guard(start: Address, bytes: usize) {
    // SAFETY: there was nothing.
    unsafe { libc::madvise(start.pointer(), bytes, MADV_GUARD_REMOVE) };
}

/// Makes committed pages inaccessible until they are committed again. False if the system refuses.
///
/// # Safety
/// As for [`install_guard`].
pub unsafe fn forbid(start: Address, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { mm::mprotect(start.pointer(), bytes, MprotectFlags::empty()) }.is_ok()
}

/// Mappings that the kernel allows a process.
pub fn most_mappings() -> Option<usize> {
    let mut text = [0_u8; 32];
    let path = c"/proc/sys/vm/max_map_count";
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let file = Descriptor::new(rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()?);
    let length = rustix::io::read(&file, &mut text).ok()?;
    core::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
}

/// Asks for huge pages over a range, or for none.
pub fn set_huge_pages(start: Address, bytes: usize, huge: bool) {
    let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
    // SAFETY: advice that does not change contents.
    let _ = unsafe { mm::madvise(start.pointer(), bytes, advice) };
}

/// Has the system give the memory of committed pages now, as far as it likes, so that touching them
/// does not wait for it.
pub fn fetch(start: Address, bytes: usize) {
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    // SAFETY: advice that does not change contents; a kernel that does not know it says so.
    unsafe { libc::syscall(libc::SYS_madvise, start.0, bytes, MADV_POPULATE_WRITE) };
}

/// Makes one huge page of the small ones that a range of a huge page's size and place has come to
/// consist of. False if this kernel cannot (before Linux 6.1), or never does for this range; that
/// it finds no memory now is of no consequence.
pub fn collapse(start: Address, bytes: usize) -> bool {
    const MADV_COLLAPSE: libc::c_int = 25;
    // SAFETY: advice that does not change contents.
    let refused = unsafe { libc::syscall(libc::SYS_madvise, start.0, bytes, MADV_COLLAPSE) } != 0;
    // SAFETY: errno is this thread's.
    !refused || unsafe { *libc::__errno_location() } != libc::EINVAL
}

/// Grows what [`allocate`] gave, moving it where it must.
///
/// # Safety
/// The range is that as a whole, and nobody holds an address into it.
pub unsafe fn grow(start: Address, bytes: usize, new_bytes: usize) -> Result<Address, Errno> {
    if cfg!(thread_sanitizer) {
        // It sees what the C library maps and unmaps, and nothing that moves: whose the old place
        // is next would race with who left it.
        let moved = allocate(new_bytes)?;
        let (from, to) = (start.pointer::<u8>(), moved.pointer::<u8>());
        // SAFETY: both are mapped, and the new one is at least as long and nobody's yet.
        unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) };
        release(start, bytes);
        return Ok(moved);
    }
    // SAFETY: the caller's promise.
    unsafe { mm::mremap(start.pointer(), bytes, new_bytes, mm::MremapFlags::MAYMOVE) }
        .map(|pointer| Address(pointer as usize))
}

/// How many bytes of a mapped range hold memory now, in whole pages; `vector` is room for a byte a
/// page, of as many pages as are asked about at once. None if the system does not say.
pub fn resident_bytes(start: Address, bytes: usize, vector: &mut [u8]) -> Option<usize> {
    let mut resident = 0;
    for from in (0..bytes).step_by(vector.len() * PAGE_BYTES) {
        let piece = (bytes - from).min(vector.len() * PAGE_BYTES);
        // SAFETY: the vector has a byte for each page of the piece; the range is only asked about.
        let answered =
            unsafe { libc::mincore(start.add(from).pointer(), piece, vector.as_mut_ptr()) };
        if answered != 0 {
            return None;
        }
        let pages = &vector[..piece.div_ceil(PAGE_BYTES)];
        resident += pages.iter().filter(|page| **page & 1 != 0).count() * PAGE_BYTES;
    }
    Some(resident)
}

/// How much address space the process may have (`RLIMIT_AS`); None for no limit.
pub fn address_space_limit() -> Option<usize> {
    thread::limit(libc::RLIMIT_AS).map(|limit| limit as usize)
}

/// Unmaps a range of ours; an empty one is allowed.
pub fn release(start: Address, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the range is ours and its owner gives it up by calling this.
        let _ = unsafe { mm::munmap(start.pointer(), bytes) };
    }
}

/// Names a mapping for `/proc/self/maps`, where the kernel can.
pub fn name(start: Address, bytes: usize, name: &'static core::ffi::CStr) {
    const PR_SET_VMA: usize = 0x5356_4d41;
    static REFUSED: AtomicBool = AtomicBool::new(false);
    if REFUSED.load(Relaxed) {
        return;
    }
    // SAFETY: a prctl that only labels the range; `name` is NUL-terminated and lives for ever.
    let result = unsafe {
        libc::syscall(libc::SYS_prctl, PR_SET_VMA, 0usize, start.0, bytes, name.as_ptr())
    };
    REFUSED.store(result != 0, Relaxed);
}

/// Whether a byte can be read: the kernel says so without a signal.
#[cfg(all(test, not(miri)))]
pub fn is_readable(address: Address) -> bool {
    let (_reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: the kernel reads the byte, or refuses.
    let bytes = unsafe { core::slice::from_raw_parts(address.pointer::<u8>(), 1) };
    match std::io::Write::write(&mut writer, bytes) {
        Ok(written) => written == 1,
        Err(refused) => {
            assert_eq!(refused.raw_os_error(), Some(libc::EFAULT));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_memory_is_aligned_and_zero_once_committed() {
        let start = reserve(1 << 22, 1 << 21).unwrap();
        assert_eq!(start.0 % (1 << 21), 0);
        commit(start, 4096).unwrap();
        // SAFETY: just committed.
        unsafe {
            assert_eq!(*start.pointer::<u64>(), 0);
            *start.pointer::<u64>() = 7;
            assert!(give_back(start, 4096));
            assert_eq!(*start.pointer::<u64>(), 0);
        }
        release(start, 1 << 22);
    }

    #[test]
    fn touched_pages_are_counted() {
        let start = reserve(1 << 22, 1 << 21).unwrap();
        commit(start, 1 << 22).unwrap();
        let mut vector = [0; 100];
        assert_eq!(resident_bytes(start, 1 << 22, &mut vector), Some(0));
        for page in [0, 5, 99, 100, 1023] {
            // SAFETY: committed, and nobody else's.
            unsafe { *start.add(page * PAGE_BYTES).pointer::<u8>() = 1 };
        }
        assert_eq!(resident_bytes(start, 1 << 22, &mut vector), Some(5 * PAGE_BYTES));
        release(start, 1 << 22);
        assert_eq!(resident_bytes(start, 1 << 22, &mut vector), None);
    }

    #[test]
    fn a_place_that_is_taken_is_refused() {
        let start = reserve(1 << 22, 1 << 21).unwrap();
        assert!(reserve_at(start, 1 << 21).is_err());
        release(start, 1 << 22);
        assert_eq!(reserve_at(start, 1 << 21), Ok(start));
        release(start, 1 << 21);
    }

    #[test]
    fn an_absurd_reservation_is_refused() {
        assert!(reserve(usize::MAX - 4096, 1 << 21).is_err());
        assert!(reserve(1 << 62, 1 << 21).is_err());
    }
}
