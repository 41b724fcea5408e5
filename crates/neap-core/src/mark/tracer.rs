//! What a program's own trace function or root callback sees of a marker: words and ranges to report, and nothing else.
//!
//! Invariant: valid only during the call it is handed to. Used on the thread that drives the cycle.

#![allow(unsafe_code)]

use super::drain::Marker;

/// Takes words that may point to objects.
pub struct Tracer<'m, 't> {
    marker: &'m mut Marker<'t>,
}

impl<'m, 't> Tracer<'m, 't> {
    /// A tracer that reports to `marker`.
    pub fn new(marker: &'m mut Marker<'t>) -> Self {
        Self { marker }
    }

    /// The word may be a pointer, interior allowed.
    #[inline]
    pub fn word(&mut self, word: usize) {
        self.marker.word(word);
    }

    /// Every aligned word in `[low, high)` may be a pointer.
    ///
    /// # Safety
    /// The range is readable.
    pub unsafe fn range(&mut self, low: usize, high: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.marker.range(low, high) };
    }

    /// Whether the object that `word` points into is marked already; false where there is none.
    pub fn is_marked(&self, word: usize) -> bool {
        self.marker.heap().is_marked(word)
    }
}
