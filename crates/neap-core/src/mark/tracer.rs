//! What a program's own trace function or root callback sees of a marker: words and ranges to
//! report, and nothing else.
//!
//! Invariant: valid only during the call it is handed to. Used by markers; what calls the program,
//! on the thread that drives the cycle.
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
pub struct Tracer<'m> {
    marker: &'m mut (dyn Grey + 'm),
    /// The program may be called.
    in_pause: bool,
    /// That was asked.
    asked: bool,
}

impl<'m> Tracer<'m> {
    /// A tracer that reports to `marker`, for the program's own callbacks, which run in pauses.
    pub fn new(marker: &'m mut (dyn Grey + 'm)) -> Self {
        Self::of_object(marker, true)
    }

    /// The same for the function of an object's layout.
    pub fn of_object(marker: &'m mut (dyn Grey + 'm), in_pause: bool) -> Self {
        Self { marker, in_pause, asked: false }
    }

    /// Asked by a layout's function for an object that needs the program: whether it may be called
    /// now. If not, the function is called again in a pause.
    pub fn may_call(&mut self) -> bool {
        self.asked = true;
        self.in_pause
    }

    /// Whether [`Self::may_call`] was.
    pub fn was_asked(&self) -> bool {
        self.asked
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
        self.marker.is_marked(word)
    }
}
