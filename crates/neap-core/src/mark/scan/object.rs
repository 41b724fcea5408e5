//! Scanning one marked object: pushes the words of it that may be pointers, by its kind or layout,
//! large ones in slices.
//!
//! Invariant: an object that is put aside for the program's thread counts as scanned only when that
//! has called its function `[mark.inv.traced]`. Called by markers, while they drain and for what
//! others found marked.
//!
//! # Safety
//!
//! Reads the words of marked objects, whose cells stay readable while a cycle marks. Trace
//! functions are called for objects of the layout that they were registered for.

#![allow(unsafe_code)]

use core::ffi::c_void;

use super::typed::scan_typed;
use crate::addr::WORD_BYTES;
use crate::heap::blocks::header::State;
use crate::heap::calls::Calls;
use crate::heap::kind::Scan;
use crate::heap::layout::{LayoutId, Shape};
use crate::heap::lookup::Cell;
use crate::mark::drain::{LOOKED_AT_BYTES, Marker};
use crate::mark::entry::Entry;
use crate::mark::tracer::Tracer;
use crate::sys::program_call::{self, Lost};
use crate::sys::side_stack;

/// Bytes of a large object scanned at once. Larger: less overhead; smaller: more to share, and a
/// shallower stack.
const SLICE_BYTES: usize = 64 << 10;

/// Pointers are not rare if they are more than this part of what is looked at.
const MANY: usize = 16;

/// Whether more than half of these words are the fourth of them before.
fn repeat_each_other(found: &[usize]) -> bool {
    let fourths = found.windows(5).filter(|words| words[0] == words[4]);
    fourths.count() > found.len() / 2
}

impl Marker<'_> {
    /// Pushes what a marked object points to.
    #[inline(always)]
    pub fn scan_object(&mut self, cell: &Cell<'_>) {
        match cell.header.scan() {
            Scan::Leaf => {}
            Scan::Conservative if cell.header.state() == State::Small => {
                // SAFETY: an allocated cell is readable.
                unsafe { self.push_from(cell.start.0, cell.start.0 + cell.bytes()) };
                self.push_before_image(cell.start.0, cell.start.0 + cell.bytes());
            }
            _ => self.scan_from(cell, cell.start.0),
        }
    }

    /// The same without the words that point into `own`, for a finalizer that ignores its object's
    /// pointers to itself.
    pub fn scan_object_except(&mut self, cell: &Cell<'_>, own: core::ops::Range<usize>) {
        let mut kept = self.stack.len();
        self.scan_object(cell);
        while kept < self.stack.len() {
            match Entry::decode(self.stack.entries()[kept]) {
                Entry::Word(word) if own.contains(&word) => {
                    _ = self.stack.entries().swap_remove(kept)
                }
                Entry::Rest(from) if own.contains(&from) => {
                    self.stack.entries().swap_remove(kept);
                    self.scan_from(cell, from);
                }
                _ => kept += 1,
            }
        }
    }

    /// Scans a slice of an object from `from` on and keeps the rest for later.
    #[inline(never)]
    pub(in crate::mark) fn scan_from(&mut self, cell: &Cell<'_>, from: usize) {
        let end = cell.start.0 + cell.usable_bytes();
        let (base, length) = (self.heap().base().0, self.heap().committed());
        if cell.header.scan() == Scan::Conservative {
            // Since it was looked up a resize may have taken this part away.
            if from >= end {
                return;
            }
            let stop = self.slice(from, end, WORD_BYTES);
            // Much of what is so large has few pointers or none: buffers, tables of numbers.
            let (looked_at, before) = (stop.min(from + LOOKED_AT_BYTES), self.stack.len());
            // SAFETY: an allocated cell is readable.
            unsafe { self.push_from(from, looked_at) };
            let found = self.stack.entries().get(before..).unwrap_or_default();
            let is_rare = found.len() * WORD_BYTES < LOOKED_AT_BYTES / MANY;
            if is_rare || repeat_each_other(found) {
                // SAFETY: as above.
                unsafe { self.range(looked_at, stop) };
            } else {
                // SAFETY: as above.
                unsafe { self.push_from(looked_at, stop) };
            }
            self.push_before_image(from, stop);
            return;
        }
        let heap = self.heap();
        match heap.layouts.shape(LayoutId(cell.header.layout())) {
            Shape::Bitmap { element_words, bits } => {
                let stop = self.slice(from, end, element_words * WORD_BYTES);
                // SAFETY: as above.
                unsafe {
                    scan_typed(from, stop, element_words, bits, base, length, |word| {
                        self.push(word)
                    })
                };
                self.push_before_image_named(from, stop, element_words, bits);
            }
            Shape::Leaf => {}
            Shape::Prefix { bytes } => {
                let end = end.min(cell.start.0.saturating_add(bytes & !(WORD_BYTES - 1)));
                let stop = self.slice(from, end, WORD_BYTES);
                // SAFETY: as above.
                unsafe { self.push_from(from.min(stop), stop) };
                self.push_before_image(from.min(stop), stop);
            }
            Shape::Function { function, environment, calls } => {
                let in_pause = self.place == 0 && self.markers().runs_functions();
                // A program's functions run on a thread of the program that drives a stop: they may
                // rely on its thread-local state.
                if calls == Calls::Always && !in_pause {
                    return self.markers().put_aside(cell.start.0);
                }
                let mut tracer = Tracer::of_object(self, in_pause);
                let (bytes, shown) = (end - cell.start.0, (&raw mut tracer).cast::<c_void>());
                if in_pause {
                    let words = [cell.start.0, bytes, environment, shown as usize];
                    // SAFETY: the front end registered the function for objects of this layout.
                    side_stack::off(|| unsafe {
                        program_call::call("trace function", Lost::Roots, function as usize, words)
                    });
                } else {
                    // SAFETY: as above; it calls nothing of the program's.
                    unsafe { function(cell.start.pointer(), bytes, environment, shown) };
                }
                if calls == Calls::Always || tracer.was_asked() {
                    self.note_called(cell, end, in_pause);
                }
            }
        }
    }

    /// The program was called for an object, or is to be, in a pause.
    fn note_called(&mut self, cell: &Cell<'_>, end: usize, in_pause: bool) {
        let layouts = &self.heap().layouts;
        if in_pause {
            if !layouts.has_local_functions() {
                self.markers().aside.note_traced(cell.start.0);
            }
        } else if layouts.has_calls() {
            self.markers().put_aside(cell.start.0);
        } else {
            // Nobody said that there are such objects, so maybe no pause follows in which the
            // program is called: more than it would name.
            layouts.note_calls();
            // SAFETY: an allocated cell is readable.
            unsafe { self.range(cell.start.0, end) };
        }
    }

    /// Where a slice that begins at `from` ends; keeps the rest of the object, if there is one.
    #[inline(always)]
    fn slice(&mut self, from: usize, end: usize, element_bytes: usize) -> usize {
        if end.saturating_sub(from) <= SLICE_BYTES {
            return end;
        }
        let stop = from + (SLICE_BYTES / element_bytes).max(1) * element_bytes;
        let kept = stop < end && self.stack.push(Entry::Rest(stop).encode()).is_ok();
        // Without room for the rest there are no slices.
        if kept { stop } else { end }
    }
}
