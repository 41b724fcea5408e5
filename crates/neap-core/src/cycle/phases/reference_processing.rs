//! What reference processing needs of the driver: asking, marking, and marking what an object
//! reaches without itself.
//!
//! Invariant: `drain` leaves nothing grey. Used by the driver alone, the helpers gone.

use crate::cycle::token::Driver;
use crate::heap::blocks::header::NO_LAYOUT;
use crate::mark::rescan;
use crate::mark::scan::by_keys::ByKeys;
use crate::refs::{self, Marking};

/// The driver's marker, for `refs`.
pub struct References<'d>(&'d mut Driver);

impl<'d> References<'d> {
    /// For a driver that marks alone.
    pub fn new(driver: &'d mut Driver) -> Self {
        Self(driver)
    }
}

impl Marking for References<'_> {
    fn is_marked(&self, object: usize) -> bool {
        self.0.heap.is_marked(object)
    }

    fn prefetch_header(&self, object: usize) {
        self.0.heap.prefetch_header(object);
    }

    fn prefetch_marks(&self, object: usize) {
        self.0.heap.prefetch_marks(object);
    }

    fn mark(&mut self, object: usize) {
        self.0.marker.word(object);
    }

    fn mark_word(&mut self, word: usize) {
        self.0.marker.word(word);
    }

    fn mark_contents(&mut self, object: usize) {
        if let Some(cell) = self.0.heap.object_at(object) {
            self.0.marker.scan_object(&cell);
        }
    }

    fn mark_contents_except_self(&mut self, object: usize) {
        if let Some(cell) = self.0.heap.object_at(object) {
            let own = cell.start.0..cell.start.0 + cell.bytes();
            self.0.marker.scan_object_except(&cell, own);
        }
    }

    fn mark_alone(&mut self, object: usize) {
        match self.0.heap.object_at(object) {
            // The check of marking could not tell it from an object whose contents were missed.
            Some(cell) if cell.header.layout() == NO_LAYOUT => self.0.marker.word(object),
            Some(_) => _ = self.0.marker.mark_alone(object),
            None => {}
        }
    }

    fn drain(&mut self) {
        self.0.marker.drain();
        rescan::until_complete(self.0.markers(), &mut self.0.marker);
    }

    fn mark_by_keys(&mut self, pairs: &mut dyn Iterator<Item = (usize, usize)>) -> bool {
        let heap = self.0.heap;
        let mut table = ByKeys::new();
        let mut pairs = pairs.filter(|&(_, value)| !heap.is_marked(value));
        let added = pairs.try_for_each(|(key, value)| match heap.object_at(key) {
            Some(cell) if cell.bits.is_marked(cell.index) => {
                self.0.marker.word(value);
                Ok(())
            }
            Some(cell) => table.add(cell.start.0, value),
            // It was freed.
            None => Ok(()),
        });
        let made = added.and_then(|()| table.index()).is_ok();
        if made {
            self.0.marker.by_keys = table;
        }
        self.drain();
        self.0.marker.by_keys = ByKeys::new();
        made
    }

    fn container(&self, address: usize) -> Option<usize> {
        self.0.heap.object_at(address).map(|cell| cell.start.0)
    }
}

impl Driver {
    /// Marks what registrations, what is ready to run and what waits on queues keep alive.
    pub fn trace_registered(&mut self) {
        refs::trace_registered(&mut References::new(self));
    }

    /// Decides about every reference to what was not marked, in a full cycle. After marking, world
    /// stopped.
    pub fn process_references(&mut self) {
        self.markers().aside.end_tracing();
        refs::process_references(&mut References::new(self));
        self.marker.report();
    }
}
