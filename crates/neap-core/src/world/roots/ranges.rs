//! Ranges of roots: as the program registered them, and cut into parts that do not overlap.
//!
//! Invariant: each part of `registered` lies in one of `added`, and each word of these in exactly
//! one part. Under the lock of roots.

use core::ops::Range;

use crate::sys::meta_vec::MetaVec;

/// An address range that `MetaVec` can hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
}

impl Span {
    /// The same range.
    pub fn of(range: &Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// What the program said of roots.
pub struct Ranges {
    /// What is read: parts of `added` that do not overlap.
    pub registered: MetaVec<Span>,
    /// As they were registered, for who takes whole ones out.
    added: MetaVec<Span>,
    /// Parts of loaded objects' data that are no roots.
    pub excluded: MetaVec<Span>,
}

impl Ranges {
    /// None.
    pub const fn new() -> Self {
        Self { registered: MetaVec::new(), added: MetaVec::new(), excluded: MetaVec::new() }
    }

    /// Adds a range; false without memory.
    pub fn add(&mut self, span: Span) -> bool {
        if span.start >= span.end {
            return true;
        }
        if self.registered.try_reserve(2).is_err() || self.added.try_reserve(1).is_err() {
            return false;
        }
        match self.added.iter_mut().find(|added| added.start == span.start) {
            Some(same) => same.end = same.end.max(span.end),
            None => self.added.push(span),
        }
        cut(&mut self.registered, span);
        self.registered.push(span);
        true
    }

    /// Takes a range out of all of them.
    pub fn remove(&mut self, hole: Span) {
        cut(&mut self.registered, hole);
        cut(&mut self.added, hole);
    }

    /// Takes out those that lie wholly in a range; what others hold too stays.
    pub fn remove_whole(&mut self, range: Span) {
        let mut index = 0;
        while index < self.added.len() {
            let span = self.added[index];
            if span.start < range.start || span.end > range.end {
                index += 1;
                continue;
            }
            self.added.swap_remove(index);
            self.cut_what_nobody_holds(span);
        }
    }

    fn cut_what_nobody_holds(&mut self, span: Span) {
        let mut at = span.start;
        while at < span.end {
            let holds = |other: &&Span| other.start <= at && at < other.end;
            if let Some(end) = self.added.iter().filter(holds).map(|other| other.end).max() {
                at = end;
                continue;
            }
            let behind = self.added.iter().map(|other| other.start).filter(|start| *start > at);
            let end = behind.min().map_or(span.end, |start| start.min(span.end));
            // Without memory it stays a root: wasted, not wrong.
            if self.registered.try_reserve(2).is_ok() {
                cut(&mut self.registered, Span { start: at, end });
            }
            at = end;
        }
    }

    /// Takes out all that were registered.
    pub fn clear(&mut self) {
        self.registered.clear();
        self.added.clear();
    }
}

/// Removes `hole` from every span of `spans`.
pub fn cut(spans: &mut MetaVec<Span>, hole: Span) {
    let mut index = 0;
    while index < spans.len() {
        let span = spans[index];
        if span.end <= hole.start || span.start >= hole.end {
            index += 1;
            continue;
        }
        spans.swap_remove(index);
        for rest in
            [Span { start: span.start, end: hole.start }, Span { start: hole.end, end: span.end }]
        {
            if rest.start < rest.end {
                spans.push(rest);
            }
        }
        // The pieces at the end are looked at again and found clear of the hole.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(spans: &MetaVec<Span>) -> Vec<(usize, usize)> {
        let mut all: Vec<_> = spans.iter().map(|span| (span.start, span.end)).collect();
        all.sort();
        all
    }

    #[test]
    fn cutting_leaves_what_lies_around_the_hole() {
        let mut spans = MetaVec::new();
        spans.push(Span { start: 10, end: 20 });
        spans.push(Span { start: 30, end: 40 });
        cut(&mut spans, Span { start: 15, end: 32 });
        let mut left: Vec<_> = spans.iter().map(|span| (span.start, span.end)).collect();
        left.sort();
        assert_eq!(left, [(10, 15), (32, 40)]);
        cut(&mut spans, Span { start: 12, end: 13 });
        assert_eq!(spans.len(), 3);
        cut(&mut spans, Span { start: 0, end: 100 });
        assert!(spans.is_empty());
    }

    #[test]
    fn whole_ranges_are_taken_out_and_others_stay_whole() {
        let mut ranges = Ranges::new();
        for (start, end) in [(400, 1024), (0, 600), (2000, 2100), (2000, 2200)] {
            assert!(ranges.add(Span { start, end }));
        }
        assert_eq!(sorted(&ranges.registered), [(0, 600), (600, 1024), (2000, 2200)]);
        ranges.remove_whole(Span { start: 0, end: 600 });
        assert_eq!(sorted(&ranges.registered), [(400, 600), (600, 1024), (2000, 2200)]);
        // The middle of one, and the shorter one of the same start.
        ranges.remove_whole(Span { start: 500, end: 700 });
        ranges.remove_whole(Span { start: 2000, end: 2100 });
        assert_eq!(sorted(&ranges.registered), [(400, 600), (600, 1024), (2000, 2200)]);
        ranges.remove_whole(Span { start: 0, end: 5000 });
        assert_eq!(sorted(&ranges.registered), []);
        assert!(ranges.add(Span { start: 8, end: 80 }));
        ranges.remove(Span { start: 16, end: 24 });
        ranges.remove_whole(Span { start: 0, end: 16 });
        assert_eq!(sorted(&ranges.registered), [(24, 80)]);
    }
}
