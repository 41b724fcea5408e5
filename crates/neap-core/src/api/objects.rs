//! Questions about one object, and changes of it, that front ends for languages need besides the
//! usual.
//!
//! Invariant: an address is looked up before it is believed. Called from any thread.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use super::Kind;
use crate::heap::HEAP;
use crate::runtime::allocation;

/// Makes the object that starts at `object` at least `bytes` long without moving it; the bytes that
/// it has now, None if that cannot be, or no object starts there. What it gained reads as zero
/// unless it is not scanned.
pub fn resize_in_place(object: NonNull<u8>, bytes: usize) -> Option<usize> {
    allocation::resize_in_place(object.as_ptr(), bytes)
}

/// Whether the last cycle, or the one under way, marked the object; false where there is none.
pub fn mark_bit(object: usize) -> bool {
    HEAP.is_marked(object)
}

/// Sets or clears an object's mark bit: only under
/// [`with_stopped_world`](super::with_stopped_world) or in an event callback between `Stopped` and
/// `BeforeResume`.
pub fn set_mark_bit(object: usize, on: bool) {
    if let Some(cell) = HEAP.object_at(object) {
        if on {
            HEAP.note_marked(cell.block, cell.header);
        }
        cell.bits.set_range(cell.index.0..cell.index.0 + 1, true, false, on);
    }
}

/// Calls `f` with start, bytes, kind and mark of every object: only under
/// [`with_stopped_world`](super::with_stopped_world) or in an event callback between `Stopped` and
/// `BeforeResume`. Cells of buffers that threads hold are among them, and no objects that the
/// program has freed.
pub fn for_each_object(mut f: impl FnMut(usize, usize, Kind, bool)) {
    let defers = HEAP.state.defers_frees.load(Relaxed);
    HEAP.for_each_block(|block, header| {
        let kind = Kind::from_parts(header.scan(), header.is_uncollectable());
        HEAP.for_each_object(block, header, |index, start| {
            // For a moment each: what is called may ask the heap itself.
            if defers && HEAP.inner().deferred_frees.holds(start) {
                return;
            }
            f(start.0, header.cell_bytes(), kind, HEAP.bits(block).is_marked(index));
        });
    });
}
