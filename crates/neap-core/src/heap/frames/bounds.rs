//! What a search for free frames passes over: for each chunk how long a row it has at most, side
//! by side, so that a search reads one cache line for dozens of chunks.
//!
//! Invariant: never too low: a place that would do is not passed over. Too high costs a look at the
//! chunk, which corrects it. Under the heap's lock.

use super::Content;
use crate::addr::CHUNK_FRAMES;
use crate::sys::meta_vec::{MetaVec, NoMemory};

/// Requests of up to this many frames have a hint where to begin the search.
const HINTED: usize = 8;

/// The bounds, by content.
pub(super) struct Bounds {
    /// No row of frames of a chunk that are free and to be had for the content is longer.
    longest: [MetaVec<u8>; 2],
    /// For requests of n frames: no chunk below this one has n of them in a row.
    hints: [[usize; HINTED + 1]; 2],
}

impl Bounds {
    /// No chunk yet.
    pub(super) const fn new() -> Self {
        Self { longest: [MetaVec::new(), MetaVec::new()], hints: [[0; HINTED + 1]; 2] }
    }

    /// Room for one more chunk.
    pub(super) fn try_reserve(&mut self) -> Result<(), NoMemory> {
        self.longest.iter_mut().try_for_each(|longest| longest.try_reserve(1))
    }

    /// There is one more chunk, all of it free. Room was reserved.
    pub(super) fn add_chunk(&mut self) {
        self.longest.iter_mut().for_each(|longest| longest.push(CHUNK_FRAMES as u8));
    }

    /// Frames of a chunk were taken for a content: none are to be had for the other.
    pub(super) fn note_taken(&mut self, chunk: usize, content: Content) {
        self.longest[1 - content as usize][chunk] = 0;
    }

    /// A chunk has a row of `row` free frames, to be had for `contents`.
    pub(super) fn note_row(&mut self, chunk: usize, row: usize, contents: &[Content]) {
        for &content in contents {
            let longest = &mut self.longest[content as usize][chunk];
            *longest = (*longest).max(row as u8);
            for hint in &mut self.hints[content as usize][..=row.min(HINTED)] {
                *hint = (*hint).min(chunk);
            }
        }
    }

    /// The lowest chunk with `count` free frames in a row for a content, and what `fit` says of
    /// it.
    pub(super) fn find<T>(
        &mut self,
        count: usize,
        content: Content,
        fit: impl Fn(usize) -> Option<T>,
    ) -> Option<(usize, T)> {
        let (longest, hints) =
            (&mut self.longest[content as usize], &mut self.hints[content as usize]);
        let mut chunk = if count <= HINTED { hints[count] } else { 0 };
        let found = loop {
            let long_enough = |longest: &u8| *longest as usize >= count;
            let Some(further) = longest[chunk..].iter().position(long_enough) else {
                chunk = longest.len();
                break None;
            };
            chunk += further;
            if let Some(place) = fit(chunk) {
                break Some((chunk, place));
            }
            longest[chunk] = count as u8 - 1;
        };
        if count <= HINTED {
            hints[count] = chunk;
        }
        found
    }

    /// Whether a row of `row` frames in a chunk, free and to be had for a content, is within the
    /// bounds.
    #[cfg(test)]
    pub(super) fn allow(&self, chunk: usize, row: usize, content: Content) -> bool {
        self.longest[content as usize][chunk] as usize >= row
            && self.hints[content as usize][..=row.min(HINTED)].iter().all(|hint| *hint <= chunk)
    }
}
