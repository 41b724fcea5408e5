//! What settling references needs of a marker: asking, marking, and marking what an object reaches without itself.
//!
//! Invariant: `drain` leaves nothing grey. Used by the driver alone, the helpers gone.

#![allow(unsafe_code)]

use crate::heap::Heap;
use crate::mark::drain::Marker;
use crate::mark::rescan;
use crate::mark::team::Team;
use crate::refs::Marking;

/// The driver's marker, for `refs`.
pub struct Settling<'a, 't> {
    team: &'t Team,
    heap: &'t Heap,
    marker: &'a mut Marker<'t>,
}

impl<'a, 't> Settling<'a, 't> {
    /// For the driver of `team`, which is alone in it.
    pub fn new(team: &'t Team, heap: &'t Heap, marker: &'a mut Marker<'t>) -> Self {
        Self { team, heap, marker }
    }
}

impl Marking for Settling<'_, '_> {
    fn is_marked(&self, object: usize) -> bool {
        self.heap.is_marked(object)
    }

    fn prefetch_header(&self, object: usize) {
        self.heap.prefetch_header(object);
    }

    fn prefetch_marks(&self, object: usize) {
        self.heap.prefetch_marks(object);
    }

    fn mark(&mut self, object: usize) {
        self.marker.word(object);
    }

    fn mark_word(&mut self, word: usize) {
        self.marker.word(word);
    }

    fn mark_contents(&mut self, object: usize) {
        if let Some(cell) = self.heap.object_at(object) {
            self.marker.scan_object(&cell);
        }
    }

    fn mark_contents_except_self(&mut self, object: usize) {
        if let Some(cell) = self.heap.object_at(object) {
            let own = cell.start.0..cell.start.0 + cell.bytes();
            self.marker.scan_object_except(&cell, own);
        }
    }

    fn drain(&mut self) {
        self.marker.drain();
        rescan::until_complete(self.team, self.marker);
    }

    fn container(&self, address: usize) -> Option<usize> {
        self.heap.object_at(address).map(|cell| cell.start.0)
    }
}
