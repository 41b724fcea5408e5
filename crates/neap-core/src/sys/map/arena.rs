//! Small mappings, cut from larger ones: a start wants a dozen, and each by itself is a system
//! call. A piece is its owner's as a mapping of its own is, to be grown or unmapped alone.
//!
//! Invariant: [`FREE`] says all there is to say about what is free, so who exchanges it owns what
//! the new word has less. A piece is never given back to it. Lock-free; called from any thread, in
//! a signal handler and with the world stopped.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{allocate_alone, release};
use crate::addr::{Address, PAGE_BYTES};

/// Mapped at once, and taken from memory as it is touched. Larger: fewer calls; smaller: nothing
/// that could become a huge page.
const ARENA_BYTES: usize = 512 << 10;
/// The largest piece. Larger: fewer calls; smaller: less is left over where the next piece does not
/// fit.
pub const LARGEST_BYTES: usize = 128 << 10;

/// Where the free pages begin, and in the bits below a page's how many there are.
static FREE: AtomicUsize = AtomicUsize::new(0);

/// Zeroed pages for so many bytes, [`LARGEST_BYTES`] at most. None where the system refuses.
pub fn cut(bytes: usize) -> Option<Address> {
    let wanted = bytes.div_ceil(PAGE_BYTES);
    loop {
        let free = FREE.load(Relaxed);
        let (start, pages) = (free & !(PAGE_BYTES - 1), free % PAGE_BYTES);
        if wanted <= pages {
            if exchange(free, start, wanted, pages) {
                return Some(Address(start));
            }
            continue;
        }
        let fresh = allocate_alone(ARENA_BYTES).ok()?;
        if exchange(free, fresh.0, wanted, ARENA_BYTES / PAGE_BYTES) {
            release(Address(start), pages * PAGE_BYTES);
            return Some(fresh);
        }
        // Another thread was first.
        release(fresh, ARENA_BYTES);
    }
}

/// Leaves free what follows the first `wanted` of `pages`, if `free` is still what is free.
fn exchange(free: usize, start: usize, wanted: usize, pages: usize) -> bool {
    let left = (start + wanted * PAGE_BYTES) | (pages - wanted);
    FREE.compare_exchange(free, left, Relaxed, Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_apart_and_unmapped_alone() {
        let cut_many =
            || (1..60).map(|pages| (cut(pages % 32 * 4096 + 1).unwrap(), pages % 32 + 1));
        let threads = [(); 4].map(|()| std::thread::spawn(move || cut_many().collect::<Vec<_>>()));
        let mut pieces: Vec<_> = threads.into_iter().flat_map(|it| it.join().unwrap()).collect();
        pieces.sort();
        for pair in pieces.windows(2) {
            assert!(pair[0].0.add(pair[0].1 * PAGE_BYTES) <= pair[1].0);
        }
        for (start, pages) in &pieces {
            // SAFETY: the piece is ours.
            let bytes = unsafe {
                core::slice::from_raw_parts_mut(start.pointer::<u8>(), pages * PAGE_BYTES)
            };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
        }
        for (start, pages) in pieces.iter().step_by(2) {
            release(*start, pages * PAGE_BYTES);
        }
        for (start, pages) in pieces.iter().skip(1).step_by(2) {
            // SAFETY: still ours.
            assert_eq!(unsafe { *start.add(pages * PAGE_BYTES - 1).pointer::<u8>() }, 7);
            // SAFETY: it is grown as a whole, and nobody has its address.
            let moved = unsafe { super::super::grow(*start, pages * PAGE_BYTES, 1 << 20) }.unwrap();
            // SAFETY: what was grown is ours.
            assert_eq!(unsafe { *moved.pointer::<u8>() }, 7);
            release(moved, 1 << 20);
        }
    }
}
