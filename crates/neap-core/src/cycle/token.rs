//! The driver token: whoever has it drives the cycle, and nobody else does.
//!
//! Invariant `[cycle.inv.driver]`: there is one, made at start-up. It lies with the state of the
//! cycle (`driver::between_steps`) between steps, and is handed from one thread to the next under
//! the collector's lock. What takes `&mut Driver` marks, reads roots or ends a cycle; nothing else
//! can.

use core::sync::atomic::Ordering::Relaxed;

use crate::heap::Heap;
use crate::mark::drain::Marker;
use crate::mark::markers::Markers;
use crate::sys::clock;
use crate::world::World;

use super::report::record::{CycleRecord, Kind};
use super::report::spans::{SpanKind, Stop, Timed};
use super::workers::Workers;

/// Entries of the driver's mark stack that are there from the beginning: a cycle that a refusal of
/// memory caused has room to mark.
pub const RESERVED_ENTRIES: usize = 1 << 16;

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
    /// The stop of a cycle that was given up for the one that begins next, which it counts to.
    pub stood_before: Option<Stop>,
}

impl Driver {
    /// A cycle of this kind has begun, at `began`: its record.
    pub fn begin_record(&mut self, kind: Kind, began: Timed) {
        let live_bytes = self.heap.state.live_bytes.load(Relaxed);
        let begun = CycleRecord::begin(kind, began, live_bytes);
        let before = core::mem::replace(&mut self.record, begun);
        self.record.take_stops_of(&before);
        if let Some(stop) = self.stood_before.take() {
            self.record.note_stop(SpanKind::FirstStop, stop);
        }
    }

    /// All markers.
    pub fn markers(&self) -> &'static Markers {
        self.workers.markers()
    }

    /// In the child of a `fork`: another thread may have been moving the marker's stack, which
    /// stays where it is.
    pub fn leave_marker(&mut self) {
        let mut new = Marker::new(self.workers.markers(), self.heap, 0);
        // Refused, it takes memory when it needs some.
        let _ = new.reserve(RESERVED_ENTRIES);
        core::mem::forget(core::mem::replace(&mut self.marker, new));
    }

    /// Follows grey words with so many helpers and whoever else comes. Says how many markers there
    /// were at most.
    pub fn mark_with_workers(&mut self, helpers: usize) -> usize {
        1 + self.workers.work(&mut self.marker, helpers)
    }

    /// The same with the world running, noted in the record.
    pub fn mark_beside(&mut self) {
        let (began_ns, before) = (clock::own_processor_ns(), self.marker.marked_bytes);
        let markers = self.mark_with_workers(self.helpers_beside);
        self.record.beside_ns += clock::own_processor_ns() - began_ns;
        self.record.beside_bytes += self.marker.marked_bytes.saturating_sub(before);
        self.record.markers = self.record.markers.max(markers);
    }
}
