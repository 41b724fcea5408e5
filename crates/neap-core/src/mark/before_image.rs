//! BeforeImage words: what the heap held when its pages began to be kept, for marking it as it was
//! then.
//!
//! Invariant: an object's words are read first and its kept pages afterwards
//! (`[heap.inv.before-images]`): a word that changed is then found in a copy. The words read first
//! may be newer ones: they lead to what the program reaches now, so pushing both marks more and
//! never less. Nothing is kept in other cycles, and these functions do nothing. Called by markers.
//!
//! # Safety
//!
//! Reads copies of pages, which stay until marking is over, and the words of objects that are
//! allocated, hence readable.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::drain::Marker;
use crate::addr::WORD_BYTES;

impl Marker<'_> {
    /// Pushes the old words of a range whose words were pushed before; both ends are multiples of a
    /// word.
    #[inline(always)]
    pub(super) fn push_before_image(&mut self, low: usize, high: usize) {
        let heap = self.heap();
        heap.before_images.for_each_before_image(low, high, |image| {
            // SAFETY: copies stay until marking is over.
            unsafe { self.push_from(image.copy, image.copy + image.bytes) };
        });
    }

    /// The same for elements of `element_words` words, the first at `low`, of which `bits` names
    /// those that are pointers.
    pub(super) fn push_before_image_named(
        &mut self,
        low: usize,
        high: usize,
        element_words: usize,
        bits: &[u64],
    ) {
        let heap = self.heap();
        heap.before_images.for_each_before_image(low, high, |image| {
            for offset in (0..image.bytes).step_by(WORD_BYTES) {
                let place = (image.original + offset - low) / WORD_BYTES % element_words;
                let named = bits.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 != 0);
                if named {
                    // SAFETY: as above.
                    let word =
                        unsafe { (*((image.copy + offset) as *const AtomicUsize)).load(Relaxed) };
                    self.word(word);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::addr::Address;
    use crate::alloc::buffer::tests::local;
    use crate::alloc::{large, refill};
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;
    use crate::heap::{Heap, classes};
    use crate::mark::drain::Marker;
    use crate::mark::markers::Markers;

    static NOTE: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

    fn store(address: usize, value: usize) {
        // SAFETY: an object of the test.
        unsafe { (address as *mut usize).write(value) };
    }

    #[test]
    fn what_only_old_contents_point_to_is_marked() {
        for (parent_bytes, place) in [(64, 5), (200_000, 20_000)] {
            let (heap, markers) = (Heap::new(), Markers::new());
            heap.reserve(64 << 20).unwrap();
            let local = local();
            let id = SpaceId::of(Kind::Conservative, classes::class_of(64));
            let buffer = local.buffer(id).unwrap();
            refill::refill(&heap, local, buffer, id).unwrap();
            let [small, child, newer, dead] = [0; 4].map(|_| buffer.bump(64));
            let parent = match parent_bytes {
                64 => small,
                bytes => {
                    let unpublished =
                        large::take(&heap, &NOTE, Kind::Conservative, NO_LAYOUT, bytes).unwrap();
                    large::publish(&heap, &NOTE, &unpublished);
                    unpublished.start.0
                }
            };
            for kept in [false, true] {
                heap.clear_marks();
                store(parent + place * 8, child);
                if kept {
                    heap.before_images
                        .open(&(heap.base().0..heap.base().0 + heap.committed()), 4)
                        .unwrap();
                    assert!(heap.before_images.keep(parent + place * 8));
                }
                store(parent + place * 8, newer);
                let mut marker = Marker::new(&markers, &heap, 0);
                marker.word(parent);
                marker.drain();
                assert!(heap.is_marked(parent) && heap.is_marked(newer) && !heap.is_marked(dead));
                assert_eq!(heap.is_marked(child), kept);
            }
            heap.before_images.close();
        }
    }

    #[test]
    fn of_typed_objects_only_named_words() {
        let (heap, markers) = (Heap::new(), Markers::new());
        heap.reserve(64 << 20).unwrap();
        let local = local();
        let id = SpaceId::of(Kind::Conservative, classes::class_of(64));
        let buffer = local.buffer(id).unwrap();
        refill::refill(&heap, local, buffer, id).unwrap();
        let objects = [0; 6].map(|_| buffer.bump(64));
        let array = objects[0];
        (1..6).for_each(|word| store(array + word * 8, objects[word]));
        heap.before_images.open(&(heap.base().0..heap.base().0 + heap.committed()), 4).unwrap();
        assert!(heap.before_images.keep(Address(array).0));
        (0..8).for_each(|word| store(array + word * 8, 0));
        let mut marker = Marker::new(&markers, &heap, 0);
        marker.push_before_image_named(array, array + 48, 3, &[0b101]);
        marker.drain();
        assert_eq!(
            [1, 2, 3, 4, 5].map(|word| heap.is_marked(objects[word])),
            [false, true, true, false, true]
        );
        heap.before_images.close();
    }
}
