//! Finishing a sweep in the background or before the next cycle, in steps that keep the heap's lock
//! short.
//!
//! Called by the collector's thread, and by who begins a cycle.

use crate::heap::Heap;

/// Sweeps until nothing is left.
pub fn finish(heap: &Heap) {
    while !heap.inner().sweep_step(heap) {}
}
