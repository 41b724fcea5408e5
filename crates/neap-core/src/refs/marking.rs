//! What references and monitors need of the marker.
//!
//! Invariant: an `object` is always the start of an allocated object. Marking may be put off until
//! [`Marking::drain`]; answers of `is_marked` count only after it. The cycle implements it for the
//! process's marker, tests for a graph of their own. Used on the thread that drives the cycle.

/// The marker, as far as references and monitors know it.
pub trait Marking {
    /// Whether the object was found reachable.
    fn is_marked(&self, object: usize) -> bool;
    /// Marks the object and all that it reaches.
    fn mark(&mut self, object: usize);
    /// Marks what the word points to, interior addresses allowed, and all that it reaches. A word
    /// that is no object is ignored.
    fn mark_word(&mut self, word: usize);
    /// Marks all that the object reaches, not itself unless it is reached from there.
    fn mark_contents(&mut self, object: usize);
    /// As `mark_contents`, but words in the object that point into the object itself do not count.
    fn mark_contents_except_self(&mut self, object: usize);
    /// Marks the object and nothing that it reaches.
    fn mark_alone(&mut self, object: usize);
    /// Finishes what the marks so far began.
    fn drain(&mut self);
    /// Marks the values of those pairs of a key and a value whose keys are marked or get marked by
    /// this, and all that they reach, in time that grows with the pairs and with what is marked.
    /// Drains. Some keys may be missed, so who wants all looks once more. False if there was no
    /// memory for that: then it may have marked no more than the values of marked keys.
    fn mark_by_keys(&mut self, _pairs: &mut dyn Iterator<Item = (usize, usize)>) -> bool {
        false
    }
    /// Has the header of the object's block fetched: it will be asked about soon.
    fn prefetch_header(&self, _object: usize) {}
    /// The same for its mark, once the header is there.
    fn prefetch_marks(&self, _object: usize) {}
    /// Start of the object that the address lies in; `None` where no object is.
    fn container(&self, address: usize) -> Option<usize>;
}

/// Who runs while references are processed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The world is stopped.
    Nobody,
    /// It runs.
    Program,
}
