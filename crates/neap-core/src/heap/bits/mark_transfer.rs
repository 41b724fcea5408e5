//! Mark bits as a row of words, to send them from the child process that set them to the heap that
//! needs them.
//!
//! Invariant: a record is the block's first frame in the upper half of a word and a count in the
//! lower, and so many words of 64 mark bits; only blocks with marks have one. Receiving adds marks
//! and takes none away. Sent by the one thread of a child that is left, received by the collector's
//! thread, blocks neither made nor ended meanwhile but those that the child does not know.

use super::MOST_CELLS;
use crate::addr::{FRAME_BYTES, Frame};
use crate::heap::Heap;

/// Words that the marks of `committed` bytes of heap take at most.
pub const fn most_words(committed: usize) -> usize {
    committed / FRAME_BYTES * (1 + MOST_CELLS / 64)
}

/// Writes the heap's marks; gives the number of words, None if they do not fit.
pub fn send(heap: &Heap, out: &mut [u64]) -> Option<usize> {
    let mut at = 0;
    let mut fits = true;
    heap.for_each_block(|block, header| {
        let bits = heap.bits(block);
        let words = header.cells().div_ceil(64) as usize;
        // Frozen blocks have theirs on both sides.
        if !fits || header.is_frozen() || (0..words).all(|word| bits.mark_word(word) == 0) {
            return;
        }
        let Some(record) = out.get_mut(at..at + 1 + words) else {
            fits = false;
            return;
        };
        record[0] = u64::from(block.0) << 32 | words as u64;
        for (word, place) in record[1..].iter_mut().enumerate() {
            *place = bits.mark_word(word);
        }
        at += 1 + words;
    });
    fits.then_some(at)
}

/// Adds marks that [`send`] wrote to the heap's.
pub fn receive(heap: &Heap, mut words: &[u64]) {
    while let Some((first, rest)) = words.split_first() {
        let block = Frame((first >> 32) as u32);
        let (marks, next) = rest.split_at(*first as u32 as usize);
        debug_assert!(marks.len() == heap.header(block).cells().div_ceil(64) as usize);
        let bits = heap.bits(block);
        heap.note_marked(block, heap.header(block));
        for (word, mask) in marks.iter().enumerate() {
            bits.add_marks(word, *mask);
        }
        words = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::CellIndex;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;

    #[test]
    fn marks_arrive_beside_those_that_are_there() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let mut inner = heap.inner();
        let [small, unmarked] = [0, 1].map(|_| {
            let block = inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, 1), 0, true).unwrap();
            heap.bits(block).set_range(0..heap.header(block).cells(), false, true, true);
            block
        });
        let large =
            inner.large_block(&heap, Kind::Conservative, NO_LAYOUT, 50_000, true).unwrap().0;
        inner.publish_large(&heap, large);
        drop(inner);
        for cell in [0, 63, 64, 200] {
            assert!(heap.bits(small).mark::<false>(CellIndex(cell)));
        }
        heap.bits(large).mark::<false>(CellIndex(0));
        let mut words = vec![0; most_words(heap.committed())];
        let sent = send(&heap, &mut words).unwrap();
        assert!(send(&heap, &mut words[..sent - 1]).is_none());
        heap.clear_marks();
        heap.bits(small).mark::<false>(CellIndex(7));
        receive(&heap, &words[..sent]);
        let marked: Vec<_> = (0..heap.header(small).cells())
            .filter(|cell| heap.bits(small).is_marked(CellIndex(*cell)))
            .collect();
        assert_eq!(marked, [0, 7, 63, 64, 200]);
        assert!(heap.bits(large).is_marked(CellIndex(0)));
        assert_eq!(heap.bits(unmarked).marked(heap.header(unmarked).cells()), 0);
    }
}
