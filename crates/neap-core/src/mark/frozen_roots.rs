//! Frozen objects as roots: they are marked for good, so nobody scans them because they were
//! reached.
//!
//! Invariant: after [`Marker::scan_frozen`] every word of every frozen object was looked at once in
//! this cycle, or leads where nothing is to be marked (`[heap.inv.closed]`). What the program
//! writes into one later, while it runs, is found on written pages like everything else. Called by
//! the driver, while no other marker works.
//!
//! # Safety
//!
//! Reads frozen objects, which are allocated cells and go only when marking is over. The program
//! may write to them meanwhile; a word is read whole.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::drain::Marker;
use super::entry::Entry;
use crate::addr::{CHUNK_FRAMES, CellIndex, FRAME_BYTES, Frame, WORD_BYTES};
use crate::heap::Heap;
use crate::heap::blocks::header::{Header, State};
use crate::heap::kind::Scan;
use crate::heap::layout::{LayoutId, Shape};
use crate::heap::lookup::Cell;

/// Grey words after which marking goes on before further frozen objects are scanned. Larger: more
/// work to share at once; smaller: a shorter stack.
const ENOUGH: usize = 1 << 14;

/// What becomes of frames that led to permanent objects only when they were scanned last, and
/// were not written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// They are not scanned again. For a cycle that protected the watch, and was told of written
    /// pages, before.
    LeftOut,
    /// They are scanned like others: nobody has asked for written pages.
    Scanned,
}

impl Marker<'_> {
    /// Scans the frozen objects, in the order of their addresses, and keeps what they point to that
    /// is not frozen.
    pub fn scan_frozen(&mut self, closed: Closed) {
        let heap = self.heap();
        if heap.state.frozen_bytes.load(Relaxed) == 0 {
            return;
        }
        let end = Frame::containing(heap.committed());
        let mut frame = Frame(0);
        while frame < end {
            let at_chunk = frame.in_chunk() == 0;
            if closed == Closed::LeftOut && at_chunk && heap.inner().frames.is_closed(frame.chunk())
            {
                frame = frame.add(CHUNK_FRAMES);
                continue;
            }
            let (block, header) = heap.block_of(frame);
            if header.state() == State::Free {
                frame = frame.add(1);
                continue;
            }
            if header.is_frozen() {
                self.scan_frozen_block(block, header, closed);
            }
            frame = block.add(header.span().max(1) as usize).max(frame.add(1));
        }
    }

    fn scan_frozen_block(&mut self, block: Frame, header: &Header, closed: Closed) {
        let whole = block..block.add(header.span().max(1) as usize);
        match (header.scan(), header.state()) {
            (Scan::Leaf, _) => {}
            (Scan::Conservative, State::Large) => {
                if !self.heap().bits(block).is_marked(CellIndex(0)) {
                    return;
                }
                let bytes = header.requested();
                let start = self.heap().address(block).0;
                for (index, frame) in (whole.start.0..whole.end.0).map(Frame).enumerate() {
                    let low = start + (index * FRAME_BYTES).min(bytes);
                    let high = start + ((index + 1) * FRAME_BYTES).min(bytes);
                    // SAFETY: part of an allocated cell.
                    self.scan_unless_closed(frame..frame.add(1), closed, |marker| unsafe {
                        marker.push_unfrozen(low, high)
                    });
                }
            }
            _ => self.scan_unless_closed(whole, closed, |marker| {
                marker.scan_frozen_cells(block, header)
            }),
        }
    }

    /// Scans frames by `scan`, which says whether they are closed, unless they are known to be.
    fn scan_unless_closed(
        &mut self,
        frames: Range<Frame>,
        closed: Closed,
        scan: impl FnOnce(&mut Self) -> bool,
    ) {
        let heap = self.heap();
        let left_out = closed == Closed::LeftOut;
        if left_out && heap.inner().frames.are_closed(frames.clone()) {
            return;
        }
        if scan(self) && left_out {
            heap.inner().frames.note_closed(frames);
        }
        if self.pending() > ENOUGH {
            self.drain();
        }
    }

    /// Scans a block's objects; whether all that they point to is frozen.
    fn scan_frozen_cells(&mut self, block: Frame, header: &Header) -> bool {
        let heap = self.heap();
        let (bits, cell_bytes) = (heap.bits(block), header.cell_bytes());
        let mut closed = true;
        for word in 0..header.cells().div_ceil(64) as usize {
            let mut left = bits.mark_word(word);
            while left != 0 {
                let index = CellIndex(word as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
                let start = heap.address(block).add(index.0 as usize * cell_bytes);
                closed &= if header.scan() == Scan::Conservative {
                    // SAFETY: a cell of a block is readable.
                    unsafe { self.push_unfrozen(start.0, start.0 + cell_bytes) }
                } else {
                    self.scan_typed_unfrozen(&Cell { block, header, bits, index, start })
                };
            }
        }
        closed
    }

    /// Pushes the words of a range that point into blocks that are not frozen: most pointers of
    /// frozen objects lead to others, which are marked, and whose headers take less to look at than
    /// they do. True if there were none.
    ///
    /// # Safety
    /// The range is readable and its ends are multiples of a word.
    unsafe fn push_unfrozen(&mut self, low: usize, high: usize) -> bool {
        let heap = self.heap();
        let mut closed = true;
        for address in (low..high).step_by(WORD_BYTES) {
            // SAFETY: the caller's promise; the program may write at the same time, and a word is
            // read whole.
            let word = unsafe { (*(address as *const AtomicUsize)).load(Relaxed) };
            if leads_out(heap, word) {
                closed = false;
                self.word(word);
            }
        }
        self.push_before_image(low, high);
        closed
    }

    /// The same for an object with a layout. What a function of the program finds there is not
    /// known.
    fn scan_typed_unfrozen(&mut self, cell: &Cell<'_>) -> bool {
        let shape = self.heap().layouts.shape(LayoutId(cell.header.layout()));
        if matches!(shape, Shape::Function { .. }) {
            self.scan_object(cell);
            return false;
        }
        let (mut closed, mut next) = (true, Some(cell.start.0));
        self.had_no_room = false;
        // What is left of it for later would not be known: slice by slice.
        while let Some(from) = next {
            let kept = self.pending();
            self.scan_from(cell, from);
            next = self.drop_frozen(kept);
            closed &= self.pending() == kept;
            if self.pending() > ENOUGH {
                self.drain();
            }
        }
        // What found no room on the stack is not known either.
        closed && !self.had_no_room
    }

    /// Drops what a slice pushed, from place `kept` on, that points to frozen objects; gives where
    /// the next slice begins.
    fn drop_frozen(&mut self, kept: usize) -> Option<usize> {
        let heap = self.heap();
        let entries = self.stack.entries();
        let (mut left, mut next) = (kept, None);
        for at in kept..entries.len() {
            let stays = match Entry::decode(entries[at]) {
                Entry::Word(word) => leads_out(heap, word),
                Entry::Rest(from) => {
                    next = Some(from);
                    false
                }
                Entry::Written(_) => true,
            };
            entries[left] = entries[at];
            left += stays as usize;
        }
        entries.truncate(left);
        next
    }
}

/// Whether a word points to where objects that are not frozen lie, or may come to lie.
fn leads_out(heap: &Heap, word: usize) -> bool {
    if word.wrapping_sub(heap.base().0) >= heap.reserved() {
        return false;
    }
    !heap.contains(word) || !heap.block_of(Frame::containing(word - heap.base().0)).1.is_frozen()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::{buffer, refill, resize};
    use crate::heap::Heap;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::classes;
    use crate::heap::frames::watched::Chosen;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;
    use crate::mark::markers::Markers;

    #[test]
    fn what_frozen_objects_point_to_is_marked_and_they_are_not_counted() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let local = buffer::tests::local();
        let id = SpaceId::of(Kind::Conservative, classes::class_of(16));
        let allocate = || {
            let buffer = local.buffer(id).unwrap();
            match buffer.bump(16) {
                0 => {
                    refill::refill(&heap, local, buffer, id).unwrap();
                    buffer.bump(16)
                }
                cell => cell,
            }
        };
        let cells: Vec<usize> = (0..3000).map(|_| allocate()).collect();
        local.let_go(&heap);
        heap.inner().freeze(&heap);
        let (reached, further, lost) = (allocate(), allocate(), allocate());
        // SAFETY: objects of ours, 16 bytes each.
        unsafe {
            *(cells[2500] as *mut usize) = cells[0];
            *((cells[2500] + 8) as *mut usize) = reached;
            *(reached as *mut usize) = further;
        }
        heap.clear_marks();
        let markers = Markers::new();
        let mut marker = Marker::new(&markers, &heap, 0);
        marker.scan_frozen(Closed::Scanned);
        marker.drain();
        assert_eq!(
            [reached, further, lost].map(|object| heap.is_marked(object)),
            [true, true, false]
        );
        assert_eq!(marker.marked_bytes, 32);
        assert!(cells.iter().all(|cell| heap.is_marked(*cell)));
    }

    /// As the watch does: all of it is known and protected.
    fn protect(heap: &Heap) {
        let frames = &mut heap.inner().frames;
        let mut unknown = Vec::new();
        frames.for_each_unregistered(|first, count| unknown.push((first, count)));
        unknown.into_iter().for_each(|(first, count)| frames.note_registered(first, count));
        frames.protect(2, |_, unprotected, _| Chosen::all_of(unprotected), |_| {});
    }

    fn closed(heap: &Heap, object: usize, frames: usize) -> bool {
        let first = Frame::containing(object - heap.base().0);
        heap.inner().frames.are_closed(first..first.add(frames))
    }

    /// Whether a cycle that goes by what is closed marks `object`.
    fn finds(heap: &Heap, object: usize) -> bool {
        heap.clear_marks();
        let markers = Markers::new();
        let mut marker = Marker::new(&markers, heap, 0);
        marker.scan_frozen(Closed::LeftOut);
        marker.drain();
        heap.is_marked(object)
    }

    #[test]
    fn what_leads_to_frozen_objects_only_is_scanned_again_when_it_was_written() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let large = |bytes| {
            let mut inner = heap.inner();
            let (block, _) =
                inner.large_block(&heap, Kind::Conservative, NO_LAYOUT, bytes, true).unwrap();
            inner.publish_large(&heap, block);
            heap.address(block).0
        };
        // Six frames of words, and objects that they point to.
        let (table, other) = (large(6 * FRAME_BYTES), large(40_000));
        let wide = large(7 * FRAME_BYTES);
        let store = |frame: usize, word: usize| {
            // SAFETY: in the table.
            unsafe { *((table + frame * FRAME_BYTES + 64) as *mut usize) = word };
        };
        let written = |frame: usize| {
            let first = Frame::containing(table - heap.base().0).add(frame);
            heap.inner().frames.forget_closed(first..first.add(1));
        };
        store(1, table);
        store(4, other);
        heap.inner().freeze(&heap);
        protect(&heap);
        let young = large(50_000);
        assert!(!finds(&heap, young));
        assert!(closed(&heap, table, 6));
        store(4, young);
        assert!(!finds(&heap, young), "nobody said that it was written");
        written(3);
        assert!(!finds(&heap, young), "this one was not");
        written(4);
        assert!((0..3).all(|_| finds(&heap, young)), "as long as it leads there");
        store(4, 0);
        assert!(!finds(&heap, young) && closed(&heap, table, 6));
        store(0, young);
        heap.clear_marks();
        let markers = Markers::new();
        let mut marker = Marker::new(&markers, &heap, 0);
        marker.scan_frozen(Closed::Scanned);
        marker.drain();
        assert!(heap.is_marked(young), "a cycle without a watch scans everything");
        // The freed one may make room for something else.
        store(0, other);
        written(0);
        assert!(!finds(&heap, young) && closed(&heap, table, 6));
        heap.inner().free_large(&heap, Frame::containing(other - heap.base().0));
        let third = large(40_000);
        assert_eq!(third, other);
        assert!(finds(&heap, third));
        // As may what one gives up that shrinks where it is.
        store(0, wide + 4 * FRAME_BYTES);
        written(0);
        assert!(!finds(&heap, third) && closed(&heap, table, 6));
        let shrinks = || resize::in_place(&heap, &heap.object_at(wide).unwrap(), 4 * FRAME_BYTES);
        heap.state.marking.store(true, Relaxed);
        assert!(!shrinks(), "a marker may be about to note a frame as closed");
        heap.state.marking.store(false, Relaxed);
        assert!(shrinks());
        let fourth = large(40_000);
        assert_eq!(fourth, wide + 4 * FRAME_BYTES);
        assert!(finds(&heap, fourth), "[heap.inv.closed]");
    }

    #[test]
    fn objects_with_a_layout_are_closed_by_the_words_it_names() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let shape = Shape::Bitmap { element_words: 2, bits: &[0b10] };
        let layout = heap.layouts.intern(shape).unwrap();
        let typed = |bytes| {
            let mut inner = heap.inner();
            let (block, _) =
                inner.large_block(&heap, Kind::Conservative, layout.0, bytes, true).unwrap();
            inner.publish_large(&heap, block);
            heap.address(block).0
        };
        // The second is scanned in several slices.
        let objects = [40_000, 200_000].map(|bytes| (typed(bytes), bytes));
        heap.inner().freeze(&heap);
        protect(&heap);
        let young = typed(50_000);
        for (object, bytes) in objects {
            let frames = bytes.div_ceil(FRAME_BYTES);
            let store = |place: usize, word: usize| {
                // SAFETY: in the object.
                unsafe { *((object + place) as *mut usize) = word };
                let first = Frame::containing(object - heap.base().0);
                heap.inner().frames.forget_closed(first..first.add(frames));
            };
            store(32, young);
            assert!(!finds(&heap, young) && closed(&heap, object, frames), "no pointer");
            for place in [40, bytes / 2 + 8, bytes - 8] {
                store(place, young);
                assert!(finds(&heap, young) && finds(&heap, young));
                store(place, object);
                assert!(!finds(&heap, young) && closed(&heap, object, frames));
            }
        }
    }
}
