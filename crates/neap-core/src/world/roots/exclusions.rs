//! What is no root: parts of loaded objects' data, named by address once and for all or by answers
//! of the program about the objects that are loaded; and parts of all ranges, registered ones too.
//!
//! Invariant: an answer counts until the next ones come, and while no object is loaded after it was
//! given: another library may lie at the same addresses. Under the lock of roots, in a critical
//! section.

use core::ops::Range;

use super::RANGES;
use super::ranges::{Answers, Ranges, Span, cut};
use crate::sys::meta_vec::MetaVec;
use crate::world::critical;

impl Answers {
    /// The program does not want this part, asked when `loads` objects had been loaded.
    pub fn refuse(&mut self, range: &Range<usize>, loads: u64) {
        let _critical = critical::enter();
        // Without memory it stays a root: wasted, not wrong.
        let _ = self.unwanted.try_push(Span::of(range));
        self.loads = loads;
    }

    /// From now on these count, in place of all earlier ones.
    pub fn give(self) {
        let _critical = critical::enter();
        // Its memory goes back within the critical section, and without the lock.
        let earlier = core::mem::replace(&mut RANGES.lock().answers, self);
        drop(earlier);
    }
}

/// A range of loaded objects' data that is no root. Said again, it changes nothing.
pub fn exclude(range: Range<usize>) {
    note_in(|ranges| &mut ranges.excluded, &range);
}

/// A range that is no root, neither as loaded objects' data nor where it is registered. Said again,
/// it changes nothing.
pub fn bar(range: Range<usize>) {
    note_in(|ranges| &mut ranges.barred, &range);
}

/// Notes a range in a list, once. Without memory it stays a root: wasted, not wrong.
fn note_in(list: impl FnOnce(&mut Ranges) -> &mut MetaVec<Span>, range: &Range<usize>) {
    let span = Span::of(range);
    let _critical = critical::enter();
    let mut ranges = RANGES.lock();
    let list = list(&mut ranges);
    if !list.contains(&span) {
        let _ = list.try_push(span);
    }
}

/// Forgets what [`bar`] was told.
pub fn clear_bars() {
    let _critical = critical::enter();
    RANGES.lock().barred.clear();
}

/// Takes out of `spans`, listed when `loads` objects had been loaded, what is excluded.
pub fn cut_excluded(ranges: &Ranges, loads: u64, spans: &mut MetaVec<Span>) {
    let answers = &ranges.answers;
    let answered: &[Span] = if answers.loads == loads { &answers.unwanted } else { &[] };
    for hole in ranges.excluded.iter().chain(ranges.barred.iter()).chain(answered) {
        cut(spans, *hole);
    }
}

/// Calls `visit` with each part of the registered ranges that is a root; with no more of them than
/// there are registered and barred ranges.
pub fn for_each_registered(ranges: &Ranges, mut visit: impl FnMut(Span)) {
    for span in ranges.registered.iter() {
        let mut start = span.start;
        while start < span.end {
            let meets = |hole: &&Span| hole.start < span.end && hole.end > start;
            let hole = ranges.barred.iter().filter(meets).min_by_key(|hole| hole.start);
            let hole = hole.map_or(Span { start: span.end, end: span.end }, |hole| *hole);
            if start < hole.start {
                visit(Span { start, end: hole.start });
            }
            start = hole.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_at(ranges: &Ranges, loads: u64) -> Vec<(usize, usize)> {
        let mut spans = MetaVec::new();
        spans.push(Span { start: 0, end: 80 });
        cut_excluded(ranges, loads, &mut spans);
        let mut left: Vec<_> = spans.iter().map(|span| (span.start, span.end)).collect();
        left.sort();
        left
    }

    #[test]
    fn an_answer_counts_until_something_is_loaded() {
        let mut ranges = Ranges::new();
        ranges.excluded.push(Span { start: 0, end: 8 });
        ranges.answers.unwanted.push(Span { start: 40, end: 48 });
        ranges.answers.loads = 3;
        assert_eq!(cut_at(&ranges, 3), [(8, 40), (48, 80)]);
        assert_eq!(cut_at(&ranges, 4), [(8, 80)]);
    }

    #[test]
    fn what_is_barred_is_no_root_where_it_is_registered() {
        let registered = |ranges: &Ranges| {
            let mut parts = Vec::new();
            for_each_registered(ranges, |part| parts.push((part.start, part.end)));
            parts
        };
        let mut ranges = Ranges::new();
        for (start, end) in [(80, 160), (240, 320)] {
            assert!(ranges.add(Span { start, end }));
        }
        ranges.excluded.push(Span { start: 80, end: 320 });
        assert_eq!(registered(&ranges), [(80, 160), (240, 320)]);
        for (start, end) in [(152, 248), (0, 88), (96, 112), (104, 120), (104, 108)] {
            ranges.barred.push(Span { start, end });
        }
        assert_eq!(registered(&ranges), [(88, 96), (120, 152), (248, 320)]);
        ranges.barred.push(Span { start: 0, end: 400 });
        assert_eq!(registered(&ranges), []);
        assert_eq!(cut_at(&ranges, 0), []);
    }
}
