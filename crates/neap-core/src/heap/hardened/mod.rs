//! A heap that is harder to attack (`NEAP_HARDEN`): where it lies cannot be guessed, who writes
//! past a large object or out of a chunk meets pages that nobody may touch, and what the program
//! freed is filled and looked at again before it is used ([`quarantine`]).
//!
//! Invariant `[heap.inv.guard-pages]`: the pages of a large object's block behind its cell are
//! guarded from when the block is formed until it is dissolved or resized, and hold nothing. Where
//! the system refuses one it is missing, and nothing else changes. Under the heap's lock, but for
//! [`Heap::harden`], which is called at start-up.
//!
//! # Safety
//! Takes access to pages of a block that lie behind its only object.

#![allow(unsafe_code)]

pub mod quarantine;

use core::sync::atomic::Ordering::*;

use super::Heap;
use crate::addr::{Address, CHUNK_BYTES, CHUNK_FRAMES, FRAME_BYTES, Frame, PAGE_BYTES};
use crate::heap::frames::Guards;
use crate::sys::map;
use crate::sys::process::{instruments, random};

/// How pages are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GuardPages {
    /// Not at all.
    No = 0,
    /// By advice to the kernel, which costs no mapping.
    Advice = 1,
    /// By their protection, which divides the mapping.
    Protection = 2,
}

/// Where a heap may come to lie: between the program and its libraries and stacks.
const PLACES: core::ops::Range<usize> = 0x1000_0000_0000..0x5000_0000_0000;
/// So many places are tried before the kernel chooses.
const TRIES: usize = 8;
/// The heap's first object lies below so many frames.
const FIRST_FRAMES: usize = CHUNK_FRAMES / 2;
/// Further chunks have no guards of their own: each costs two of the mappings that a process may
/// have, mostly 65,530.
const MOST_GUARDED_CHUNKS: usize = 8192;

/// Bytes that nobody may touch before, between and behind the parts of the heap's metadata.
pub const METADATA_GUARD_BYTES: usize = PAGE_BYTES;

impl Heap {
    /// Has what is reserved and allocated from now on be hardened; a watch that changes the
    /// protection of pages goes with `Protection` for none. Says how large objects are guarded.
    pub fn harden(&self, changes_protection: bool) -> GuardPages {
        let how = if kernel_has_guards() {
            GuardPages::Advice
        } else if changes_protection {
            GuardPages::No
        } else {
            GuardPages::Protection
        };
        self.state.guard_pages.store(how as u8, Relaxed);
        self.state.hardened.store(true, Relaxed);
        how
    }

    /// Whether [`Heap::harden`] was called.
    #[inline(always)]
    pub fn is_hardened(&self) -> bool {
        self.state.hardened.load(Relaxed)
    }

    /// Reserves address space, somewhere if the heap is hardened and no sanitizer minds.
    pub(super) fn reserve_somewhere(&self, bytes: usize) -> Result<Address, rustix::io::Errno> {
        let places = (PLACES.end - PLACES.start).saturating_sub(bytes) / CHUNK_BYTES;
        if self.is_hardened() && !instruments::divide_address_space() {
            for _ in 0..TRIES {
                let place = PLACES.start + random::below(places) * CHUNK_BYTES;
                if let Ok(start) = map::reserve_at(Address(place), bytes) {
                    return Ok(start);
                }
            }
        }
        map::reserve(bytes, CHUNK_BYTES)
    }

    /// The guards of the next chunk, which is to have objects of `frames` frames.
    pub(super) fn guards_of_next_chunk(&self, chunks: usize, frames: usize) -> Guards {
        if !self.is_hardened() || chunks >= MOST_GUARDED_CHUNKS || frames >= CHUNK_FRAMES {
            return Guards::default();
        }
        Guards { first: if chunks == 0 { random::below(FIRST_FRAMES) } else { 0 }, last: 1 }
    }

    /// Frames of a block for a large object of so many bytes, a page behind it included where the
    /// heap is hardened.
    pub fn frames_of_large(&self, cell_bytes: usize) -> usize {
        let guard = if self.is_hardened() { PAGE_BYTES } else { 0 };
        cell_bytes.saturating_add(guard).div_ceil(FRAME_BYTES)
    }

    /// Guards what lies behind a large object in its block.
    pub fn guard_large(&self, block: Frame) {
        let (how, (start, bytes)) = (self.guard_pages(), self.behind_large(block));
        // SAFETY: pages of a block whose only object ends before them.
        let _ = unsafe {
            match how {
                GuardPages::No => true,
                GuardPages::Advice => map::install_guard(start, bytes),
                GuardPages::Protection => map::forbid(start, bytes),
            }
        };
    }

    /// The opposite; before the block is dissolved, or its object gets another size.
    pub fn unguard_large(&self, block: Frame) {
        let (how, (start, bytes)) = (self.guard_pages(), self.behind_large(block));
        match how {
            GuardPages::No => {}
            GuardPages::Advice => map::remove_guard(start, bytes),
            // What cannot be had back would be met by the next object there: the mappings that this
            // joins are fewer than before, so it is not refused for want of any.
            GuardPages::Protection => map::commit_objects(start, bytes).expect("a mapping less"),
        }
    }

    fn behind_large(&self, block: Frame) -> (Address, usize) {
        let header = self.header(block);
        let bytes = header.cell_bytes();
        (self.address(block).add(bytes), header.span() as usize * FRAME_BYTES - bytes)
    }

    fn guard_pages(&self) -> GuardPages {
        match self.state.guard_pages.load(Relaxed) {
            1 => GuardPages::Advice,
            2 => GuardPages::Protection,
            _ => GuardPages::No,
        }
    }
}

fn kernel_has_guards() -> bool {
    let Ok(page) = map::allocate(PAGE_BYTES) else { return false };
    // SAFETY: just mapped, and released untouched.
    let has = unsafe { map::install_guard(page, PAGE_BYTES) };
    map::release(page, PAGE_BYTES);
    has
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::heap::kind::Scan;
    use crate::sys::map::is_readable;

    fn hardened() -> Heap {
        let heap = Heap::new();
        assert_ne!(heap.harden(false), GuardPages::No);
        heap.reserve(64 << 20).unwrap();
        heap
    }

    #[test]
    fn chunks_and_metadata_end_at_guards_and_places_differ() {
        let (heap, other) = (hardened(), hardened());
        assert_ne!(heap.base(), other.base());
        assert!(PLACES.contains(&heap.base().0) || instruments::divide_address_space());
        let mut inner = heap.inner();
        // As many as fit into two chunks, less what is guarded.
        let mut frames = 0;
        while heap.committed() <= 2 * CHUNK_BYTES {
            heap.take_frames(&mut inner, 1, Scan::Leaf, true).unwrap();
            frames += 1;
        }
        assert!((2 * CHUNK_FRAMES - FIRST_FRAMES - 1..2 * CHUNK_FRAMES).contains(&frames));
        for chunk in 1..=2 {
            let end = heap.base().add(chunk * CHUNK_BYTES);
            assert!(!is_readable(Address(end.0 - 1)) && !is_readable(Address(end.0 - FRAME_BYTES)));
            assert!(is_readable(Address(end.0 - FRAME_BYTES - 1)));
        }
        for part in [&heap.headers, &heap.bits, &heap.marked_blocks, &heap.block_offsets] {
            let start = part.load(Relaxed);
            assert!(is_readable(Address(start)) && !is_readable(Address(start - 1)));
        }
        // What takes whole chunks finds room too.
        for frames in [CHUNK_FRAMES - 1, CHUNK_FRAMES, 3 * CHUNK_FRAMES + 1] {
            heap.take_frames(&mut inner, frames, Scan::Leaf, true).unwrap();
        }
    }
}
