//! Which granules are further ones of a block, and where it begins: a word for each granule. Side
//! by side, so that making and ending a large object touches one cache line of them and not a
//! header for every granule.
//!
//! Invariant `[heap.inv.further]`: a granule's word is how many granules before it its block
//! begins; 0 for first granules and free ones. Written under the heap's lock; a block's words
//! before its header says that there is a block, and cleared after the header says that there is
//! none. Read at any time.
//!
//! # Safety
//!
//! Makes a reference to a granule's word. Words of committed granules are mapped, valid when zeroed
//! and never unmapped, and they are atomics.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::*};

use super::header::Header;
use crate::addr::{CHUNK_GRANULES, Granule};
use crate::heap::Heap;

/// Bytes of a granule's word.
pub(in crate::heap) const BYTES: usize = size_of::<AtomicU32>();
/// Bytes of words for a chunk.
pub(in crate::heap) const BYTES_PER_CHUNK: usize = CHUNK_GRANULES * BYTES;

/// The words of all granules, outside the heap.
#[derive(Clone, Copy)]
pub(in crate::heap) struct Further(pub(in crate::heap) usize);

impl Further {
    #[inline(always)]
    fn word(self, granule: Granule) -> &'static AtomicU32 {
        // SAFETY: the words of committed granules are mapped, valid when zeroed, and never
        // unmapped.
        unsafe { &*(self.0 as *const AtomicU32).add(granule.0 as usize) }
    }

    /// Where its word lies, to prefetch it.
    pub(in crate::heap) fn address_of(self, granule: Granule) -> *const AtomicU32 {
        (self.0 as *const AtomicU32).wrapping_add(granule.0 as usize)
    }

    /// The granule itself, or the first one of the block that it is a further one of.
    #[inline(always)]
    pub(in crate::heap) fn first(self, granule: Granule) -> Granule {
        Granule(granule.0 - self.word(granule).load(Acquire))
    }
}

impl Heap {
    fn further(&self) -> Further {
        Further(self.further.load(Relaxed))
    }

    /// The first granule of the block that a granule belongs to, or the granule itself, and that
    /// one's header.
    pub fn block_of(&self, granule: Granule) -> (Granule, &Header) {
        let first = self.further().first(granule);
        (first, self.header(first))
    }

    /// The granules `places`, counted from `first`, belong to its block from now on.
    pub fn join(&self, first: Granule, places: Range<usize>) {
        for place in places {
            self.further().word(first.add(place)).store(place as u32, Release);
        }
    }

    /// They belong to no block any more.
    pub fn part(&self, first: Granule, places: Range<usize>) {
        for place in places {
            self.further().word(first.add(place)).store(0, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::Kind;

    #[test]
    fn every_granule_leads_to_the_first_of_its_block() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        let (large, _) = inner.large_block(&heap, Kind::Leaf, NO_LAYOUT, 5_000_000, true).unwrap();
        let count = heap.header(large).span() as usize;
        assert!(count > CHUNK_GRANULES);
        assert!((0..count).all(|place| heap.block_of(large.add(place)).0 == large));
        assert_eq!(heap.block_of(large.add(count)).0, large.add(count));
        heap.dissolve_block(&mut inner, large);
        assert!((0..count).all(|place| heap.block_of(large.add(place)).0 == large.add(place)));
    }
}
