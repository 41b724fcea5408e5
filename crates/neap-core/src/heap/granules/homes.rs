//! Where a thread's search for free granules begins: each has a part of the heap to itself as long as there is room, so that after a cycle it gets memory that its own processor's cache still holds. Two threads that take
//! turns at the lowest address write into lines that are modified in the other's cache, and are then hardly faster than one.
//!
//! Invariant `[heap.rule.homes]`: no chunk that a home's search has passed for a size has room for it. Pure; under the heap's lock.

use super::{Chunk, Content, Mask, fit};

/// Threads that have a home of their own; further ones share them. Larger: more hints to keep.
pub const HOMES: usize = 8;
/// In which eighth of the heap each begins: the first few threads as far apart as can be. The first has the lowest addresses, so that a program of one thread keeps its heap together.
const EIGHTHS: [usize; HOMES] = [0, 4, 2, 6, 1, 5, 3, 7];
/// Requests of up to this many granules have a hint how far to go before the search.
const HINTED: usize = 8;

#[derive(Clone, Copy)]
struct Home {
    /// The chunk where its searches begin.
    start: usize,
    /// For requests of n granules of a content: so many chunks from the start on have no n free in a row.
    passed: [[usize; HINTED + 1]; 2],
}

/// The homes, and whose request is being met.
pub(super) struct Homes {
    homes: [Home; HOMES],
    /// Set by who asks, before each search.
    pub(super) current: usize,
}

impl Homes {
    pub(super) const fn new() -> Self {
        Self { homes: [Home { start: 0, passed: [[0; HINTED + 1]; 2] }; HOMES], current: 0 }
    }

    /// The first chunk from the current home on with `count` free granules in a row for a content.
    pub(super) fn find(
        &mut self,
        chunks: &[Chunk],
        count: usize,
        content: Content,
    ) -> Option<usize> {
        let home = &mut self.homes[self.current];
        let from = if count <= HINTED { home.passed[content as usize][count] } else { 0 };
        let at = |step: usize| match home.start + step {
            index if index >= chunks.len() => index - chunks.len(),
            index => index,
        };
        let has_room = |chunk: &Chunk| chunk.suits(content) && fit(chunk.free, count).is_some();
        let found = (from..chunks.len()).find(|step| has_room(&chunks[at(*step)]));
        let index = found.map(at);
        if count <= HINTED {
            home.passed[content as usize][count] = found.unwrap_or(chunks.len());
        }
        index
    }

    /// There are `count` chunks now.
    pub(super) fn note_added(&mut self, count: usize) {
        for (home, eighth) in self.homes.iter_mut().zip(EIGHTHS) {
            *home = Home { start: count * eighth / HOMES, passed: [[0; HINTED + 1]; 2] };
        }
    }

    /// Granules of a chunk, one of `count`, are free now.
    pub(super) fn note_freed(&mut self, chunk: usize, count: usize) {
        for home in &mut self.homes {
            let step = if chunk < home.start { chunk + count } else { chunk } - home.start;
            home.passed
                .as_flattened_mut()
                .iter_mut()
                .for_each(|passed| *passed = step.min(*passed));
        }
    }
}

/// Compiles only if a mask has a bit for each granule of a chunk.
const _: Mask = 1 << (crate::addr::CHUNK_GRANULES - 1);

#[cfg(test)]
mod tests {
    use super::super::Granules;
    use super::*;
    use crate::addr::CHUNK_GRANULES;

    #[test]
    fn each_home_fills_its_own_part_first_and_then_the_others() {
        let mut granules = Granules::new();
        (0..4).for_each(|_| granules.add_chunk().unwrap());
        let mut take = |home: usize| {
            granules.set_home(home);
            granules.take(CHUNK_GRANULES / 2, Content::Scanned).map(|taken| taken.first.chunk())
        };
        assert_eq!([0, 1, 0, 1].map(&mut take), [Some(0), Some(2), Some(0), Some(2)]);
        assert_eq!([0, 1, 2, 3].map(&mut take), [Some(1), Some(3), Some(1), Some(3)]);
        assert_eq!(take(5), None);
    }

    #[test]
    fn what_is_freed_is_found_again_from_every_home() {
        let mut granules = Granules::new();
        (0..3).for_each(|_| granules.add_chunk().unwrap());
        for _ in 0..3 * CHUNK_GRANULES {
            granules.take(1, Content::Leaf).unwrap();
        }
        for home in 0..HOMES {
            granules.set_home(home);
            assert_eq!(granules.take(1, Content::Leaf), None);
            let freed = crate::addr::Granule((home % 3 * CHUNK_GRANULES + home) as u32);
            granules.give_back(freed, 1, 0);
            granules.set_home(HOMES - 1 - home);
            assert_eq!(granules.take(1, Content::Leaf).unwrap().first, freed);
        }
    }
}
