//! Rows of whole chunks: where more than a chunk of frames fits.
//!
//! Invariant: each chunk is looked at once in a search, however long the rows are that do not do.
//! Under the heap's lock.

use super::{ALL, Content, Frames, mask};

impl Frames {
    /// The lowest chunk from which on so many are free, and the first `rest` frames of the next
    /// one.
    pub(super) fn row_of_chunks(
        &self,
        whole: usize,
        rest: usize,
        content: Content,
    ) -> Option<usize> {
        let mut free = 0;
        for (index, chunk) in self.chunks.iter().enumerate() {
            let has_rest = chunk.suits(content) && !chunk.free & mask(0, rest) == 0;
            if rest > 0 && free >= whole && has_rest {
                return Some(index - whole);
            }
            free = if chunk.free == ALL { free + 1 } else { 0 };
            if rest == 0 && free >= whole {
                return Some(index + 1 - whole);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::CHUNK_FRAMES;
    use super::super::Content::*;
    use super::super::tests::with_chunks;
    use super::*;
    use crate::addr::Frame;

    /// Each place in turn, looked at by itself.
    fn by_places(frames: &Frames, whole: usize, rest: usize, content: Content) -> Option<usize> {
        let chunks = &frames.chunks;
        let fits = |place: usize| {
            let last = chunks.get(place + whole);
            let has_rest = last.is_some_and(|last| {
                last.suits(content) && last.free & mask(0, rest) == mask(0, rest)
            });
            (0..whole).all(|index| chunks[place + index].free == ALL) && (rest == 0 || has_rest)
        };
        (0..=chunks.len().checked_sub(whole)?).find(|place| fits(*place))
    }

    #[test]
    fn the_lowest_row_is_found() {
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..if cfg!(miri) { 5 } else { 300 } {
            let mut frames = with_chunks(20);
            for _ in 0..random(8) {
                let first = Frame((random(20) * CHUNK_FRAMES + random(3) * 60) as u32);
                let content = if random(2) == 0 { Leaf } else { Scanned };
                frames.take_at(first, 1 + random(8), content);
            }
            for whole in 1..8 {
                for rest in [0, 1, 60, 127] {
                    for content in [Leaf, Scanned] {
                        let found = frames.row_of_chunks(whole, rest, content);
                        assert_eq!(found, by_places(&frames, whole, rest, content));
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_that_is_a_little_too_short_is_looked_at_once() {
        const CHUNKS: usize = if cfg!(miri) { 100 } else { 100_000 };
        let mut frames = with_chunks(CHUNKS);
        frames.take_at(Frame((CHUNKS / 2 * CHUNK_FRAMES) as u32), 1, Scanned).unwrap();
        let began = crate::sys::clock::Instant::now();
        assert_eq!(frames.row_of_chunks(CHUNKS / 2 + 1, 0, Leaf), None);
        // Each place looked at by itself takes seconds.
        assert!(cfg!(miri) || began.elapsed().as_millis() < 500);
        assert_eq!(frames.row_of_chunks(CHUNKS / 2, 0, Leaf), Some(0));
    }
}
