//! What a cycle left: live objects of each kind and size class, and how full each stretch of the
//! heap is, counted from the mark bits.
//!
//! Invariant: a census is of one cycle: if marks change while it is taken, it is thrown away.
//! Called by the recorder, world running.

use core::sync::atomic::Ordering::*;

use neap_record::{Census, KINDS, TYPED};

use crate::addr::{CHUNK_BYTES, FRAME_BYTES, Frame};
use crate::heap::Heap;
use crate::heap::blocks::header::{NO_LAYOUT, State};
use crate::heap::classes::{CLASSES, class_of};
use crate::heap::kind::Kind;

/// Classes of a census: the size classes, and one of all large objects.
pub const GROUPS: usize = CLASSES + 1;
/// A map has at most so many stretches; larger heaps have larger ones.
pub const MOST_STRETCHES: usize = 2048;

/// Counts of one cycle.
pub struct Taken {
    /// By kind and class.
    pub classes: [[Census; GROUPS]; KINDS],
    /// Bytes of a stretch.
    pub stretch_bytes: usize,
    /// Live bytes of each stretch.
    live: [u64; MOST_STRETCHES],
    /// The map made of them.
    pub filled: [u8; MOST_STRETCHES],
    /// Stretches in use.
    pub stretches: usize,
}

impl Taken {
    /// Nothing counted.
    pub const fn new() -> Self {
        const NOTHING: Census = Census { live_objects: 0, live_bytes: 0, cells: 0, block_bytes: 0 };
        Self {
            classes: [[NOTHING; GROUPS]; KINDS],
            stretch_bytes: 0,
            live: [0; MOST_STRETCHES],
            filled: [0; MOST_STRETCHES],
            stretches: 0,
        }
    }

    /// Counts what the last cycle marked; false if there was none, or another began meanwhile.
    pub fn take(&mut self, heap: &Heap) -> bool {
        let before = heap.state.marks.load(Acquire);
        if before == 0 || before % 2 == 1 {
            return false;
        }
        self.begin(heap);
        heap.for_each_block(|block, header| {
            let kind = if header.layout() != NO_LAYOUT {
                TYPED
            } else {
                Kind::from_parts(header.scan(), header.is_uncollectable()) as usize
            };
            let (cell_bytes, cells) = (header.cell_bytes(), header.cells());
            let group = if header.state() == State::Large { CLASSES } else { class_of(cell_bytes) };
            let objects = u64::from(heap.bits(block).marked(cells));
            // A block that ends or begins meanwhile may be read half.
            let Some(census) = self.classes[kind].get_mut(group) else { return };
            if objects == 0 {
                // The sweep ends it: it is room, not fragmentation.
                return;
            }
            let bytes = objects * cell_bytes as u64;
            census.live_objects += objects;
            census.live_bytes += bytes;
            census.cells += u64::from(cells);
            census.block_bytes += u64::from(header.span()) * FRAME_BYTES as u64;
            self.spread(block, u64::from(header.span()) * FRAME_BYTES as u64, bytes);
        });
        for (filled, live) in self.filled.iter_mut().zip(&self.live[..self.stretches]) {
            let part = (live * 255).div_ceil(self.stretch_bytes as u64);
            *filled = part.min(255) as u8;
        }
        heap.state.marks.load(Acquire) == before
    }

    fn begin(&mut self, heap: &Heap) {
        let chunks = heap.committed() / CHUNK_BYTES;
        // At first a stretch is an eighth of a chunk.
        let mut stretch = CHUNK_BYTES / 8;
        while heap.committed().div_ceil(stretch) > MOST_STRETCHES {
            stretch *= 2;
        }
        self.stretch_bytes = stretch;
        self.stretches = (chunks * CHUNK_BYTES).div_ceil(stretch).min(MOST_STRETCHES);
        self.classes = [[Census::default(); GROUPS]; KINDS];
        self.live = [0; MOST_STRETCHES];
    }

    /// Spreads a block's live bytes evenly over the stretches that it lies in.
    fn spread(&mut self, block: Frame, span_bytes: u64, bytes: u64) {
        let (start, stretch) = (block.offset() as u64, self.stretch_bytes as u64);
        let end = start + span_bytes.max(1);
        let mut at = start;
        while at < end {
            let index = at / stretch;
            let next = ((index + 1) * stretch).min(end);
            if let Some(live) = self.live.get_mut(index as usize) {
                *live +=
                    (u128::from(bytes) * u128::from(next - at) / u128::from(end - start)) as u64;
            }
            at = next;
        }
    }

    /// Kinds and classes that have blocks.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64, Census)> + '_ {
        self.classes.iter().enumerate().flat_map(|(kind, classes)| {
            classes
                .iter()
                .enumerate()
                .filter(|(_, census)| census.cells > 0)
                .map(move |(class, census)| (kind as u64, class as u64, *census))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::buffer::tests::local;
    use crate::alloc::large;
    use crate::alloc::refill::refill;
    use crate::heap::spaces::SpaceId;

    #[test]
    fn counts_marked_objects_of_each_class() {
        let (heap, local) = (Heap::new(), local());
        heap.reserve(64 << 20).unwrap();
        let id = SpaceId::of(Kind::Leaf, class_of(64));
        let buffer = local.buffer(id).unwrap();
        refill(&heap, local, buffer, id).unwrap();
        let cells: [usize; 5] = core::array::from_fn(|_| buffer.bump(64));
        let note = core::sync::atomic::AtomicU32::new(0);
        let unpublished =
            large::take(&heap, &note, Kind::Conservative, NO_LAYOUT, 300_000).unwrap();
        large::publish(&heap, &note, &unpublished);
        let mut taken = Box::new(Taken::new());
        assert!(!taken.take(&heap), "there was no cycle");
        heap.clear_marks();
        for object in [cells[0], cells[3], unpublished.start.0] {
            let cell = heap.object_at(object).unwrap();
            cell.bits.mark::<false>(cell.index);
        }
        assert!(!taken.take(&heap), "marking is under way");
        heap.state.marks.store(2, Release);
        assert!(taken.take(&heap));
        let entries: Vec<_> = taken.entries().collect();
        assert_eq!(entries.len(), 2);
        let (kind, class, large) = entries[0];
        assert_eq!((kind, class, large.live_objects, large.cells), (0, CLASSES as u64, 1, 1));
        assert_eq!(large.live_bytes, unpublished.bytes as u64);
        let (kind, class, small) = entries[1];
        assert_eq!((kind, class as usize, small.live_objects), (1, class_of(64), 2));
        assert_eq!((small.live_bytes, small.cells), (128, (FRAME_BYTES / 64) as u64));
        let spread: u64 = taken.live.iter().sum();
        let live = unpublished.bytes as u64 + 128;
        assert!(spread <= live && spread + 4 >= live, "{spread} of {live}");
        assert!(taken.filled[..taken.stretches].iter().any(|filled| *filled > 0));
    }
}
