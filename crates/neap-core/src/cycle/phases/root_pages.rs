//! Whole pages and pieces of roots: which parts of a range a write watch protects, and having it
//! do so.
//!
//! Invariant: what is asked of a watch is whole pages, outside the heap. Called by what reads roots
//! under a watch, on the collector's thread and in stops.

use core::ops::Range;

use crate::addr::PAGE_BYTES;
use crate::heap::HEAP;
use crate::sys::meta_vec::MetaVec;
use crate::sys::process::mappings;
use crate::watch::Watch;
use crate::world::roots::ranges::Span;

/// Ranges with fewer bytes in whole pages are read whole each time: reading these takes about as
/// long as to ask which of them were written, with the faults that protecting causes.
pub const LEAST_BYTES: usize = 16 << 10;

/// Whole pages, one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    /// The first page.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
}

impl Pages {
    /// Those that lie in a range.
    pub fn of(range: &Range<usize>) -> Self {
        let start = range.start.next_multiple_of(PAGE_BYTES);
        Self { start, end: (range.end & !(PAGE_BYTES - 1)).max(start) }
    }

    /// The same.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// Whether `other` are among them.
    pub fn contain(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether some lie in `range`, or a part of one.
    pub fn overlap(self, range: &Range<usize>) -> bool {
        self.start < range.end && range.start < self.end
    }

    /// Whether it is of use to protect them. The heap's own pages are protected for other reasons,
    /// and who asks for them would take the answers.
    pub fn may_be_protected(self, watch: &dyn Watch) -> bool {
        let heap = HEAP.base().0..HEAP.base().0 + HEAP.reserved();
        self.range().len() >= LEAST_BYTES && !self.overlap(&heap) && watch.takes_any_memory()
    }
}

/// A piece of a root of which parts are being read.
#[derive(Clone, Copy)]
pub struct Piece {
    /// Where it is.
    pub span: Span,
    /// A write to it will be reported.
    pub is_protected: bool,
    /// All of it has to be read; else what was noted.
    pub is_unread: bool,
}

/// Calls `f` with parts of `range` that are among the `protected`, whole pages, and with the rest.
pub fn divide(protected: &[Pages], range: Range<usize>, f: &mut dyn FnMut(Range<usize>, bool)) {
    let touched = protected.iter().find(|protected| protected.overlap(&range)).copied();
    let inside = Pages::of(&range);
    let asked = touched
        .map_or(0..0, |protected| protected.start.max(inside.start)..protected.end.min(inside.end));
    if asked.is_empty() {
        return f(range, false);
    }
    divide(protected, range.start..asked.start, f);
    f(asked.clone(), true);
    divide(protected, asked.end..range.end, f);
}

/// Has the watch report what is written to these pages from now on. False where the system refuses,
/// or where others may write to them.
pub fn protect(registered: &mut MetaVec<Pages>, watch: &mut dyn Watch, pages: Pages) -> bool {
    let protect = |watch: &mut dyn Watch| watch.take_written(&pages.range(), &mut |_| {}).is_ok();
    // What is known was private when it became so, and a mapping in its place would not be known.
    if registered.iter().any(|whole| whole.contain(pages)) && protect(watch) {
        return true;
    }
    // Whole mappings, so that none is split: a stack is found by its mapping.
    let Some(whole) = mappings::covering(&pages.range()) else { return false };
    watch.register(&whole).is_ok() && note(registered, &whole) && protect(watch)
}

/// Notes a mapping, in place of what was where it is; false if there is no memory.
fn note(registered: &mut MetaVec<Pages>, whole: &Range<usize>) -> bool {
    let mut at = 0;
    while at < registered.len() {
        match registered[at].overlap(whole) {
            true => _ = registered.swap_remove(at),
            false => at += 1,
        }
    }
    registered.try_push(Pages::of(whole)).is_ok()
}
