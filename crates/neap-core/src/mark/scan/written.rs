//! Scanning again what lies on written pages: the marked objects there may point to what marking
//! has not seen.
//!
//! Invariant: every word of a marked object on the pages is looked at after the pages were
//! protected again (`[watch.inv.protect-before-scan]`). What is not marked yet will be scanned as a
//! whole should it be marked. Called by the marker that owns the cycle's grey stack.
//!
//! # Safety
//!
//! Reads parts of marked objects on written pages: they lie in allocated cells, which stay readable
//! while a cycle marks.

#![allow(unsafe_code)]

use core::ops::Range;

use crate::addr::{Address, CellIndex, FRAME_BYTES, Frame, PAGE_BYTES, WORD_BYTES};
use crate::heap::blocks::header::{Header, State};
use crate::heap::kind::Scan;
use crate::heap::layout::{LayoutId, Shape};
use crate::heap::lookup::Cell;
use crate::mark::drain::Marker;
use crate::mark::entry::Entry;
use crate::mark::scan::typed::scan_typed;

/// Words between a prefetch and the next look. Larger: hides longer latencies; smaller: prefetched
/// lines are still there.
const AHEAD: usize = 16;
/// So many words are collected before they are looked through: what lies on a page is often in rows
/// of few marked objects. Larger: fewer words come without a prefetch; smaller: less mark stack.
const BATCH: usize = 512;

impl Marker<'_> {
    /// Scans the marked objects on the pages of `range`, which lies in the heap; large conservative
    /// ones and small ones only where they lie on it. Gives how many bytes were looked at.
    pub fn rescan(&mut self, range: &Range<usize>) -> usize {
        let heap = self.heap();
        let (mut scanned, mut batch) = (0, self.stack.len());
        let end = Frame::containing(range.end - 1 - heap.base().0);
        let mut frame = Frame::containing(range.start - heap.base().0);
        while frame <= end {
            let (block, header) = heap.block_of(frame);
            let span = match header.state() {
                State::Small | State::Large => header.span().max(1) as usize,
                State::Free => {
                    frame = frame.add(1);
                    continue;
                }
            };
            if header.scan() != Scan::Leaf {
                let end = heap.address(block).0 + span * FRAME_BYTES;
                let within = range.start..range.end.min(end);
                scanned += self.rescan_block(block, header, &within, &mut batch);
            }
            frame = block.add(span).max(frame.add(1));
        }
        self.leave_out_marked(batch);
        scanned
    }

    /// Keeps the pages of `range` for later, so that other markers may take some of them.
    pub fn keep_written(&mut self, range: &Range<usize>) {
        let first = range.start & !(PAGE_BYTES - 1);
        (first..range.end)
            .step_by(PAGE_BYTES)
            .for_each(|page| self.push(Entry::Written(page).encode()));
    }

    /// The marked objects of a block, as far as they reach into `range`. Neighbouring conservative
    /// objects are read in one go. From place `batch` of the stack on there are words that are not
    /// looked through yet.
    fn rescan_block(
        &mut self,
        block: Frame,
        header: &Header,
        range: &Range<usize>,
        batch: &mut usize,
    ) -> usize {
        let heap = self.heap();
        let mut scanned = 0;
        let start = heap.address(block).0;
        let cell_bytes = header.cell_bytes();
        let low = range.start.saturating_sub(start) / cell_bytes;
        let high = (range.end - start).div_ceil(cell_bytes).min(header.cells() as usize);
        let bits = heap.bits(block);
        let mut from = low as u32;
        while let Some(cells) = bits.next_marked_run(from, high as u32) {
            from = cells.end;
            if header.scan() == Scan::Conservative {
                let [first, end] =
                    [cells.start, cells.end].map(|cell| start + cell as usize * cell_bytes);
                let (low, high) = (first.max(range.start), end.min(range.end));
                if high <= low {
                    // A large one that has become smaller meanwhile.
                    continue;
                }
                // SAFETY: part of an allocated cell.
                unsafe { self.push_from(low, high) };
                self.look_through(batch, BATCH);
                scanned += high - low;
                continue;
            }
            scanned += self.rescan_typed(
                &Cell {
                    block,
                    header,
                    bits,
                    index: CellIndex(cells.start),
                    start: Address(start + cells.start as usize * cell_bytes),
                },
                cells.len(),
                range,
                batch,
            );
        }
        scanned
    }

    /// Pushes the words of `count` neighbouring objects with a layout, of which `first` is the
    /// first: all of small ones, of a large array the elements that reach into `range`, and of a
    /// large prefix what lies there. Gives how many bytes were looked at.
    fn rescan_typed(
        &mut self,
        first: &Cell<'_>,
        count: usize,
        range: &Range<usize>,
        batch: &mut usize,
    ) -> usize {
        let (heap, bytes) = (self.heap(), first.bytes());
        let layout = LayoutId(first.header.layout());
        let (base, length) = (heap.base().0, heap.committed());
        let shape = heap.layouts.shape(layout);
        let is_small = first.header.state() == State::Small;
        let named = is_small.then(|| heap.layouts.pointers_of_few(layout, bytes)).flatten();
        for number in 0..count {
            let start = first.start.add(number * bytes);
            let index = CellIndex(first.index.0 + number as u32);
            if let Some(named) = named {
                // SAFETY: an allocated cell is readable, and no bit is beyond it.
                let pushed = unsafe { self.stack.push_named(start.0, named, base, length) };
                if pushed.is_ok() {
                    continue;
                }
            }
            if let Shape::Bitmap { element_words, bits } = shape
                && !is_small
            {
                let element_bytes = element_words * WORD_BYTES;
                let before = range.start.saturating_sub(start.0) / element_bytes;
                let from = start.0 + before * element_bytes;
                let end = range.end.min(start.0 + first.usable_bytes());
                // SAFETY: part of an allocated cell.
                unsafe {
                    let push = |word| self.push(word);
                    scan_typed(from, end, element_words, bits, base, length, push);
                }
                self.look_through(batch, BATCH);
                return end.saturating_sub(from);
            }
            if let Shape::Prefix { bytes } = shape
                && !is_small
            {
                let prefix_end = start.0.saturating_add(bytes & !(WORD_BYTES - 1));
                let from = range.start.max(start.0);
                let end = range.end.min(start.0 + first.usable_bytes()).min(prefix_end).max(from);
                // SAFETY: part of an allocated cell.
                unsafe { self.push_from(from, end) };
                self.look_through(batch, BATCH);
                return end - from;
            }
            if !is_small {
                self.look_through(batch, 0);
            }
            self.scan_object(&Cell { index, start, ..*first });
        }
        match is_small {
            true => self.look_through(batch, BATCH),
            // What a large one pushes is not only words.
            false => *batch = self.stack.len(),
        }
        match shape {
            Shape::Prefix { bytes: prefix } => count * bytes.min(prefix),
            _ => count * bytes,
        }
    }

    /// Looks through the words from place `batch` of the stack on, if they are so many.
    fn look_through(&mut self, batch: &mut usize, least: usize) {
        if self.stack.len() >= *batch + least {
            self.leave_out_marked(*batch);
            *batch = self.stack.len();
        }
    }

    /// Takes back those words on the stack, from place `kept` on, that point to what is marked.
    ///
    /// Most of what an old object points to is marked, and to find that out takes metadata only: so
    /// the words are looked through before any object is fetched, the header of each and its
    /// mark bits prefetched some words ahead.
    fn leave_out_marked(&mut self, kept: usize) {
        let view = self.heap().view();
        let words = &mut self.stack.entries()[kept..];
        let mut left = 0;
        for at in 0..words.len() {
            if let Some(word) = words.get(at + AHEAD) {
                view.prefetch_metadata(*word);
            }
            words[left] = words[at];
            left += view.cell_at(words[at]).is_some_and(|cell| view.is_to_mark(&cell)) as usize;
        }
        self.stack.entries().truncate(kept + left);
    }
}
