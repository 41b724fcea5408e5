//! Ranges of roots: as the program registered them, and cut into parts that do not overlap.
//!
//! Invariant: each part of `registered` lies in one of `added`, and each word of these in exactly
//! one part. Under the lock of roots.

use core::ops::Range;

use crate::addr::whole_words;
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

    /// The same span.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// What the program answered about loaded objects.
pub struct Answers {
    /// The parts that it does not want to be read.
    pub unwanted: MetaVec<Span>,
    /// How many objects had ever been loaded then.
    pub loads: u64,
}

impl Answers {
    /// None.
    pub const fn new() -> Self {
        Self { unwanted: MetaVec::new(), loads: 0 }
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self::new()
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
    /// What is no root, also where it is registered.
    pub barred: MetaVec<Span>,
    /// What the program answered about loaded objects.
    pub answers: Answers,
}

impl Ranges {
    /// None.
    pub const fn new() -> Self {
        Self {
            registered: MetaVec::new(),
            added: MetaVec::new(),
            excluded: MetaVec::new(),
            barred: MetaVec::new(),
            answers: Answers::new(),
        }
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

/// A write watch is asked for one piece of a span at a time, of which none but the first and the
/// last has a part of a huge page: that would be split for it, or could not be protected.
const PIECE_BYTES: usize = 2 << 20;
/// Pieces are visited in parts of so many bytes. Larger: whoever wants the lock waits longer;
/// smaller: the clock is read more often.
const PART_BYTES: usize = 256 << 10;

/// Calls `visit` with one part after the other of what lies from `from` on, in the order of
/// `sorted`, and before it with the piece that it is of, until it says that this was the last:
/// where the next one begins then, None behind the last. Of each span the whole words.
pub fn in_parts(
    sorted: &[Span],
    from: usize,
    mut visit: impl FnMut(Span, Range<usize>) -> bool,
) -> Option<usize> {
    for span in sorted.iter().map(|span| Span::of(&whole_words(&span.range()))) {
        if span.end <= from.max(span.start) {
            continue;
        }
        let mut piece = first_piece(span);
        let mut start = span.start.max(from);
        while start < span.end {
            while piece.end <= start {
                piece = first_piece(Span { start: piece.end, end: span.end });
            }
            let end = piece.end.min(start.saturating_add(PART_BYTES));
            if !visit(piece, start..end) {
                return Some(end);
            }
            start = end;
        }
    }
    None
}

/// No piece but a whole span is as small as a part.
fn first_piece(span: Span) -> Span {
    let end = match span.end - span.start > PIECE_BYTES + 2 * PART_BYTES {
        true => ((span.start + PART_BYTES) | (PIECE_BYTES - 1)) + 1,
        false => span.end,
    };
    Span { start: span.start, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All parts and the pieces that they are of, in walks of so many parts each.
    fn walked(spans: &[Span], most: usize) -> Vec<(Span, Range<usize>)> {
        let (mut parts, mut from) = (Vec::new(), Some(0));
        while let Some(start) = from {
            let mut left = most;
            from = in_parts(spans, start, |piece, part| {
                parts.push((piece, part));
                left -= 1;
                left > 0
            });
        }
        parts
    }

    #[test]
    fn parts_are_visited_in_order_and_once_however_often_the_walk_is_left() {
        let end = 9 * PIECE_BYTES + 104;
        let spans = [(8, 24), (4096 - 8, 4096), (4 * PIECE_BYTES - 8, end)];
        let spans = spans.map(|(start, end)| Span { start, end });
        let parts = walked(&spans, usize::MAX);
        for most in [1, 3, 7] {
            assert!(walked(&spans, most) == parts, "{most} parts in each walk");
        }
        assert_eq!((parts[0].1.clone(), parts[1].1.clone()), (8..24, 4096 - 8..4096));
        let mut pieces: Vec<_> = parts.iter().map(|(piece, _)| (piece.start, piece.end)).collect();
        pieces.dedup();
        let ends: Vec<_> = pieces[2..].iter().map(|piece| piece.1).collect();
        assert_eq!(
            ends,
            [5, 6, 7, 8]
                .map(|piece| piece * PIECE_BYTES)
                .into_iter()
                .chain([end])
                .collect::<Vec<_>>()
        );
        for pair in parts[2..].windows(2) {
            assert_eq!(pair[0].1.end, pair[1].1.start);
        }
        for (piece, part) in parts {
            assert!(part.len() <= PART_BYTES && piece.start <= part.start && part.end <= piece.end);
        }
    }

    #[test]
    fn no_word_lies_in_two_parts() {
        let odd = [Span { start: 9, end: 15 }, Span { start: 1001, end: 5 * PIECE_BYTES + 3 }];
        let parts = walked(&odd, usize::MAX);
        assert_eq!(parts[0].1.start, 1008);
        assert!(parts.iter().all(|(_, part)| part.start % 8 == 0 && part.end % 8 == 0));
        assert_eq!(parts.last().unwrap().1.end, 5 * PIECE_BYTES);
    }

    #[test]
    fn a_walk_goes_on_over_what_there_is_by_then() {
        let later = [Span { start: 16, end: 4096 }, Span { start: 5000, end: 6000 }];
        let visit = |piece: Span, part| {
            assert_eq!((piece.range(), part), (5000..6000, 5000..6000));
            true
        };
        assert_eq!(in_parts(&later, 4096, visit), None);
        let highest = [Span { start: usize::MAX - 3 * PIECE_BYTES, end: usize::MAX }];
        assert_eq!(walked(&highest, usize::MAX).last().unwrap().1.end, usize::MAX - 7);
    }

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
