//! Whether an object can have another size where it is: within its cell, or by taking or giving the
//! frames behind a large one.
//!
//! Invariant: the object's contents up to the smaller size stay. In a critical section of the
//! thread that resizes.
//!
//! # Safety
//!
//! Zeroes the part of a cell, or the frames behind a large object, that an object gains. The
//! object is the caller's, and the frames were free when they were taken under the heap's lock.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use crate::addr::{FRAME_BYTES, GRANULE_BYTES, PAGE_BYTES, round_up};
use crate::heap::Heap;
use crate::heap::blocks::freed_places;
use crate::heap::blocks::header::State;
use crate::heap::classes::LARGEST_SMALL;
use crate::heap::kind::Scan;
use crate::heap::lookup::Cell;
use crate::heap::spaces::Inner;

/// Memory that was used before is zeroed under the heap's lock, or where a stop waits for it, so at
/// most this much: an object that would need more moves, and is zeroed without that. Larger: fewer
/// copies; smaller: shorter waits for other threads.
const MOST_ZEROED: usize = 1 << 20;

/// Makes an object at least `requested` bytes long in place; false if it would have to move.
/// `[alloc.rule.resize]`: what is long enough stays as it is, which is known under the heap's lock
/// only, as another thread may have made it longer since the caller looked.
pub fn grow(heap: &Heap, cell: &Cell<'_>, requested: usize) -> bool {
    if cell.header.state() == State::Small {
        // Within its cell nothing has to change, not even when it uses less than half of it.
        return requested <= cell.bytes();
    }
    let Some(wanted) = round_up(requested, PAGE_BYTES) else { return false };
    let mut inner = heap.inner();
    requested <= cell.usable_bytes()
        || !would_guard_what_is_read(heap, cell)
            && between_guards(heap, &mut inner, cell, requested, wanted, requested)
}

/// Whether a marker that reads the object as large as it was would come to a guard. Under the
/// heap's lock.
fn would_guard_what_is_read(heap: &Heap, cell: &Cell<'_>) -> bool {
    heap.is_hardened() && heap.state.marking.load(Relaxed) && cell.header.scan() != Scan::Leaf
}

/// Resizes an object in place to hold `requested` bytes; false if it has to move.
/// `[alloc.rule.resize]`: it stays where it is while it would use at least half of its cell.
pub fn in_place(heap: &Heap, cell: &Cell<'_>, requested: usize) -> bool {
    let bytes = cell.bytes();
    // The byte that the program did not ask for is not the object's own.
    let own = requested - heap.state.past_end.load(Relaxed).min(requested);
    if cell.header.state() == State::Small {
        let fits = requested <= bytes && requested * 2 >= bytes;
        if fits && cell.header.scan() != Scan::Leaf {
            // What lies behind the object is scanned with it, and is the object's again when it
            // grows.
            // SAFETY: the rest of the cell is nobody else's.
            unsafe { cell.start.add(own).pointer::<u8>().write_bytes(0, bytes - own) };
        }
        return fits;
    }
    let Some(wanted) = round_up(requested, PAGE_BYTES).filter(|_| requested > LARGEST_SMALL) else {
        return false;
    };
    let mut inner = heap.inner();
    let gives_up = heap.frames_of_large(wanted) < cell.header.span() as usize;
    // A marker may be about to note that what leads to its end is closed, `[heap.inv.closed]`.
    let is_led_to = gives_up && cell.header.is_frozen() && heap.state.marking.load(Relaxed);
    if is_led_to || would_guard_what_is_read(heap, cell) {
        return false;
    }
    let old = cell.header.requested();
    if requested <= old && heap.state.has_snapshot() && cell.header.scan() != Scan::Leaf {
        // Markers are to see it as it was, up to its old end: it stays as large, with zeros where
        // the program gives it up, or another takes its place.
        let had = cell.header.span() as usize;
        let stays = heap.frames_of_large(wanted) * 2 >= had && old - own <= MOST_ZEROED;
        drop(inner);
        if stays {
            // SAFETY: the bytes belong to the object, and the program gives them up.
            unsafe { cell.start.add(own).pointer::<u8>().write_bytes(0, old - own) };
        }
        return stays;
    }
    between_guards(heap, &mut inner, cell, requested, wanted, own)
}

/// The same for a large object, in `wanted` bytes of pages, of which `own` are the program's.
fn between_guards(
    heap: &Heap,
    inner: &mut Inner,
    cell: &Cell<'_>,
    requested: usize,
    wanted: usize,
    own: usize,
) -> bool {
    heap.unguard_large(cell.block);
    let resized = large_in_place(heap, inner, cell, requested, wanted, own);
    heap.guard_large(cell.block);
    resized
}

/// The same without guards.
fn large_in_place(
    heap: &Heap,
    inner: &mut Inner,
    cell: &Cell<'_>,
    requested: usize,
    wanted: usize,
    own: usize,
) -> bool {
    let requested = requested.next_multiple_of(GRANULE_BYTES);
    let had = cell.header.span() as usize;
    let wants = heap.frames_of_large(wanted);
    let old = cell.header.requested();
    if wants > had {
        let more = wants - had;
        let (behind, scan) = (cell.block.add(had), cell.header.scan());
        let only_fresh = scan != Scan::Leaf && more * FRAME_BYTES > MOST_ZEROED;
        let Ok(fresh) = heap.take_frames_at(inner, behind, more, scan, only_fresh) else {
            return false;
        };
        if !fresh && scan != Scan::Leaf {
            // SAFETY: the frames behind the object were free and are now this object's.
            unsafe { heap.address(behind).pointer::<u8>().write_bytes(0, more * FRAME_BYTES) };
        }
        heap.join(cell.block, had..wants);
        inner.frames.unprotect(cell.block, wants);
        cell.header.set_large_span(wants as u32);
        heap.state.allocated_since_cycle.fetch_add(more * FRAME_BYTES, Relaxed);
        if cell.header.is_frozen() || cell.bits.is_marked(cell.index) {
            heap.state.note_grown_live(more * FRAME_BYTES);
        }
    } else if wants < had {
        let [end, old_end] = [wants, had].map(|frames| heap.address(cell.block.add(frames)).0);
        freed_places::note(end..old_end);
        if cell.header.is_frozen() {
            // Pointers to what it gives up lead to whatever lies there next.
            inner.frames.forget_all_closed();
        }
        cell.header.set_large_span(wants as u32);
        heap.part(cell.block, wants..had);
        heap.free_frames(inner, cell.block.add(wants), had - wants);
        let was_live = cell.bits.is_marked(cell.index);
        heap.state.note_freed((had - wants) * FRAME_BYTES, was_live);
    }
    if cell.header.scan() != Scan::Leaf {
        // What an earlier, larger size left behind the object must not look like pointers.
        let (from, end) = (old.min(own), (had.min(wants) * FRAME_BYTES).min(requested));
        // SAFETY: the bytes belong to the object, and nobody uses them.
        unsafe { cell.start.add(from).pointer::<u8>().write_bytes(0, end - from) };
    }
    let before = cell.bytes();
    cell.header.set_large_size(requested, wanted);
    if cell.header.is_frozen() {
        heap.state.frozen_bytes.fetch_sub(before, Relaxed);
        heap.state.frozen_bytes.fetch_add(cell.bytes(), Relaxed);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::buffer::tests::local;
    use super::super::{large, refill::refill};
    use super::*;
    use crate::addr::Address;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::classes;
    #[cfg(not(miri))]
    use crate::heap::hardened::GuardPages;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;
    use crate::heap::state::Snapshot;
    #[cfg(not(miri))]
    use crate::sys::map::is_readable;

    /// Where the thread notes pages that are no object yet.
    static NOTE: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

    #[test]
    fn a_large_object_grows_over_chunks_and_at_the_heaps_end() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let take = |bytes| {
            let unpublished = large::take(&heap, &NOTE, Kind::Leaf, NO_LAYOUT, bytes).unwrap();
            large::publish(&heap, &NOTE, &unpublished);
            heap.object_at(unpublished.start.0).unwrap()
        };
        let cell = take(100_000);
        assert_eq!(heap.inner().frames.chunks(), 1);
        assert!(in_place(&heap, &cell, 9 << 20));
        let last = heap.object_at(cell.start.0 + (9 << 20) - 1).unwrap();
        assert_eq!((last.start, last.bytes()), (cell.start, 9 << 20));
        assert_eq!(heap.inner().frames.chunks(), 5);
        heap.verify().unwrap();
        // What is in use behind it ends that.
        let cell = heap.object_at(cell.start.0).unwrap();
        let behind = take(40_000);
        assert!(!in_place(&heap, &cell, 30 << 20));
        heap.inner().free_large(&heap, behind.block);
        assert!(in_place(&heap, &cell, 30 << 20));
        // More than the reservation has.
        let cell = heap.object_at(cell.start.0).unwrap();
        assert!(!in_place(&heap, &cell, 65 << 20));
        heap.verify().unwrap();
    }

    #[test]
    fn a_large_object_grows_and_shrinks_where_it_is() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let unpublished = large::take(&heap, &NOTE, Kind::Conservative, NO_LAYOUT, 40_000).unwrap();
        large::publish(&heap, &NOTE, &unpublished);
        let cell = heap.object_at(unpublished.start.0).unwrap();
        // SAFETY: the object's bytes.
        unsafe { cell.start.pointer::<u8>().write_bytes(3, 40_000) };
        assert!(in_place(&heap, &cell, 200_000));
        heap.verify().unwrap();
        // SAFETY: as above.
        let contents = unsafe { core::slice::from_raw_parts(cell.start.pointer::<u8>(), 200_000) };
        assert!(
            contents[..40_000].iter().all(|byte| *byte == 3)
                && contents[40_000..].iter().all(|byte| *byte == 0)
        );
        let grown = heap.state.grown_since_cycle();
        assert!(in_place(&heap, &cell, 33_000));
        assert!(heap.state.grown_since_cycle() < grown, "what it shrank by is no growth");
        heap.verify().unwrap();
        assert_eq!(cell.bytes(), 36_864);
        // A last granule is the object's too, and is scanned: it holds nothing of what was there.
        assert_eq!(cell.usable_bytes(), 33_008);
        assert!(heap.object_at(cell.start.0 + 33_007).is_some());
        assert!(heap.object_at(cell.start.0 + 33_008).is_none());
        // SAFETY: as above.
        assert_eq!(unsafe { *cell.start.add(33_007).pointer::<u8>() }, 0);
        assert!(in_place(&heap, &cell, 36_000));
        // SAFETY: as above.
        assert_eq!(unsafe { *cell.start.add(35_999).pointer::<u8>() }, 0);
        assert!(!in_place(&heap, &cell, 100) && !in_place(&heap, &cell, usize::MAX));
    }

    /// As the wish of a thread that looked before another made the object longer.
    #[test]
    fn what_is_long_enough_stays_as_it_is() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let unpublished = large::take(&heap, &NOTE, Kind::Conservative, NO_LAYOUT, 40_000).unwrap();
        large::publish(&heap, &NOTE, &unpublished);
        let cell = heap.object_at(unpublished.start.0).unwrap();
        assert!(grow(&heap, &cell, 200_000));
        let has = cell.usable_bytes();
        // SAFETY: the object's bytes.
        let contents = unsafe { core::slice::from_raw_parts_mut(cell.start.pointer(), has) };
        contents.fill(3_u8);
        for snapshot in [Snapshot::None, Snapshot::Taken] {
            heap.state.set_snapshot(snapshot);
            for wish in [100_000, 199_999, 100, 0, has] {
                assert!(grow(&heap, &cell, wish));
                assert_eq!(cell.usable_bytes(), has);
                assert!(contents.iter().all(|byte| *byte == 3));
            }
        }
        assert!(grow(&heap, &cell, has + 1) && cell.usable_bytes() > has);
        assert!(contents.iter().all(|byte| *byte == 3));
        assert!(!grow(&heap, &cell, usize::MAX));
        heap.verify().unwrap();
    }

    /// What it gave up reads as zeros when it has it again, here or elsewhere.
    #[test]
    fn a_large_object_shrinks_and_grows_while_a_snapshot_is_marked() {
        const BYTES: usize = 4 << 20;
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let unpublished = large::take(&heap, &NOTE, Kind::Conservative, NO_LAYOUT, BYTES).unwrap();
        large::publish(&heap, &NOTE, &unpublished);
        let cell = heap.object_at(unpublished.start.0).unwrap();
        // SAFETY: the object's bytes.
        let contents =
            unsafe { core::slice::from_raw_parts_mut(cell.start.pointer::<u8>(), BYTES) };
        contents.fill(3);
        heap.state.set_snapshot(Snapshot::Taken);
        assert!(!in_place(&heap, &cell, BYTES - MOST_ZEROED - 1), "another takes its place");
        let smaller = BYTES - MOST_ZEROED;
        assert!(in_place(&heap, &cell, smaller));
        assert!(cell.usable_bytes() >= BYTES, "markers see all of it");
        heap.state.set_snapshot(Snapshot::None);
        assert!(in_place(&heap, &cell, BYTES - 100));
        assert!(contents[..smaller].iter().all(|byte| *byte == 3));
        assert!(contents[smaller..BYTES - 100].iter().all(|byte| *byte == 0));
    }

    /// Else what a minor cycle keeps would be less than what lives.
    #[test]
    fn what_a_live_object_grows_by_lives() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let grown = || heap.state.grown_live_since_cycle.load(Relaxed);
        for (marked, kept) in [(false, 0), (true, 160_000_usize.next_multiple_of(FRAME_BYTES))] {
            let unpublished = large::take(&heap, &NOTE, Kind::Leaf, NO_LAYOUT, FRAME_BYTES * 4);
            let unpublished = unpublished.unwrap();
            large::publish(&heap, &NOTE, &unpublished);
            let cell = heap.object_at(unpublished.start.0).unwrap();
            if marked {
                cell.bits.mark::<false>(cell.index);
            }
            assert!(in_place(&heap, &cell, FRAME_BYTES * 4 + 160_000));
            assert_eq!(grown(), kept);
        }
        heap.state.take_freed();
        assert_eq!(grown(), 0);
    }

    /// Else what is freed of it would be more than was ever frozen.
    #[test]
    fn a_frozen_object_is_counted_as_it_is() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let unpublished = large::take(&heap, &NOTE, Kind::Leaf, NO_LAYOUT, 40_000).unwrap();
        large::publish(&heap, &NOTE, &unpublished);
        let cell = heap.object_at(unpublished.start.0).unwrap();
        heap.inner().freeze(&heap);
        for bytes in [200_000, 50_000, 90_000] {
            assert!(in_place(&heap, &cell, bytes));
            assert_eq!(heap.state.frozen_bytes.load(Relaxed), cell.bytes());
        }
        heap.inner().free_cell(&heap, &cell);
        assert_eq!(heap.state.frozen_bytes.load(Relaxed), 0);
    }

    #[test]
    fn behind_a_small_object_that_shrank_there_are_zeros() {
        let (heap, local) = (Heap::new(), local());
        heap.reserve(64 << 20).unwrap();
        for (kind, left) in [(Kind::Conservative, 0), (Kind::Leaf, 3)] {
            let id = SpaceId::of(kind, classes::class_of(48));
            let buffer = local.buffer(id).unwrap();
            refill(&heap, local, buffer, id).unwrap();
            let object = Address(buffer.bump(48));
            let cell = heap.object_at(object.0).unwrap();
            // SAFETY: the object's own bytes.
            let bytes = unsafe { core::slice::from_raw_parts_mut(object.pointer::<u8>(), 48) };
            bytes.fill(3);
            assert!(in_place(&heap, &cell, 29) && in_place(&heap, &cell, 48));
            assert!(bytes[..29].iter().all(|byte| *byte == 3));
            assert!(bytes[29..].iter().all(|byte| *byte == left));
        }
    }

    #[test]
    fn a_neighbour_in_the_way_means_moving() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let [first, _second] = [0, 1].map(|_| {
            let unpublished = large::take(&heap, &NOTE, Kind::Leaf, NO_LAYOUT, 40_000).unwrap();
            large::publish(&heap, &NOTE, &unpublished);
            unpublished
        });
        assert!(!in_place(&heap, &heap.object_at(first.start.0).unwrap(), 100_000));
    }

    #[cfg(not(miri))]
    #[test]
    fn large_objects_end_at_a_guard_whatever_their_size_becomes() {
        let best = Heap::new().harden(false);
        for how in [best, GuardPages::Protection] {
            let heap = Heap::new();
            heap.harden(false);
            heap.state.guard_pages.store(how as u8, Relaxed);
            heap.reserve(64 << 20).unwrap();
            let unpublished = large::take(&heap, &NOTE, Kind::Leaf, NO_LAYOUT, 65_536).unwrap();
            large::publish(&heap, &NOTE, &unpublished);
            let start = unpublished.start;
            let ends_at = |bytes: usize| {
                assert!(is_readable(start.add(bytes - 1)), "{how:?}, {bytes}");
                let guarded = !is_readable(start.add(bytes));
                assert!(guarded, "[heap.inv.guard-pages] {how:?}, {bytes}");
                heap.verify().unwrap();
            };
            ends_at(65_536);
            for bytes in [200_704, 40_960, 45_056, 131_072, 36_864] {
                let cell = heap.object_at(start.0).unwrap();
                assert!(in_place(&heap, &cell, bytes));
                ends_at(bytes);
            }
            let block = heap.object_at(start.0).unwrap().block;
            heap.inner().free_large(&heap, block);
            assert!(is_readable(start.add(36_864)));
            heap.verify().unwrap();
        }
    }

    /// Markers read an object as large as it was when they came to it.
    #[cfg(not(miri))]
    #[test]
    fn no_guard_comes_under_a_marker() {
        let heap = Heap::new();
        heap.harden(false);
        heap.reserve(64 << 20).unwrap();
        for (kind, may) in [(Kind::Conservative, false), (Kind::Leaf, true)] {
            let unpublished = large::take(&heap, &NOTE, kind, NO_LAYOUT, 200_704).unwrap();
            large::publish(&heap, &NOTE, &unpublished);
            let cell = heap.object_at(unpublished.start.0).unwrap();
            heap.state.marking.store(true, Relaxed);
            assert_eq!(in_place(&heap, &cell, 36_864), may);
            assert_ne!(is_readable(unpublished.start.add(36_864)), may, "[heap.inv.guard-pages]");
            heap.state.marking.store(false, Relaxed);
            assert!(in_place(&heap, &cell, 40_960));
        }
    }
}
