//! Giving the memory of free frames back to the system: what was freed long enough ago, what is
//! above the limit, or all of it.
//!
//! Invariant: a pass goes through the heap once, so it ends; what the system refuses to take stays
//! dirty, and hides what lies behind it from a few passes at most. Under the heap's lock, for the
//! collector's thread and who allocates near the limit or asks for it.
//!
//! # Safety
//!
//! Free frames hold nothing, and under the lock nobody takes them meanwhile.

#![allow(unsafe_code)]

use core::time::Duration;

use super::decay;
use crate::addr::{FRAME_BYTES, Frame};
use crate::heap::Heap;
use crate::heap::spaces::Inner;
use crate::sys::clock::Instant;
use crate::sys::map;

/// How far [`Heap::clean`] got.
pub struct Cleaned {
    /// How many ranges it gave back.
    pub ranges: usize,
    /// The frame to go on from, where its time was over or the system refused too often.
    pub next: Option<Frame>,
}

/// Free memory that the system refuses to take is passed over so often in one go. Larger: more
/// calls in vain where the program locked much; smaller: it takes more passes to get behind that.
const MOST_REFUSALS: usize = 8;

/// What is freed at or before this stamp is all.
pub const ALL: u64 = u64::MAX;

impl Heap {
    /// Gives free memory back to the system that was freed at or before the stamp `before`, from
    /// the frame `from` on, until `most` has passed, but one range at least.
    pub fn clean(
        &self,
        inner: &mut Inner,
        mut from: Frame,
        before: u64,
        most: Duration,
    ) -> Cleaned {
        let (mut ranges, mut refused) = (0, 0);
        let began = Instant::now();
        loop {
            if refused == MOST_REFUSALS || ranges > 0 && began.elapsed() >= most {
                return Cleaned { ranges, next: Some(from) };
            }
            let Some((first, count)) = inner.frames.next_to_clean(from, before) else {
                return Cleaned { ranges, next: None };
            };
            from = first.add(count);
            // SAFETY: free frames hold nothing; under the lock nobody takes them meanwhile.
            if !unsafe { map::give_back(self.address(first), count * FRAME_BYTES) } {
                // As of memory that is locked: what lies behind may be given.
                inner.frames.keep_dirty(first, count);
                refused += 1;
                continue;
            }
            if inner.frames.is_clean(first.chunk()) {
                self.clean_bits(first.chunk());
            }
            ranges += 1;
        }
    }

    /// A step of a pass. Where it met only what the system refuses, the next pass begins behind
    /// that, so that each pass makes few calls in vain.
    fn clean_step(&self, inner: &mut Inner, from: Frame, before: u64) -> Cleaned {
        let cleaned = self.clean(inner, from, before, decay::STEP);
        inner.clean_from = cleaned.next.filter(|_| cleaned.ranges == 0).unwrap_or(Frame(0));
        cleaned
    }

    /// Gives some free memory back; false if none was found.
    pub(in crate::heap) fn clean_some(&self, inner: &mut Inner) -> bool {
        let from = inner.clean_from;
        let mut cleaned = self.clean_step(inner, from, ALL);
        if cleaned.ranges == 0 && cleaned.next.is_none() && from > Frame(0) {
            cleaned = self.clean_step(inner, Frame(0), ALL);
        }
        cleaned.ranges > 0
    }

    /// Gives back all that was freed at or before the stamp `before`, chunk by chunk, with turns
    /// for others as [`Heap::in_steps`]; says how many ranges that was. Where the system refuses
    /// much, what is behind that is for the next pass, unless [`ALL`] is asked for.
    pub fn give_back<T>(&self, before: u64, enter: impl Fn() -> T) -> usize {
        let (mut given, mut next) = (0, (before == ALL).then_some(Frame(0)));
        self.in_steps(enter, |inner| {
            let cleaned = self.clean_step(inner, next.unwrap_or(inner.clean_from), before);
            given += cleaned.ranges;
            next = cleaned.next;
            next.is_none() || cleaned.ranges == 0 && before < ALL
        });
        given
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::addr::{CHUNK_BYTES, PAGE_BYTES};
    use crate::check::skip;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::{Kind, Scan};

    /// A heap of objects of so many bytes each.
    fn heap_of<const COUNT: usize>(bytes: usize) -> (Heap, [Frame; COUNT]) {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let blocks = [(); COUNT].map(|()| {
            let mut inner = heap.inner();
            let made = inner.large_block(&heap, Kind::Leaf, NO_LAYOUT, bytes, true).unwrap();
            inner.publish_large(&heap, made.0);
            made.0
        });
        (heap, blocks)
    }

    /// Locks the first page of each of these objects and frees them; false where it may not.
    fn lock_and_free(heap: &Heap, blocks: &[Frame]) -> bool {
        let locked = blocks.iter().all(|block| {
            // By a system call: sanitizers make libc's function do nothing.
            // SAFETY: locks a page of the heap that is tested.
            unsafe { libc::syscall(libc::SYS_mlock, heap.address(*block).0, PAGE_BYTES) == 0 }
        });
        free(heap, blocks);
        locked
    }

    fn free(heap: &Heap, blocks: &[Frame]) {
        blocks.iter().for_each(|block| _ = heap.inner().free_large(heap, *block));
    }

    fn is_dirty(heap: &Heap, frame: Frame) -> bool {
        heap.inner().frames.is_dirty(frame)
    }

    /// As what the program locked and never unlocked.
    #[test]
    fn memory_behind_what_the_system_refuses_to_take_is_given_back() {
        let (heap, blocks) = heap_of::<2>(CHUNK_BYTES);
        if !lock_and_free(&heap, &blocks[..1]) {
            return skip("no memory may be locked");
        }
        free(&heap, &blocks[1..]);
        assert!(heap.give_back(0, || ()) > 0);
        assert!(!heap.inner().frames.is_clean(blocks[0].chunk()));
        assert!(heap.inner().frames.is_clean(blocks[1].chunk()));
    }

    #[test]
    fn memory_behind_it_in_the_same_chunk_is_too() {
        let (heap, blocks) = heap_of::<3>(3 * FRAME_BYTES);
        if !lock_and_free(&heap, &blocks[..1]) {
            return skip("no memory may be locked");
        }
        free(&heap, &blocks[2..]);
        assert_eq!(heap.give_back(0, || ()), 1);
        assert!(is_dirty(&heap, blocks[0]) && !is_dirty(&heap, blocks[2]));
    }

    /// A pass that met only such memory waits, and the next one goes on behind it.
    #[test]
    fn much_that_the_system_refuses_hides_nothing_for_ever() {
        const LOCKED: usize = MOST_REFUSALS + 1;
        const BEHIND: usize = 2 * LOCKED + 2;
        const LAST: usize = BEHIND + 2;
        let give_back = |heap: &Heap, before: u64| heap.give_back(before, || ());
        for asked in [false, true] {
            // Every other one is in use.
            let (heap, blocks) = heap_of::<{ LAST + 2 }>(FRAME_BYTES);
            let locked: Vec<_> = blocks[2..].iter().copied().step_by(2).take(LOCKED).collect();
            if !lock_and_free(&heap, &locked) {
                return skip("no memory may be locked");
            }
            free(&heap, &blocks[BEHIND..=BEHIND]);
            if asked {
                assert_eq!(give_back(&heap, ALL), 1);
            } else {
                assert_eq!([(); 3].map(|()| give_back(&heap, 0)), [0, 1, 0]);
                free(&heap, &blocks[..1]);
                assert!((0..2).any(|_| give_back(&heap, 0) == 1), "and from the front again");
            }
            assert!(!is_dirty(&heap, blocks[BEHIND]));
            // Where an allocation keeps to the limit it is found as well.
            free(&heap, &blocks[LAST..=LAST]);
            let resident = heap.inner().frames.resident();
            heap.set_max_bytes(resident * FRAME_BYTES);
            for _ in 0..2 {
                heap.take_frames(&mut heap.inner(), 2, Scan::Leaf, true).unwrap();
            }
            assert!(!is_dirty(&heap, blocks[LAST]));
        }
    }
}
