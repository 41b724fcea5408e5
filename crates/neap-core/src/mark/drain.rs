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
//! read whole.

#![allow(unsafe_code)]

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::sync::atomic::Ordering::*;

use super::entry::Entry;
use super::mark_stack::Stack;
use super::markers::{Markers, Until};
use super::scan::by_keys::ByKeys;
use super::scan::conservative::scan;
use super::scan::sparse::scan_sparse;
use super::tracer::Grey;
use crate::addr::{PAGE_BYTES, whole_words};
use crate::heap::Heap;
use crate::heap::blocks::header::State;
use crate::heap::kind::Scan;
use crate::heap::layout::LayoutId;
use crate::heap::lookup::{Cell, View};

/// Entries between prefetch and use. Larger: hides longer latencies; smaller: prefetched lines are
/// still there.
const QUEUE: usize = 16;
/// An object of middling size that begins in one cache line ends in the next: that far from its
/// start is prefetched too. Larger: serves larger objects; smaller: fetches less for nothing.
const REACH_BYTES: usize = 40;
/// So much of a larger object's slice says whether the rest is scanned as one in which pointers are
/// rare or repeat each other, which is four times as fast if they do, and takes a tenth longer if
/// they do not. Larger: a better guess; smaller: more is scanned faster.
pub(super) const LOOKED_AT_BYTES: usize = 1 << 10;
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
    /// When it leaves the rest to others.
    pub(super) until: Until<'t>,
    /// A grey word found no room on the stack. Cleared by who wants to know.
    pub(super) had_no_room: bool,
    /// What is marked with an object that it marks; none but while ephemerons are followed.
    pub by_keys: ByKeys,
    /// Most of what the program's functions name is marked already: it is looked at as it is named.
    pub named_are_marked: bool,
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
            until: Until::Done,
            had_no_room: false,
            by_keys: ByKeys::new(),
            named_are_marked: false,
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
            self.had_no_room = true;
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
            self.had_no_room = true;
            // SAFETY: as above.
            unsafe { scan(low, high, base, length, |word| self.mark_without_room(word)) };
        }
    }

    /// Marks until there is nothing left that this marker knows of, or its time is up.
    pub fn drain(&mut self) {
        let kept = self.heap.before_images.is_open();
        match (kept, self.markers.is_shared(), self.by_keys.is_empty()) {
            (true, _, true) => self.drain_as::<true, true, false>(),
            (false, true, true) => self.drain_as::<true, false, false>(),
            (false, false, true) => self.drain_as::<false, false, false>(),
            (true, _, false) => self.drain_as::<true, true, true>(),
            (false, _, false) => self.drain_as::<true, false, true>(),
        }
    }

    /// Marks alone until nothing is left or it is over; whether nothing is left.
    pub fn drain_until(&mut self, until: Until<'t>) -> bool {
        self.until = until;
        self.drain();
        self.until = Until::Done;
        self.waiting == 0 && self.stack.len() == 0
    }

    /// `KEPT`: the heap is marked as it was when the program's pages began to be kept. `KEYED`:
    /// there are pairs whose values are marked with their keys.
    fn drain_as<const SHARED: bool, const KEPT: bool, const KEYED: bool>(&mut self) {
        let view = self.heap.view();
        loop {
            let due = match self.stack.pop() {
                Some(entry) if self.waiting == 0 && self.stack.len() == 0 => {
                    self.follow::<SHARED, KEPT, KEYED>(&view, entry);
                    if self.is_out_of_time() {
                        return;
                    }
                    continue;
                }
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
            self.visit::<SHARED, KEPT, KEYED, false>(&view, due);
            if SHARED
                && self.oldest.is_multiple_of(SHARE_EVERY)
                && self.stack.len() > SHARE_ABOVE
                && self.markers.wants_work()
            {
                self.share();
            }
            if self.is_out_of_time() {
                return;
            }
        }
    }

    /// Whether it is over for it, where it ends before the others; looks now and then.
    #[inline(always)]
    fn is_out_of_time(&mut self) -> bool {
        !matches!(self.until, Until::Done)
            && self.oldest.is_multiple_of(LOOK_EVERY)
            && self.until.is_over()
    }

    /// Marks along a list, from an entry that is all there is to do: nothing is gained by a queue,
    /// nor by having the next entry go through memory.
    #[inline(never)]
    fn follow<const SHARED: bool, const KEPT: bool, const KEYED: bool>(
        &mut self,
        view: &View<'_>,
        entry: usize,
    ) {
        let mut next = entry;
        while next != 0 {
            self.oldest = self.oldest.wrapping_add(1);
            next = self.visit::<SHARED, KEPT, KEYED, true>(view, next);
            if next != 0 && (self.stack.len() != 0 || self.is_out_of_time()) {
                return self.push(next);
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
            // SAFETY: prefetching any address is harmless.
            unsafe {
                _mm_prefetch(word as *const i8, _MM_HINT_T0);
                _mm_prefetch(word.wrapping_add(REACH_BYTES) as *const i8, _MM_HINT_T0);
            }
            if word.wrapping_sub(view.base.0) < view.length {
                view.prefetch_metadata(word);
            }
        }
    }

    /// Marks what an entry leads to and pushes what that points to. `LAST`: but for a last word,
    /// which it gives; 0 if it pushed that too.
    #[inline(always)]
    fn visit<const SHARED: bool, const KEPT: bool, const KEYED: bool, const LAST: bool>(
        &mut self,
        view: &View<'_>,
        entry: usize,
    ) -> usize {
        if KEPT && self.heap.before_images.has_overflowed() {
            // Nothing that this would find counts any more.
            return 0;
        }
        let Entry::Word(word) = Entry::decode(entry) else {
            self.visit_marked(entry);
            return 0;
        };
        let Some(cell) = view.cell_at(word) else { return 0 };
        if !cell.bits.mark::<SHARED>(cell.index) {
            return 0;
        }
        view.note_marked(cell.block, cell.header);
        let bytes = cell.bytes();
        self.marked_bytes += bytes;
        if KEYED {
            self.push_values(cell.start.0);
        }
        match cell.header.scan() {
            Scan::Leaf => {}
            Scan::Conservative
                if cell.header.state() == State::Small && bytes <= LOOKED_AT_BYTES =>
            {
                let low = begin(&cell, word);
                let high = low + bytes;
                let (base, length) = (view.base.0, view.length);
                // SAFETY: an allocated cell is readable, and no heap begins at 0.
                let pushed = unsafe {
                    if LAST {
                        self.stack.push_all_but_last(low, high, base, length)
                    } else {
                        self.stack.push_from(low, high, base, length).map(|()| 0)
                    }
                };
                let Ok(last) = pushed else {
                    self.scan_object(&cell);
                    return 0;
                };
                if KEPT {
                    self.push_before_image(low, high);
                }
                return last;
            }
            Scan::Typed
                if !KEPT
                    && cell.header.state() == State::Small
                    && let Some(named) = self
                        .heap
                        .layouts
                        .pointers_of_few(LayoutId(cell.header.layout()), bytes) =>
            {
                let start = begin(&cell, word);
                // SAFETY: an allocated cell is readable, and no bit is beyond it.
                if unsafe { self.stack.push_named(start, named, view.base.0, view.length) }.is_err()
                {
                    self.scan_from(&cell, start);
                }
            }
            _ => self.scan_from(&cell, cell.start.0),
        }
        0
    }

    /// Pushes what is kept alive by an object that it just marked.
    fn push_values(&mut self, key: usize) {
        let mut next = self.by_keys.first(key);
        while let Some(value) = self.by_keys.next_value(key, &mut next) {
            self.word(value);
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
        // What a resize took from the object meanwhile may be another's by now: then that one is
        // scanned from here on, which is too much and not wrong. In a cell that is no object yet is
        // anything, for which no function of the program's is called.
        if let Some(cell) = self.heap.cell_at(address)
            && cell.bits.is_allocated(cell.index)
            && cell.header.scan() != Scan::Leaf
        {
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

/// Where a cell begins that `word` points into: told to the processor as `word` itself where that
/// is so, which is nearly always. It reads from there while it still computes the cell.
#[inline(always)]
fn begin(cell: &Cell<'_>, word: usize) -> usize {
    // miri knows no assembly.
    if cfg!(miri) || cell.start.0 != word {
        return cell.start.0;
    }
    let begin;
    // SAFETY: no instruction; the compiler does not know that this is `cell.start`.
    unsafe {
        core::arch::asm!(
            "/* {0} */",
            inlateout(reg) word => begin,
            options(nomem, nostack, preserves_flags),
        );
    }
    begin
}

/// Entries between looks whether somebody wants work. Larger: less to look; smaller: sooner shared.
const SHARE_EVERY: usize = 64;
/// Entries between looks whether it is over, where there is an end. Larger: less to look; smaller:
/// ended more exactly.
const LOOK_EVERY: usize = 16;
/// Entries that a marker keeps for itself.
const SHARE_ABOVE: usize = 32;

impl Grey for Marker<'_> {
    fn word(&mut self, word: usize) {
        if !self.named_are_marked || !self.heap().is_marked(word) {
            Marker::word(self, word);
        }
    }
    unsafe fn range(&mut self, low: usize, high: usize) {
        // SAFETY: the caller's promise.
        unsafe { Marker::range(self, low, high) };
    }
    fn is_marked(&self, word: usize) -> bool {
        self.heap().is_marked(word)
    }
}
