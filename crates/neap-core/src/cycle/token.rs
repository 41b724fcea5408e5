//! The driver token: whoever has it drives the cycle, and nobody else does.
//!
//! Invariant `[cycle.inv.driver]`: there is one, made at start-up. It lies with the state of the
//! cycle (`driver::between_steps`) between steps, and is handed from one thread to the next under
//! the collector's lock. What takes `&mut Driver` marks, reads roots or ends a cycle; nothing else
//! can.

use crate::heap::Heap;
use crate::mark::drain::Marker;
use crate::mark::markers::Markers;
use crate::sys::clock;
use crate::world::World;

use super::report::record::CycleRecord;
use super::workers::Workers;

/// What a cycle works with. Owned by the thread that drives it.
pub struct Driver {
    /// The heap that is collected.
    pub heap: &'static Heap,
    /// How its mutators are stopped; looked up anew for each cycle.
    pub world: &'static dyn World,
    /// The threads that mark with the driver.
    pub workers: &'static Workers,
    /// The driver's own marker: place 0 among the markers.
    pub marker: Marker<'static>,
    /// What the cycle did so far.
    pub record: CycleRecord,
    /// Helpers that mark with it while the world runs.
    pub helpers_beside: usize,
}

impl Driver {
    /// All markers.
    pub fn markers(&self) -> &'static Markers {
        self.workers.markers()
    }

    /// Follows grey words with so many helpers and whoever else comes. Says how many markers there
    /// were at most.
    pub fn mark_with_workers(&mut self, helpers: usize) -> usize {
        1 + self.workers.work(&mut self.marker, helpers)
    }

    /// The same with the world running.
    pub fn mark_beside(&mut self) -> usize {
        let (began_ns, before) = (clock::own_processor_ns(), self.marker.marked_bytes);
        let markers = self.mark_with_workers(self.helpers_beside);
        self.record.beside_ns += clock::own_processor_ns() - began_ns;
        self.record.beside_bytes += self.marker.marked_bytes.saturating_sub(before);
        markers
    }
}
