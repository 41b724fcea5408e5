//! The quarantine of a hardened heap: what the program frees is filled, and its cell is handed out
//! again only after many others were freed, or the next marking has ended. Who frees it twice is
//! told so; who wrote to it meanwhile is stopped before that harms another object.
//!
//! Invariant `[heap.inv.quarantine]`: an object in here is allocated and, where its block is not
//! swept yet, marked, so that no sweep gives its cell out. Nobody but the program that misuses it
//! writes to it. Under the heap's lock.
//!
//! # Safety
//! Writes and reads the bytes of an object that the program has freed and whose cell nobody has.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::*};

use crate::addr::Address;
use crate::heap::Heap;
use crate::heap::blocks::header::NO_LAYOUT;
use crate::heap::layout::{LayoutId, Shape};
use crate::heap::lookup::Cell;
use crate::heap::spaces::Inner;
use crate::sys::meta_vec::MetaVec;
use crate::sys::print;

/// Larger objects are freed at once: filling them under the heap's lock would take long, and who
/// frees as much as this is seldom the one who uses it afterwards.
pub const LARGEST: usize = 64 << 10;
/// So many objects wait at most. More: errors are found later after they happened, too; fewer: an
/// object comes out before it is used again.
const MOST: usize = 4096;
/// And so many bytes.
const MOST_BYTES: usize = 4 << 20;
/// Eight of them are no address on x86-64 or AArch64.
const FILL: u8 = 0xdf;

#[derive(Clone, Copy)]
struct Place {
    object: Address,
    bytes: usize,
}

/// What waits, in the order in which it was freed.
pub struct Waiting {
    /// A ring of [`MOST`], or none.
    places: MetaVec<Place>,
    /// The first that waits.
    first: usize,
    count: usize,
    bytes: usize,
}

impl Waiting {
    /// Nothing.
    pub(in crate::heap) const fn new() -> Self {
        Self { places: MetaVec::new(), first: 0, count: 0, bytes: 0 }
    }

    /// Nothing waits any more.
    pub(in crate::heap) fn clear(&mut self) {
        (self.first, self.count, self.bytes) = (0, 0, 0);
    }

    /// Whether one has to leave before one of so many bytes comes.
    fn is_full(&self, bytes: usize) -> bool {
        self.count == MOST || self.bytes + bytes > MOST_BYTES
    }

    /// Takes the oldest out.
    fn leave(&mut self) -> Option<Address> {
        self.count = self.count.checked_sub(1)?;
        let place = self.places[self.first];
        self.first = (self.first + 1) % MOST;
        self.bytes -= place.bytes;
        Some(place.object)
    }

    /// Puts one behind the others, which are fewer than [`MOST`]. Without memory for them it waits
    /// for the end of the next marking.
    fn enter(&mut self, object: Address, bytes: usize) {
        let place = Place { object, bytes };
        if self.places.is_empty() && self.places.try_resize(MOST, place).is_err() {
            return;
        }
        self.places[(self.first + self.count) % MOST] = place;
        self.count += 1;
        self.bytes += bytes;
    }
}

impl Inner {
    /// Fills a freed object, which is not in here, and keeps its cell for a while.
    pub fn quarantine(&mut self, heap: &Heap, cell: &Cell<'_>) {
        let byte = fill_of(heap, cell);
        fill(cell, byte);
        self.deferred_frees.note(heap, cell.start, Some(byte));
        if heap.state.marking.load(Relaxed) {
            return;
        }
        if !self.is_swept() && !cell.bits.is_marked(cell.index) {
            heap.note_marked(cell.block, cell.header);
            cell.bits.mark::<true>(cell.index);
        }
        while self.deferred_frees.waiting.is_full(cell.bytes()) {
            self.release_oldest(heap);
        }
        self.deferred_frees.waiting.enter(cell.start, cell.bytes());
    }

    fn release_oldest(&mut self, heap: &Heap) {
        if let Some(object) = self.deferred_frees.waiting.leave()
            && let Some(fill) = self.deferred_frees.remove(object)
            && let Some(cell) = heap.object_at(object.0)
        {
            check(&cell, fill);
            self.free_cell(heap, &cell);
        }
    }
}

/// What an object is filled with: zeros where the program's own functions trace it, or a word of it
/// says how, since a marker may come to it.
fn fill_of(heap: &Heap, cell: &Cell<'_>) -> u8 {
    match cell.header.layout() {
        NO_LAYOUT => FILL,
        layout => match heap.layouts.shape(LayoutId(layout)) {
            Shape::Function { .. } => 0,
            _ => FILL,
        },
    }
}

/// Its words; markers may read them, and a program that errs may write them.
fn words<'a>(cell: &Cell<'a>) -> &'a [AtomicU64] {
    let count = cell.bytes() / size_of::<AtomicU64>();
    // SAFETY: a cell is whole words; its memory is committed, and stays while its block is there.
    unsafe { core::slice::from_raw_parts(cell.start.pointer::<AtomicU64>(), count) }
}

fn fill(cell: &Cell<'_>, byte: u8) {
    let word = u64::from_ne_bytes([byte; 8]);
    words(cell).iter().for_each(|place| place.store(word, Relaxed));
}

/// Ends the process if an object that was filled holds something else.
pub(in crate::heap) fn check(cell: &Cell<'_>, fill: Option<u8>) {
    let Some(fill) = fill else { return };
    let wanted = u64::from_ne_bytes([fill; 8]);
    if words(cell).iter().any(|place| place.load(Relaxed) != wanted) {
        say_written(cell, fill);
    }
}

#[cold]
fn say_written(cell: &Cell<'_>, fill: u8) {
    let bytes = words(cell).iter().flat_map(|place| place.load(Relaxed).to_ne_bytes());
    // The program may have put back what it changed.
    let offset = bytes.enumerate().find_map(|(offset, byte)| (byte != fill).then_some(offset));
    print::fatal(format_args!(
        "the program wrote to byte {} of the object of {} bytes at {:#x} after it had freed it; a \
         debugger's watchpoint there, or AddressSanitizer, finds who does",
        offset.unwrap_or(0),
        cell.bytes(),
        cell.start.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;

    fn hardened() -> Heap {
        let heap = Heap::new();
        heap.harden(false);
        heap.reserve(64 << 20).unwrap();
        heap
    }

    #[test]
    fn a_freed_object_waits_until_others_were_freed() {
        let heap = hardened();
        let mut inner = heap.inner();
        let mut objects = Vec::new();
        while objects.len() <= MOST {
            let block = inner.fresh_block(&heap, SpaceId::of(Kind::Leaf, 3), 0, true).unwrap();
            let cells = heap.header(block).cells();
            heap.bits(block).set_range(0..cells, false, true, true);
            let bytes = heap.header(block).cell_bytes();
            objects.extend((0..cells as usize).map(|cell| heap.address(block).add(cell * bytes)));
        }
        let mut free = |object: Address| {
            let cell = heap.object_at(object.0).unwrap();
            inner.quarantine(&heap, &cell);
        };
        objects[..MOST].iter().for_each(|object| free(*object));
        let cell = heap.object_at(objects[0].0).unwrap();
        assert!(
            words(&cell).iter().all(|place| place.load(Relaxed) == u64::from_ne_bytes([FILL; 8]))
        );
        free(objects[MOST]);
        assert!(heap.object_at(objects[0].0).is_none());
        assert!(heap.object_at(objects[1].0).is_some(), "[heap.inv.quarantine]");
        assert!(inner.deferred_frees.holds(objects[1]));
        assert!(inner.free_deferred(&heap, usize::MAX));
        assert!(heap.object_at(objects[MOST].0).is_none());
        assert!(inner.deferred_frees.waiting.leave().is_none());
    }
}
