//! Frozen objects as roots: they are marked for good, so nobody scans them because they were reached.
//!
//! Invariant: after [`Marker::scan_frozen`] every word of every frozen object was looked at once in this cycle. What the program writes into one later, while it runs, is found on written
//! pages like everything else. Called by the driver, before the team works.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::drain::Marker;
use crate::addr::{CellIndex, Granule, WORD_BYTES};
use crate::heap::header::{Header, State};
use crate::heap::kind::Scan;
use crate::heap::lookup::Cell;

/// Grey words after which marking goes on before further frozen objects are scanned. Larger: more work to share at once; smaller: a shorter stack.
const ENOUGH: usize = 1 << 14;

impl Marker<'_> {
    /// Scans all frozen objects, in the order of their addresses, and keeps what they point to that is not frozen.
    pub fn scan_frozen(&mut self) {
        let heap = self.heap();
        if heap.state.frozen_bytes.load(Relaxed) == 0 {
            return;
        }
        heap.for_each_block(|block, header| {
            if header.is_frozen() && header.scan() != Scan::Leaf {
                self.scan_frozen_block(block, header);
            }
            if self.pending() > ENOUGH {
                self.drain();
            }
        });
    }

    fn scan_frozen_block(&mut self, block: Granule, header: &Header) {
        let heap = self.heap();
        let (bits, cell_bytes) = (heap.bits(block), header.cell_bytes());
        for word in 0..header.cells().div_ceil(64) as usize {
            let mut left = bits.mark_word(word);
            while left != 0 {
                let index = CellIndex(word as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
                let start = heap.address(block).add(index.0 as usize * cell_bytes);
                if header.scan() == Scan::Conservative && header.state() == State::Small {
                    // SAFETY: a cell of a block is readable.
                    unsafe { self.push_unfrozen(start.0, start.0 + cell_bytes) };
                } else {
                    self.scan_object(&Cell { block, header, index, start });
                }
            }
        }
    }

    /// Pushes the words of a range that point into blocks that are not frozen: most pointers of frozen objects lead to others, which are marked, and whose headers take less to look at than they do.
    ///
    /// # Safety
    /// The range is readable and its ends are multiples of a word.
    unsafe fn push_unfrozen(&mut self, low: usize, high: usize) {
        let heap = self.heap();
        for address in (low..high).step_by(WORD_BYTES) {
            // SAFETY: the caller's promise; the program may write at the same time, and a word is read whole.
            let word = unsafe { (*(address as *const AtomicUsize)).load(Relaxed) };
            if !heap.contains(word) {
                continue;
            }
            let granule = Granule::containing(word - heap.base().0);
            let mut header = heap.header(granule);
            if header.state() == State::Continuation {
                header = heap.header(Granule(granule.0 - header.span()));
            }
            if !header.is_frozen() {
                self.word(word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::{refill, run};
    use crate::heap::Heap;
    use crate::heap::classes;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;
    use crate::mark::team::Team;

    #[test]
    fn what_frozen_objects_point_to_is_marked_and_they_are_not_counted() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let local = run::tests::local();
        let id = SpaceId::of(Kind::Conservative, classes::class_of(16));
        let allocate = || {
            let run = local.run(id).unwrap();
            match run.bump(16) {
                0 => {
                    refill::refill(&heap, local, run, id, true).unwrap();
                    run.bump(16)
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
        let team = Team::new();
        let mut marker = Marker::new(&team, &heap, 0);
        marker.scan_frozen();
        marker.drain();
        assert_eq!(
            [reached, further, lost].map(|object| heap.is_marked(object)),
            [true, true, false]
        );
        assert_eq!(marker.marked_bytes, 32);
        assert!(cells.iter().all(|cell| heap.is_marked(*cell)));
    }
}
