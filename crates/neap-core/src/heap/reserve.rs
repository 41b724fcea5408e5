//! Reserving the heap's range and its metadata: 1 TiB, halved until the system agrees.
//!
//! Invariant: the range and its metadata are reserved together or not at all, and what of them is
//! committed stays for the life of the process. Called once at start-up, and where the program gets
//! less address space.

use core::sync::atomic::Ordering::*;

use super::Heap;
use super::bits::BITS_BYTES;
use super::blocks::header::Header;
use super::blocks::{block_offsets, marked_blocks};
use super::hardened::METADATA_GUARD_BYTES;
use crate::addr::{Address, CHUNK_BYTES, CHUNK_FRAMES, PAGE_BYTES};
use crate::sys::map;
use rustix::io::Errno;

/// What is tried first.
const LARGEST: usize = 1 << 40;
/// Programs that keep no more than 32 bits of a word take a pointer for a small number where these
/// bits say so: `[heap.why.low-bits]`.
const SHORT_WORD: usize = 1 << 32;
/// Below this a heap is of no use.
const SMALLEST: usize = 4 * CHUNK_BYTES;
const HEADERS_PER_CHUNK: usize = CHUNK_FRAMES * size_of::<Header>();
const BITS_PER_CHUNK: usize = CHUNK_FRAMES * BITS_BYTES;
const _: () = assert!(
    HEADERS_PER_CHUNK.is_multiple_of(PAGE_BYTES) && BITS_PER_CHUNK.is_multiple_of(PAGE_BYTES)
);

/// Where the parts of the metadata for a range of so many bytes begin, and where the last ends;
/// each begins at a page. Before, between and behind them lie pages that are never committed.
fn metadata_parts(range: usize) -> [usize; 5] {
    let chunks = range / CHUNK_BYTES;
    let mut next = METADATA_GUARD_BYTES;
    [
        HEADERS_PER_CHUNK,
        BITS_PER_CHUNK,
        marked_blocks::BYTES_PER_CHUNK,
        block_offsets::BYTES_PER_CHUNK,
        0,
    ]
    .map(|bytes| {
        let begin = next;
        next += (chunks * bytes).next_multiple_of(PAGE_BYTES) + METADATA_GUARD_BYTES;
        begin
    })
}

impl Heap {
    /// Reserves at most `wanted` bytes (0: as much as the system gives) and metadata for them.
    pub fn reserve(&self, wanted: usize) -> Result<(), Errno> {
        let mut bytes = if wanted == 0 { LARGEST } else { wanted.clamp(SMALLEST, LARGEST) };
        // RLIMIT_AS counts reserved space too: leave the program at least half of it.
        if let Some(limit) = map::address_space_limit() {
            bytes = bytes.min(limit / 2);
        }
        bytes = bytes.next_multiple_of(CHUNK_BYTES);
        loop {
            match self.reserve_exactly(bytes) {
                Err(error) if bytes / 2 < SMALLEST => return Err(error),
                Err(_) => bytes = (bytes / 2).next_multiple_of(CHUNK_BYTES),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn reserve_exactly(&self, bytes: usize) -> Result<(), Errno> {
        let [headers, bits, marked_blocks, block_offsets, metadata_bytes] = metadata_parts(bytes);
        let base = self.reserve_range(bytes)?;
        let metadata =
            self.reserve_somewhere(metadata_bytes).inspect_err(|_| map::release(base, bytes))?;
        map::name(base, bytes, c"neap heap");
        map::name(metadata, metadata_bytes, c"neap metadata");
        self.headers.store(metadata.0 + headers, Relaxed);
        self.bits.store(metadata.0 + bits, Relaxed);
        self.marked_blocks.store(metadata.0 + marked_blocks, Relaxed);
        self.block_offsets.store(metadata.0 + block_offsets, Relaxed);
        self.reserved.store(bytes, Relaxed);
        self.laid_out_for.store(bytes, Relaxed);
        self.base.store(base.0, Release);
        Ok(())
    }

    /// Just behind a multiple of 4 GiB, if the heap need not be at a random place and if there is
    /// room.
    fn reserve_range(&self, bytes: usize) -> Result<Address, Errno> {
        if !self.is_hardened()
            && let Ok(before) = map::reserve(CHUNK_BYTES + bytes, SHORT_WORD)
        {
            return Ok(before.add(CHUNK_BYTES));
        }
        self.reserve_somewhere(bytes)
    }

    /// Makes the metadata of the chunk at `offset` usable.
    pub(super) fn commit_metadata(&self, offset: usize) -> Result<(), Errno> {
        let chunk = offset / CHUNK_BYTES;
        map::commit(
            Address(self.headers.load(Relaxed) + chunk * HEADERS_PER_CHUNK),
            HEADERS_PER_CHUNK,
        )?;
        map::commit(Address(self.bits.load(Relaxed) + chunk * BITS_PER_CHUNK), BITS_PER_CHUNK)?;
        // What a chunk has less than a page of is committed with the first chunk that begins a
        // page.
        for (start, bytes) in [
            (&self.marked_blocks, marked_blocks::BYTES_PER_CHUNK),
            (&self.block_offsets, block_offsets::BYTES_PER_CHUNK),
        ] {
            if (chunk * bytes).is_multiple_of(PAGE_BYTES) {
                map::commit(Address(start.load(Relaxed) + chunk * bytes), PAGE_BYTES)?;
            }
        }
        Ok(())
    }

    /// Gives the bits of a chunk back that holds nothing: a block that is formed there clears its
    /// own before they are looked at. Under the lock.
    pub(super) fn clean_bits(&self, chunk: usize) {
        let bits = Address(self.bits.load(Relaxed) + chunk * BITS_PER_CHUNK);
        // SAFETY: no block, no bits. If the system refuses, they stay as they are.
        let _ = unsafe { map::give_back(bits, BITS_PER_CHUNK) };
    }

    /// Gives back what is reserved beyond so many bytes, or beyond what is committed, with its
    /// metadata. Outside the heap's lock.
    pub fn shrink_reservation(&self, wanted: usize) {
        let _committing = self.inner();
        let old = self.reserved();
        let kept = wanted.next_multiple_of(CHUNK_BYTES).max(self.committed());
        if kept >= old {
            return;
        }
        self.reserved.store(kept, Relaxed);
        map::release(self.base().add(kept), old - kept);
        for (start, bytes) in [
            (&self.headers, HEADERS_PER_CHUNK),
            (&self.bits, BITS_PER_CHUNK),
            (&self.marked_blocks, marked_blocks::BYTES_PER_CHUNK),
            (&self.block_offsets, block_offsets::BYTES_PER_CHUNK),
        ] {
            let end = |range: usize| (range / CHUNK_BYTES * bytes).next_multiple_of(PAGE_BYTES);
            let first = end(kept) + METADATA_GUARD_BYTES;
            map::release(Address(start.load(Relaxed) + first), end(old).saturating_sub(first));
        }
    }

    /// Bytes of the reservation.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Relaxed)
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let reserved = self.reserved();
        if reserved == 0 {
            return;
        }
        map::release(self.base(), reserved);
        let [headers, .., bytes] = metadata_parts(self.laid_out_for.load(Relaxed));
        map::release(Address(self.headers.load(Relaxed) - headers), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::kind::Scan;

    #[test]
    #[cfg(not(miri))]
    fn what_is_committed_stays_when_address_space_is_given_back() {
        let heap = Heap::new();
        heap.reserve(64 * CHUNK_BYTES).unwrap();
        let mut inner = heap.inner();
        (0..3).for_each(|_| heap.commit_chunk(&mut inner, 1).unwrap());
        drop(inner);
        heap.shrink_reservation(65 * CHUNK_BYTES);
        assert_eq!(heap.reserved(), 64 * CHUNK_BYTES);
        heap.shrink_reservation(6 * CHUNK_BYTES - 1);
        assert_eq!(heap.reserved(), 6 * CHUNK_BYTES);
        let beyond = heap.base().add(6 * CHUNK_BYTES);
        assert_eq!(map::reserve_at(beyond, CHUNK_BYTES), Ok(beyond), "it is free");
        map::release(beyond, CHUNK_BYTES);
        heap.shrink_reservation(0);
        let mut inner = heap.inner();
        assert_eq!(heap.commit_chunk(&mut inner, 1), Err(crate::heap::Refused::System));
        drop(inner);
        assert!(map::is_readable(Address(heap.base().0 + 3 * CHUNK_BYTES - 1)));
        heap.verify().unwrap();
    }

    #[test]
    fn a_heap_is_reserved_and_its_chunks_committed_one_by_one() {
        let heap = Heap::new();
        heap.reserve(0).unwrap();
        assert!(heap.reserved() >= SMALLEST && heap.base().0.is_multiple_of(CHUNK_BYTES));
        let mut inner = heap.inner();
        heap.commit_chunk(&mut inner, 1).unwrap();
        heap.commit_chunk(&mut inner, 1).unwrap();
        assert_eq!(heap.committed(), 2 * CHUNK_BYTES);
        // SAFETY: the last byte of the second committed chunk.
        unsafe { *heap.base().add(2 * CHUNK_BYTES - 1).pointer::<u8>() = 1 };
    }

    #[test]
    fn the_low_half_of_an_address_is_never_a_small_number() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        assert_eq!(heap.base().0 % SHORT_WORD, CHUNK_BYTES);
    }

    #[test]
    fn a_request_that_the_reservation_has_no_room_for_commits_nothing() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        let frames = heap.reserved() / crate::addr::FRAME_BYTES;
        let wanted = |inner: &mut _, count| heap.take_frames(inner, count, Scan::Leaf, true);
        assert!(wanted(&mut inner, frames + 1).is_err());
        assert!(wanted(&mut inner, frames * 1000).is_err());
        assert_eq!(heap.committed(), 0);
        assert!(wanted(&mut inner, frames / 2).is_ok());
    }

    /// Whether the mapping that an address lies in is advised to be huge pages.
    fn is_huge(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let bounds = line.split(' ').next().and_then(|word| word.split_once('-'));
            if let Some((low, high)) = bounds
                && let (Ok(low), Ok(high)) =
                    (usize::from_str_radix(low, 16), usize::from_str_radix(high, 16))
            {
                inside = (low..high).contains(&address);
            }
            if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.split(' ').any(|flag| flag == "hg");
            }
        }
        false
    }

    #[test]
    fn pointer_free_chunks_alone_can_be_huge() {
        use crate::heap::kind::Scan;
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        heap.state.huge_leaf_above.store(0, Relaxed);
        let mut inner = heap.inner();
        for (scan, huge) in [(Scan::Conservative, false), (Scan::Leaf, true)] {
            let taken = heap.take_frames(&mut inner, 1, scan, true).unwrap();
            assert_eq!(is_huge(heap.address(taken.first).0), huge, "{scan:?}");
        }
    }

    #[test]
    fn a_small_reservation_ends() {
        let heap = Heap::new();
        heap.reserve(SMALLEST).unwrap();
        let mut inner = heap.inner();
        for _ in 0..4 {
            heap.commit_chunk(&mut inner, 1).unwrap();
        }
        assert_eq!(heap.commit_chunk(&mut inner, 1), Err(super::super::Refused::System));
    }
}
