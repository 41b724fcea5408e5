//! The marker: pops grey words, finds their objects, marks them, and pushes what they point to,
//! with a short queue between that hides memory latency.
//!
//! Invariant: an object is scanned by the marker that set its mark bit, once. A word that enters
//! the queue has its object's first line, its block's header and its mark bits prefetched, and is
//! looked at several entries later (Cher, Hosking, Vitek, "Software prefetching for mark-sweep
//! garbage collection", ASPLOS 2004). One marker is used by one thread at a time.
//!
//! # Safety
//!
//! Reads the words of objects that the program may be writing. The cells are allocated, hence
//! committed and readable, and stay so while a cycle marks, since nothing is swept then; a word is
//! read whole. Trace functions are called for objects of the layout that they were registered for.

#![allow(unsafe_code)]

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::ffi::c_void;
use core::sync::atomic::Ordering::*;

use super::entry::Entry;
use super::mark_stack::Stack;
use super::markers::{Markers, NEVER};
use super::scan::conservative::scan;
use super::scan::sparse::scan_sparse;
use super::scan::typed::scan_typed;
use super::tracer::{Grey, Tracer};
use crate::addr::{Frame, PAGE_BYTES, WORD_BYTES, whole_words};
use crate::heap::Heap;
use crate::heap::blocks::header::State;
use crate::heap::calls::Calls;
use crate::heap::kind::Scan;
use crate::heap::layout::{LayoutId, Shape};
use crate::heap::lookup::{Cell, View};
use crate::sys::program_call::{self, Lost};
use crate::sys::side_stack;

/// Entries between prefetch and use. Larger: hides longer latencies; smaller: prefetched lines are
/// still there.
const QUEUE: usize = 16;
/// An object of middling size that begins in one cache line ends in the next: that far from its
/// start is prefetched too. Larger: serves larger objects; smaller: fetches less for nothing.
const REACH_BYTES: usize = 40;
/// Bytes of a large object scanned at once. Larger: less overhead; smaller: more to share, and a
/// shallower stack.
const SLICE_BYTES: usize = 64 << 10;

/// One marker.
pub struct Marker<'t> {
    pub(super) markers: &'t Markers,
    heap: &'t Heap,
    /// Its place among the markers; 0 is the one that drives the cycle.
    pub(super) place: usize,
    pub(super) stack: Stack,
    /// Entries between prefetch and use: `waiting` of them from place `oldest` on, in a ring.
    queue: [usize; QUEUE],
    oldest: usize,
    waiting: usize,
    /// When it leaves the rest to others: [`NEVER`], or by the clock in nanoseconds.
    pub(super) end_ns: u64,
    /// What it marked.
    pub marked_bytes: usize,
}

impl<'t> Marker<'t> {
    /// A marker with nothing to do.
    pub fn new(markers: &'t Markers, heap: &'t Heap, place: usize) -> Self {
        Self {
            markers,
            heap,
            place,
            stack: Stack::new(),
            queue: [0; QUEUE],
            oldest: 0,
            waiting: 0,
            end_ns: NEVER,
            marked_bytes: 0,
        }
    }

    /// The heap it marks.
    pub fn heap(&self) -> &'t Heap {
        self.heap
    }

    /// The markers that it is one of.
    pub(super) fn markers(&self) -> &'t Markers {
        self.markers
    }

    /// Makes room for so many grey words; false if the system refuses.
    pub fn reserve(&mut self, entries: usize) -> bool {
        self.stack.entries().try_reserve(entries).is_ok()
    }

    /// Forgets everything that is grey, also what others left, and what was counted.
    pub fn forget_work(&mut self) {
        self.markers.forget_work();
        self.stack.entries().clear();
        self.waiting = 0;
        self.marked_bytes = 0;
    }

    /// Grey words on its stack.
    pub fn pending(&self) -> usize {
        self.stack.len()
    }

    /// Keeps a grey word for later.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: usize) {
        if self.stack.push(entry).is_err() {
            match Entry::decode(entry) {
                Entry::Word(word) => self.mark_without_room(word),
                // What is to be scanned is marked: the pass over all marked objects does it.
                Entry::Rest(_) | Entry::Written(_) => self.markers.note_overflow(),
            }
        }
    }

    /// Where the stack has no room: marks the object at once, and notes that it is still to be
    /// scanned. The pass over all marked objects does that.
    #[cold]
    fn mark_without_room(&mut self, word: usize) {
        if self.mark_alone(word) {
            self.markers.note_overflow();
        }
    }

    /// Marks the object that a word points into, and nothing that it reaches; false if it was
    /// marked, or there is none.
    pub fn mark_alone(&mut self, word: usize) -> bool {
        let Some(cell) = self.heap.cell_at(word) else { return false };
        let marked = cell.bits.mark::<true>(cell.index);
        if marked {
            self.heap.note_marked(cell.block, cell.header);
            self.count(cell.bytes());
        }
        marked
    }

    /// A word that may point into an object.
    #[inline]
    pub fn word(&mut self, word: usize) {
        if self.heap.contains(word) {
            self.push(Entry::Word(word).encode());
        }
    }

    /// Every aligned word of a range may point into an object.
    ///
    /// # Safety
    /// The range is readable.
    pub unsafe fn range(&mut self, low: usize, high: usize) {
        let range = whole_words(&(low..high));
        let (base, length) = (self.heap.base().0, self.heap.committed());
        // SAFETY: the caller's promise.
        unsafe { scan_sparse(range.start, range.end, base, length, |word| self.push(word)) };
    }

    /// Pushes the words of a range that lie in the heap.
    ///
    /// # Safety
    /// The range is readable and its ends are multiples of a word.
    #[inline(always)]
    pub(super) unsafe fn push_from(&mut self, low: usize, high: usize) {
        let (base, length) = (self.heap.base().0, self.heap.committed());
        // SAFETY: the caller's promise.
        if unsafe { self.stack.push_from(low, high, base, length) }.is_err() {
            // SAFETY: as above.
            unsafe { scan(low, high, base, length, |word| self.mark_without_room(word)) };
        }
    }

    /// Marks until there is nothing left that this marker knows of, or its time is up.
    pub fn drain(&mut self) {
        match (self.heap.before_images.is_open(), self.markers.is_shared()) {
            (true, _) => self.drain_as::<true, true>(),
            (false, true) => self.drain_as::<true, false>(),
            (false, false) => self.drain_as::<false, false>(),
        }
    }

    /// `KEPT`: the heap is marked as it was when the program's pages began to be kept.
    fn drain_as<const SHARED: bool, const KEPT: bool>(&mut self) {
        let view = self.heap.view();
        loop {
            let due = match self.stack.pop() {
                Some(entry) => {
                    Self::prefetch(&view, entry);
                    self.exchange_queued(entry)
                }
                None => match self.take_queued() {
                    None if !self.take_back() => return,
                    due => due,
                },
            };
            let Some(due) = due else { continue };
            self.visit::<SHARED, KEPT>(&view, due);
            if SHARED
                && self.oldest.is_multiple_of(SHARE_EVERY)
                && self.stack.len() > SHARE_ABOVE
                && self.markers.wants_work()
            {
                self.share();
            }
            if SHARED
                && self.end_ns != NEVER
                && self.oldest.is_multiple_of(LOOK_AT_CLOCK_EVERY)
                && self.is_late()
            {
                return;
            }
        }
    }

    /// Queues an entry; takes the oldest where there is no room for both.
    #[inline(always)]
    fn exchange_queued(&mut self, entry: usize) -> Option<usize> {
        if self.waiting < QUEUE {
            self.queue[self.oldest.wrapping_add(self.waiting) % QUEUE] = entry;
            self.waiting += 1;
            return None;
        }
        let due = core::mem::replace(&mut self.queue[self.oldest % QUEUE], entry);
        self.oldest = self.oldest.wrapping_add(1);
        Some(due)
    }

    /// Takes the oldest queued entry.
    #[inline(always)]
    pub(super) fn take_queued(&mut self) -> Option<usize> {
        self.waiting = self.waiting.checked_sub(1)?;
        let due = self.queue[self.oldest % QUEUE];
        self.oldest = self.oldest.wrapping_add(1);
        Some(due)
    }

    #[inline(always)]
    fn prefetch(view: &View<'_>, entry: usize) {
        if let Entry::Word(word) = Entry::decode(entry) {
            let frame = Frame::containing(word.wrapping_sub(view.base.0));
            // SAFETY: prefetching any address is harmless.
            unsafe {
                _mm_prefetch(word as *const i8, _MM_HINT_T0);
                _mm_prefetch(word.wrapping_add(REACH_BYTES) as *const i8, _MM_HINT_T0);
                if word.wrapping_sub(view.base.0) < view.length {
                    _mm_prefetch(core::ptr::from_ref(view.header(frame)).cast(), _MM_HINT_T0);
                    _mm_prefetch(view.words(frame).cast(), _MM_HINT_T0);
                }
            }
        }
    }

    #[inline(always)]
    fn visit<const SHARED: bool, const KEPT: bool>(&mut self, view: &View<'_>, entry: usize) {
        if KEPT && self.heap.before_images.has_overflowed() {
            // Nothing that this would find counts any more.
            return;
        }
        let Entry::Word(word) = Entry::decode(entry) else {
            return self.visit_marked(entry);
        };
        let Some(cell) = view.cell_at(word) else { return };
        if !cell.bits.mark::<SHARED>(cell.index) {
            return;
        }
        view.note_marked(cell.block, cell.header);
        let bytes = cell.bytes();
        self.marked_bytes += bytes;
        match cell.header.scan() {
            Scan::Leaf => {}
            Scan::Conservative if cell.header.state() == State::Small => {
                let (low, high) = (cell.start.0, cell.start.0 + bytes);
                // SAFETY: an allocated cell is readable.
                if unsafe { self.stack.push_from(low, high, view.base.0, view.length) }.is_err() {
                    self.scan_object(&cell);
                } else if KEPT {
                    self.push_before_image(low, high);
                }
            }
            Scan::Typed
                if !KEPT
                    && cell.header.state() == State::Small
                    && let Some(named) = self
                        .heap
                        .layouts
                        .pointers_of_few(LayoutId(cell.header.layout()), bytes) =>
            {
                let start = cell.start.0;
                // SAFETY: an allocated cell is readable, and no bit is beyond it.
                if unsafe { self.stack.push_named(start, named, view.base.0, view.length) }.is_err()
                {
                    self.scan_from(&cell, start);
                }
            }
            _ => self.scan_from(&cell, cell.start.0),
        }
    }

    #[cold]
    fn visit_marked(&mut self, entry: usize) {
        match Entry::decode(entry) {
            Entry::Rest(address) => self.visit_rest(address),
            Entry::Written(page) => _ = self.rescan(&(page..page + PAGE_BYTES)),
            Entry::Word(_) => {}
        }
    }

    fn visit_rest(&mut self, address: usize) {
        if let Some(cell) = self.heap.cell_at(address)
            && cell.header.scan() != Scan::Leaf
        {
            // What a resize took from the object meanwhile may be another's by now: then that one
            // is scanned from here on, which is too much and not wrong.
            self.scan_from(&cell, address);
        }
    }

    /// Calls the program's functions for objects that were put aside, until it is `enough`. They
    /// stay so, and are scanned once more when nothing else is left. By the driver, with the world
    /// stopped.
    pub fn trace_aside(&mut self, mut enough: impl FnMut() -> bool) {
        let mut index = 0;
        while let Some(object) = self.markers.aside.at(index).filter(|_| !enough()) {
            self.visit_rest(object);
            index += 1;
        }
    }

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
    fn scan_from(&mut self, cell: &Cell<'_>, from: usize) {
        let end = cell.start.0 + cell.usable_bytes();
        let (base, length) = (self.heap.base().0, self.heap.committed());
        if cell.header.scan() == Scan::Conservative {
            let stop = self.slice(from, end, WORD_BYTES);
            // SAFETY: an allocated cell is readable.
            unsafe { self.push_from(from, stop) };
            self.push_before_image(from, stop);
            return;
        }
        let heap = self.heap;
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
                let end = end.min(cell.start.0 + (bytes & !(WORD_BYTES - 1)));
                let stop = self.slice(from, end, WORD_BYTES);
                // SAFETY: as above.
                unsafe { self.push_from(from.min(stop), stop) };
                self.push_before_image(from.min(stop), stop);
            }
            Shape::Function { function, environment, calls } => {
                let in_pause = self.place == 0 && self.markers.runs_functions();
                // A program's functions run on a thread of the program that drives a stop: they may
                // rely on its thread-local state.
                if calls == Calls::Always && !in_pause {
                    return self.markers.put_aside(cell.start.0);
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
        let layouts = &self.heap.layouts;
        if in_pause {
            self.markers.aside.note_traced(cell.start.0);
        } else if layouts.has_calls() {
            self.markers.put_aside(cell.start.0);
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

    /// Counts an object of `bytes` bytes as marked by this marker.
    #[inline(always)]
    pub fn count(&mut self, bytes: usize) {
        self.marked_bytes += bytes;
    }

    /// Adds what this marker marked to the heap's count.
    pub fn report(&mut self) {
        self.heap.state.marked_bytes.fetch_add(core::mem::take(&mut self.marked_bytes), Relaxed);
    }
}

/// Entries between looks whether somebody wants work. Larger: less to look; smaller: sooner shared.
const SHARE_EVERY: usize = 64;
/// Entries between looks at the clock, where there is an end. Larger: less to look; smaller: ended
/// more exactly.
const LOOK_AT_CLOCK_EVERY: usize = 16;
/// Entries that a marker keeps for itself.
const SHARE_ABOVE: usize = 32;

impl Grey for Marker<'_> {
    fn word(&mut self, word: usize) {
        Marker::word(self, word);
    }
    unsafe fn range(&mut self, low: usize, high: usize) {
        // SAFETY: the caller's promise.
        unsafe { Marker::range(self, low, high) };
    }
    fn is_marked(&self, word: usize) -> bool {
        self.heap().is_marked(word)
    }
}
