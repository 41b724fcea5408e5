//! Making good what a refused mark stack dropped: scan every marked object again until nothing new
//! turns up.
//!
//! Invariant: afterwards `[mark.inv.reachable]` holds again. What finds no room is marked at once,
//! so every pass but the last marks something and there is an end to them. Slow, and reached only
//! when the system gives no memory. Called by the driver, the rest of the markers idle.

use super::drain::Marker;
use super::markers::Markers;
use crate::addr::CellIndex;
use crate::heap::lookup::Cell;

/// Scans marked objects until no grey word was dropped.
pub fn until_complete(markers: &Markers, marker: &mut Marker<'_>) {
    while markers.take_overflow() {
        let heap = marker.heap();
        heap.for_each_block(|block, header| {
            let bits = heap.bits(block);
            for index in 0..header.cells() {
                let index = CellIndex(index);
                if bits.is_marked(index) {
                    let start = heap.address(block).add(index.0 as usize * header.cell_bytes());
                    marker.scan_object(&Cell { block, header, bits, index, start });
                    // A short stack needs little memory: drain object by object.
                    marker.drain();
                }
            }
        });
    }
}
