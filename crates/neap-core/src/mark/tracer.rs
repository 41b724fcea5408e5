//! What a program's own trace function or root callback sees of a marker: words and ranges to
//! report, and nothing else.
//!
//! Invariant: valid only during the call it is handed to. Used on the thread that drives the cycle.
//!
//! # Safety
//!
//! Nothing is read here: the promise that a range is readable is passed on to the marker, and both
//! functions that take a range ask their caller for it.

#![allow(unsafe_code)]

/// What takes the reports: any marker.
pub trait Grey {
    /// The word may be a pointer.
    fn word(&mut self, word: usize);
    /// Every word of the range may be one.
    ///
    /// # Safety
    /// The range is readable.
    unsafe fn range(&mut self, low: usize, high: usize);
    /// Whether the object that it points into is marked.
    fn is_marked(&self, word: usize) -> bool;
}

/// Takes words that may point to objects.
pub struct Tracer<'m>(&'m mut (dyn Grey + 'm));

impl<'m> Tracer<'m> {
    /// A tracer that reports to `marker`.
    pub fn new(marker: &'m mut (dyn Grey + 'm)) -> Self {
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
