//! The heap: one reserved range cut into chunks, frames, blocks and cells, and its metadata
//! beside it, found by arithmetic.
//!
//! Invariant `[heap.inv.no-heap-writes]`: nothing here writes to the range itself. Knows nothing of
//! threads or cycles. Readers (lookup, headers, bits) take no lock; whoever changes which block is
//! where holds [`Heap::inner`].
//!
//! # Safety
//!
//! Makes references to headers. Those of the committed range are mapped and never unmapped.

#![allow(unsafe_code)]

pub mod before_images;
pub mod bits;
pub mod blocks;
pub mod calls;
pub mod classes;
pub mod frames;
pub mod hardened;
pub mod kind;
pub mod layout;
pub mod lookup;
pub mod reserve;
pub mod samples;
pub mod spaces;
pub mod state;
pub mod verify;

use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::addr::{Address, CHUNK_BYTES, FRAME_BYTES, Frame};
use crate::rank::Rank;
use crate::stats::live;
use crate::sync::{ForkLock, Guard, Lock};
use crate::sys::map;
use before_images::BeforeImages;
use bits::Bits;
use blocks::header::{Form, Header, State};
use blocks::{block_offsets, marked_blocks};
use kind::Scan;
use layout::Layouts;
use spaces::Inner;
use state::{Apart, HeapState};

/// A heap. The process has one (`runtime`); tests make their own.
pub struct Heap {
    /// Start of the reservation; 0 until [`Heap::reserve`].
    base: AtomicUsize,
    /// Bytes of the reservation.
    reserved: AtomicUsize,
    /// Bytes of the reservation when its metadata was laid out.
    laid_out_for: AtomicUsize,
    /// Bytes from `base` on that can be touched: whole chunks. Grows only, under the lock.
    committed: AtomicUsize,
    /// Start of the headers, one for each frame of the reservation.
    headers: AtomicUsize,
    /// Start of the bits, [`bits::BITS_BYTES`] for each frame.
    bits: AtomicUsize,
    /// Start of the bits of [`marked_blocks`].
    marked_blocks: AtomicUsize,
    /// Start of the words of [`block_offsets`].
    block_offsets: AtomicUsize,
    /// The most bytes that frames in use may take; `usize::MAX` for no limit.
    max_bytes: AtomicUsize,
    /// The few words that every layer reads.
    pub state: HeapState,
    /// Layouts of typed objects.
    pub layouts: Layouts,
    /// Old contents of pages, while a cycle marks the heap as it was.
    pub before_images: BeforeImages,
    inner: Apart<Lock<Inner>>,
}

/// Bytes of metadata for each frame in use, at most.
pub const METADATA_BYTES: usize = size_of::<Header>() + bits::BITS_BYTES + block_offsets::BYTES;

/// Why the heap did not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The limit that the user set.
    Limit,
    /// The reservation is full or the system gave no memory.
    System,
}

impl Heap {
    /// An empty heap without a range; every lookup says no.
    pub const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            laid_out_for: AtomicUsize::new(0),
            committed: AtomicUsize::new(0),
            headers: AtomicUsize::new(0),
            bits: AtomicUsize::new(0),
            marked_blocks: AtomicUsize::new(0),
            block_offsets: AtomicUsize::new(0),
            max_bytes: AtomicUsize::new(usize::MAX),
            state: HeapState::new(),
            layouts: Layouts::new(),
            before_images: BeforeImages::new(),
            inner: Apart::new(Lock::new(Rank::Heap, Inner::new())),
        }
    }

    /// Lowest address of the reservation.
    #[inline(always)]
    pub fn base(&self) -> Address {
        Address(self.base.load(Relaxed))
    }

    /// Bytes from the base on that objects can lie in.
    #[inline(always)]
    pub fn committed(&self) -> usize {
        self.committed.load(Relaxed)
    }

    /// The header of a frame of the committed range.
    #[inline(always)]
    pub fn header(&self, frame: Frame) -> &Header {
        debug_assert!(frame.offset() < self.committed());
        // SAFETY: headers of the committed range are mapped, valid when zeroed (a free frame),
        // and never unmapped.
        unsafe { &*(self.headers.load(Relaxed) as *const Header).add(frame.0 as usize) }
    }

    /// The bits of the block that begins at `frame`.
    #[inline(always)]
    pub fn bits(&self, frame: Frame) -> Bits<'_> {
        self.view().bits(frame)
    }

    /// The address of a frame's first byte.
    #[inline(always)]
    pub fn address(&self, frame: Frame) -> Address {
        self.base().add(frame.offset())
    }

    /// The lists of blocks and the free frames.
    pub fn inner(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }

    /// Takes them for one step after the other, with turns for others: [`Lock::in_steps`].
    pub fn in_steps<E>(&self, enter: impl Fn() -> E, mut step: impl FnMut(&mut Inner) -> bool) {
        self.inner.in_steps(enter, |inner| step(inner));
    }

    /// Whether the watch reports on a block; yes where somebody has the lock, since the answer is
    /// not worth waiting for.
    pub fn may_be_protected(&self, block: Frame) -> bool {
        self.inner.try_lock().is_none_or(|inner| inner.frames.is_protected(block))
    }

    /// Sets the hard limit; 0 takes it away.
    pub fn set_max_bytes(&self, bytes: usize) {
        self.max_bytes.store(if bytes == 0 { usize::MAX } else { bytes }, Relaxed);
    }

    /// The hard limit, `usize::MAX` for none.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes.load(Relaxed)
    }

    /// Takes `count` frames that nobody uses, committing further chunks if `may_grow`.
    pub fn take_frames(
        &self,
        inner: &mut Inner,
        count: usize,
        scan: Scan,
        may_grow: bool,
    ) -> Result<frames::Taken, Refused> {
        let limit = self.max_bytes.load(Relaxed);
        let wanted = count.checked_mul(FRAME_BYTES).ok_or(Refused::System)?;
        if (inner.frames.taken() * FRAME_BYTES).saturating_add(wanted) > limit {
            return Err(Refused::Limit);
        }
        if let Some(taken) = inner.frames.take(count, scan.content()) {
            self.note_taken(inner, limit);
            return Ok(taken);
        }
        if !may_grow {
            return Err(Refused::System);
        }
        self.commit_chunks(inner, inner.frames.chunks_wanted(count), count, scan)?;
        let mut taken = inner.frames.take(count, scan.content());
        if taken.is_none() && self.is_hardened() {
            // The first chunk may have many guards; the second has room for whatever fits into one.
            self.commit_chunks(inner, inner.frames.chunks_wanted(count), count, scan)?;
            taken = inner.frames.take(count, scan.content());
        }
        let taken = taken.ok_or(Refused::System)?;
        self.note_taken(inner, limit);
        Ok(taken)
    }

    /// Takes exactly these frames, at the heap's end as many as the reservation has: better than
    /// a copy of what lies before them, which needs room too. Says whether they are fresh, which
    /// they have to be if `only_fresh`.
    pub fn take_frames_at(
        &self,
        inner: &mut Inner,
        first: Frame,
        count: usize,
        scan: Scan,
        only_fresh: bool,
    ) -> Result<bool, Refused> {
        let limit = self.max_bytes.load(Relaxed);
        if inner.frames.taken().saturating_add(count).saturating_mul(FRAME_BYTES) > limit {
            return Err(Refused::Limit);
        }
        let wanted = inner.frames.chunks_wanted_at(first, count, scan.content(), only_fresh);
        self.commit_chunks(inner, wanted.ok_or(Refused::System)?, usize::MAX, scan)?;
        let fresh = inner.frames.take_at(first, count, scan.content()).ok_or(Refused::System)?;
        self.note_taken(inner, limit);
        Ok(fresh)
    }

    /// Whether the reservation has so many more chunks, and the system would grant them. Without it
    /// a request that is refused would leave the process what was granted before, chunk by chunk:
    /// at its limit on data (`RLIMIT_DATA`) for good.
    pub fn try_chunks(&self, count: usize) -> Result<(), Refused> {
        if count > (self.reserved() - self.committed()) / CHUNK_BYTES {
            return Err(Refused::System);
        }
        if count < 2 {
            return Ok(());
        }
        let (start, bytes) = (self.base().add(self.committed()), count * CHUNK_BYTES);
        let granted = map::commit_objects(start, bytes);
        // SAFETY: pages behind the committed range, which nobody knows.
        unsafe { map::forbid(start, bytes) };
        granted.map_err(|_| Refused::System)
    }

    /// All of them, or none if the reservation or the system has not so many.
    fn commit_chunks(
        &self,
        inner: &mut Inner,
        count: usize,
        frames: usize,
        scan: Scan,
    ) -> Result<(), Refused> {
        self.try_chunks(count)?;
        for _ in 0..count {
            self.commit_chunk(inner, frames)?;
            let chunk = self.committed() - CHUNK_BYTES;
            if scan == Scan::Leaf && chunk >= self.state.huge_leaf_above.load(Relaxed) {
                map::huge_pages(self.base().add(chunk), CHUNK_BYTES);
            }
        }
        Ok(())
    }

    /// Frames were taken that nobody has touched yet: what is kept beside them goes back to the
    /// system as far as the limit wants it.
    fn note_taken(&self, inner: &mut Inner, limit: usize) {
        self.note_used(inner);
        while inner.frames.resident() * FRAME_BYTES > limit && self.clean_some(inner) {}
    }

    fn note_used(&self, inner: &Inner) {
        self.state.note_taken(inner.frames.taken() * FRAME_BYTES);
        self.state.scanned_bytes.store(inner.frames.scanned() * FRAME_BYTES, Relaxed);
    }

    /// Bytes of the heap that hold memory of the system, or will once they are touched, and of its
    /// metadata.
    pub fn resident_bytes(&self, inner: &Inner) -> usize {
        inner.frames.resident() * (FRAME_BYTES + METADATA_BYTES)
    }

    /// Whether some of the heap may lie on huge pages: there a word that is touched takes two
    /// megabytes.
    pub fn has_huge_pages(&self) -> bool {
        let state = &self.state;
        let above = state.huge_pages_above.load(Relaxed).min(state.huge_leaf_above.load(Relaxed));
        self.committed() > above
    }

    /// Makes one more chunk and its metadata usable, for objects or blocks of so many frames.
    pub fn commit_chunk(&self, inner: &mut Inner, frames: usize) -> Result<(), Refused> {
        let end = self.committed();
        if end + CHUNK_BYTES > self.reserved.load(Relaxed) {
            return Err(Refused::System);
        }
        self.commit_metadata(end).map_err(|_| Refused::System)?;
        let guards = self.guards_of_next_chunk(inner.frames.chunks(), frames);
        let [first, last] = [guards.first, guards.last].map(|frames| frames * FRAME_BYTES);
        map::commit_objects(self.base().add(end + first), CHUNK_BYTES - first - last)
            .map_err(|_| Refused::System)?;
        if end < self.state.small_pages_below.load(Relaxed) {
            map::small_pages(self.base().add(end), CHUNK_BYTES);
        } else if end >= self.state.huge_pages_above.load(Relaxed) {
            map::huge_pages(self.base().add(end), CHUNK_BYTES);
        }
        inner.frames.add_chunk(guards).map_err(|_| Refused::System)?;
        self.committed.store(end + CHUNK_BYTES, Release);
        live::set_reserved(end + CHUNK_BYTES);
        Ok(())
    }

    /// Makes a block of frames that were just taken.
    pub fn form_block(&self, first: Frame, form: &Form) {
        self.join(first, 1..form.frames as usize);
        if form.state == State::Small {
            self.bits(first).clear(form.cells);
        }
        self.header(first).form(form);
    }

    /// Sweeps a block by its mark bits; says whether it has free cells. Under the heap's lock.
    fn sweep_block(&self, block: Frame) -> bool {
        let header = self.header(block);
        let has_free = self.bits(block).sweep(header.cells()) < header.cells();
        if has_free {
            header.fresh.store(0, Relaxed);
        }
        has_free
    }

    /// Ends a block that is in no list; its frames are free afterwards. Gives the bytes freed.
    pub fn dissolve_block(&self, inner: &mut Inner, first: Frame) -> usize {
        let header = self.header(first);
        let count = header.span() as usize;
        if header.state() == State::Large {
            self.unguard_large(first);
        }
        let lives = header.state() == State::Large && header.is_uncollectable();
        inner.large_uncollectable -= lives as usize;
        self.forget_marked(first);
        header.dissolve();
        self.part(first, 1..count);
        self.free_frames(inner, first, count);
        count * FRAME_BYTES
    }

    /// Nothing is in these frames any more.
    pub fn free_frames(&self, inner: &mut Inner, first: Frame, count: usize) {
        inner.frames.give_back(first, count, self.state.freeing_stamp());
        self.note_used(inner);
    }

    /// Calls `f` for the first frame of every block. Blocks that are made or end meanwhile may or
    /// may not be seen.
    pub fn for_each_block(&self, mut f: impl FnMut(Frame, &Header)) {
        let end = Frame::containing(self.committed());
        let mut frame = Frame(0);
        while frame < end {
            let header = self.header(frame);
            let span = match header.state() {
                State::Small | State::Large => {
                    f(frame, header);
                    header.span().max(1)
                }
                State::Free => 1,
            };
            frame = frame.add(span as usize);
        }
    }

    /// Bytes of metadata that are in use for the committed range.
    pub fn metadata_bytes(&self) -> usize {
        self.committed() / FRAME_BYTES * METADATA_BYTES
            + self.committed() / CHUNK_BYTES * marked_blocks::BYTES_PER_CHUNK
    }
}

/// The process's heap.
pub static HEAP: Heap = Heap::new();

impl Heap {
    /// The lock, for who holds it over a `fork`.
    pub fn lock_for_fork(&self) -> &dyn ForkLock {
        &*self.inner
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}
