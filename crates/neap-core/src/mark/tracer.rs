//! What a program's own trace function or root callback sees of a marker: words and ranges to report, and nothing else.
//!
//! Invariant: valid only during the call it is handed to. Used on the thread that drives the cycle.
//!
//! # Safety
//!
//! Nothing is read here: the promise that a range is readable is passed on to the marker, and both
//! functions that take a range ask their caller for it.

#![allow(unsafe_code)]

use super::drain::Marker;

/// What takes the reports: a marker, whatever team it is in.
trait Grey {
    fn word(&mut self, word: usize);
    /// # Safety
    /// The range is readable.
    unsafe fn range(&mut self, low: usize, high: usize);
    fn is_marked(&self, word: usize) -> bool;
}

impl Grey for Marker<'_> {
    fn word(&mut self, word: usize) {
        Marker::word(self, word);
    }
    unsafe fn range(&mut self, low: usize, high: usize) {
        // SAFETY: the caller's promise.
        unsafe { Marker::range(self, low, high) };
    }
    fn is_marked(&self, word: usize) -> bool {
        self.heap().is_marked(word)
    }
}

/// Takes words that may point to objects.
pub struct Tracer<'m>(&'m mut (dyn Grey + 'm));

impl<'m> Tracer<'m> {
    /// A tracer that reports to `marker`.
    pub fn new(marker: &'m mut Marker<'_>) -> Self {
        Self(marker)
    }

    /// The word may be a pointer, interior allowed.
    #[inline]
    pub fn word(&mut self, word: usize) {
        self.0.word(word);
    }

    /// Every aligned word in `[low, high)` may be a pointer.
    ///
    /// # Safety
    /// The range is readable.
    pub unsafe fn range(&mut self, low: usize, high: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.range(low, high) };
    }

    /// Whether the object that `word` points into is marked already; false where there is none.
    pub fn is_marked(&self, word: usize) -> bool {
        self.0.is_marked(word)
    }
}
