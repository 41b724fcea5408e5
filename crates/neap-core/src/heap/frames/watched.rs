//! Which frames the write watch reports on: those that held marked objects when a cycle last
//! asked. What was taken into use since is not protected and counts as written, so a program that
//! allocates new blocks pays for no page faults.
//!
//! Invariant `[heap.inv.protected]`: an protected frame's writes are all reported, until its memory
//! goes back to the system; and of a block either all frames are protected or none. Under the
//! heap's lock.

use core::ops::Range;

use super::{ALL, Chunk, Frames, Mask, by_chunk};
use crate::addr::{CHUNK_FRAMES, Frame};

/// Chunks in one row at most: a stop that protects looks at the clock after each row.
const ROW_CHUNKS: usize = 16;

/// Neighbouring frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The first of them.
    pub first: Frame,
    /// How many.
    pub count: usize,
}

/// What is to become of frames that are not protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// They are to be.
    pub wanted: Mask,
    /// They are not, wherever they lie: whole blocks.
    pub barred: Mask,
}

impl Chosen {
    /// Nothing is barred.
    #[cfg(test)]
    pub fn all_of(wanted: Mask) -> Self {
        Self { wanted, barred: 0 }
    }
}

impl Chunk {
    /// Frames in use by objects that are scanned.
    pub(super) fn scanned(&self) -> Mask {
        if self.is_scanned() { !(self.free | self.guards) } else { 0 }
    }
}

/// `wanted` with gaps of up to `longest` frames closed, to save system calls; longer ones are
/// left alone, so a block in a gap is protected as a whole or not at all.
fn closed(wanted: Mask, longest: usize) -> Mask {
    let mut spread = wanted;
    for _ in 0..longest {
        spread |= spread << 1;
    }
    // Back by as much, except where the chunk ends: what was pushed out there counts as set.
    for _ in 0..longest {
        spread &= spread >> 1 | 1 << (CHUNK_FRAMES - 1);
    }
    // Nothing beyond the last one that was wanted.
    spread & (ALL >> wanted.leading_zeros().min(CHUNK_FRAMES as u32 - 1))
}

impl Frames {
    /// Rows of chunks with scanned objects that the watch does not know yet.
    pub fn for_each_unregistered(&self, mut f: impl FnMut(usize, usize)) {
        let mut first = 0;
        while first < self.chunks.len() {
            let unknown = |chunk: &&Chunk| chunk.is_scanned() && !chunk.registered;
            let count = self.chunks[first..].iter().take_while(unknown).count();
            if count > 0 {
                f(first, count);
            }
            first += count + 1;
        }
    }

    /// The watch knows these chunks now.
    pub fn note_registered(&mut self, first: usize, count: usize) {
        self.chunks[first..first + count].iter_mut().for_each(|chunk| chunk.registered = true);
    }

    /// The watch knows no chunk any more: it was closed, or did not survive a `fork`. Free memory
    /// counts as freed long ago, since a child's clock begins anew.
    pub fn forget_registrations(&mut self) {
        for chunk in self.chunks.iter_mut() {
            (chunk.registered, chunk.protected, chunk.closed) = (false, 0, 0);
            chunk.freed_at = 0;
        }
    }

    /// Calls `f` with rows that hold all frames in use by scanned objects which are protected, or
    /// which `choose` takes from those of a chunk that are not, of which it is told besides those
    /// that begin blocks that were lent: whole blocks, and what lies in gaps of up to `gap` frames,
    /// which is less than a chunk, but for what is barred. They count as protected from now on, so
    /// the caller protects them before anything depends on it. Chunks that the watch does not know
    /// are left out; `choose` is told of the row of known ones that begins with this one, and bars
    /// blocks that reach beyond it.
    pub fn protect(
        &mut self,
        gap: usize,
        mut choose: impl FnMut(Range<usize>, Mask, Mask) -> Chosen,
        mut f: impl FnMut(Row),
    ) {
        let mut row: Option<Row> = None;
        let mut barred_before = false;
        let mut unknown = 0;
        for index in 0..self.chunks.len() {
            let between = self.gap_before(index, gap);
            if unknown <= index {
                let known = self.chunks[index..].iter().take_while(|chunk| chunk.registered);
                unknown = index + known.count();
            }
            let chunk = &mut self.chunks[index];
            let unprotected = chunk.scanned() & !chunk.protected;
            let Chosen { wanted, barred } =
                choose(index..unknown, unprotected, chunk.lent & unprotected);
            if !chunk.registered {
                continue;
            }
            let scanned = chunk.scanned();
            // Others of them were let go.
            chunk.lent &= barred;
            let wanted = (scanned & chunk.protected) | (wanted & unprotected & !barred);
            let rows = closed(wanted, gap) & !(chunk.guards | barred);
            let between = if barred == 0 && !barred_before { between } else { 0 };
            barred_before = barred != 0;
            chunk.closed &= chunk.protected;
            chunk.protected |= rows;
            for_each_row(rows, |place, count| {
                let first = Frame((index * CHUNK_FRAMES + place) as u32);
                let before = joined(&mut row, Row { first, count }, between, &mut f);
                for frame in (0..before).map(|back| Frame(first.0 - 1 - back as u32)) {
                    self.chunks[frame.chunk()].protected |= 1 << frame.in_chunk();
                }
            });
        }
        row.map(f);
    }

    /// Calls `f` with rows of frames in use by scanned objects that are not protected; they count
    /// as protected from now on. Chunks that the watch does not know are left out.
    pub fn protect_new(&mut self, mut f: impl FnMut(Row)) {
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            if chunk.registered {
                let new = chunk.scanned() & !chunk.protected;
                chunk.protected |= new;
                for_each_row_of(index, new, &mut f);
            }
        }
    }

    /// Calls `f` with rows of frames that are protected and in use by scanned objects.
    pub fn for_each_protected(&self, mut f: impl FnMut(Row)) {
        for (index, chunk) in self.chunks.iter().enumerate() {
            for_each_row_of(index, chunk.scanned() & chunk.protected, &mut f);
        }
    }

    /// Nothing is protected any more.
    pub fn unprotect_all(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.protected = 0);
    }

    /// Calls `f` with rows that hold all protected frames, and what lies in gaps of up to `gap`
    /// frames.
    pub fn for_each_protected_row(&self, gap: usize, mut f: impl FnMut(Row)) {
        let mut row = None;
        for (index, chunk) in self.chunks.iter().enumerate().filter(|(_, chunk)| chunk.registered) {
            let between = self.gap_before(index, gap);
            for_each_row(closed(chunk.protected, gap) & !chunk.guards, |place, count| {
                let first = Frame((index * CHUNK_FRAMES + place) as u32);
                joined(&mut row, Row { first, count }, between, &mut f);
            });
        }
        row.map(f);
    }

    /// A gap that a row may have before the rows of a chunk: none where there are guards, which are
    /// in no row, since a watch may make a row writable.
    fn gap_before(&self, chunk: usize, gap: usize) -> usize {
        let guards = self.chunks[chunk.saturating_sub(1)].guards | self.chunks[chunk].guards;
        if guards == 0 { gap } else { 0 }
    }

    /// Calls `f` with rows of free frames that are protected; they count as written from now on,
    /// and the caller has the watch forget them too, so that their next use costs no page faults.
    pub fn unprotect_free(&mut self, mut f: impl FnMut(Row)) {
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            let idle = chunk.free & chunk.protected;
            chunk.protected &= !idle;
            for_each_row(idle, |place, count| {
                f(Row { first: Frame((index * CHUNK_FRAMES + place) as u32), count });
            });
        }
    }

    /// A block is lent: it counts as written from now on.
    pub fn lend(&mut self, first: Frame, count: usize) {
        self.unprotect(first, count);
        self.chunks[first.chunk()].lent |= 1 << first.in_chunk();
    }

    /// These frames count as written from now on: a block of some that were protected and some that
    /// were not.
    pub fn unprotect(&mut self, first: Frame, count: usize) {
        for (chunk, frames) in by_chunk(first, count) {
            self.chunks[chunk].protected &= !frames;
        }
    }

    /// Whether the watch reports on a frame.
    pub fn is_protected(&self, frame: Frame) -> bool {
        self.chunks[frame.chunk()].protected >> frame.in_chunk() & 1 != 0
    }

    /// Of a chunk: the frames in use by scanned objects, those of them whose writes are reported,
    /// and those that count as written.
    pub fn scanned_in_chunk(&self, chunk: usize) -> (Mask, Mask) {
        let chunk = &self.chunks[chunk];
        let scanned = chunk.scanned();
        (scanned & chunk.protected, scanned & !chunk.protected)
    }
}

/// Joins `next` to the row that comes before it if the gap between them is short enough, and gives
/// the gap's length; otherwise that row is ready for `f`, and `next` begins a new one.
fn joined(row: &mut Option<Row>, next: Row, gap: usize, f: &mut impl FnMut(Row)) -> usize {
    if let Some(last) = row {
        let between = (next.first.0 - last.first.0) as usize - last.count;
        let count = last.count + between + next.count;
        if between <= gap && count <= ROW_CHUNKS * CHUNK_FRAMES {
            last.count = count;
            return between;
        }
    }
    if let Some(done) = row.replace(next) {
        f(done);
    }
    0
}

/// The same with rows of frames of a chunk.
fn for_each_row_of(chunk: usize, bits: Mask, f: &mut impl FnMut(Row)) {
    for_each_row(bits, |place, count| {
        f(Row { first: Frame((chunk * CHUNK_FRAMES + place) as u32), count });
    });
}

/// Calls `f` with place and length of each row of set bits.
pub fn for_each_row(bits: Mask, mut f: impl FnMut(usize, usize)) {
    let mut left = bits;
    while left != 0 {
        let place = left.trailing_zeros() as usize;
        let count = (!(left >> place)).trailing_zeros().min((CHUNK_FRAMES - place) as u32) as usize;
        f(place, count);
        left &= if place + count == CHUNK_FRAMES { 0 } else { ALL << (place + count) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::Content::*;
    use super::super::Guards;
    use super::*;

    fn rows(frames: &mut Frames, chosen: Mask) -> Vec<(u32, usize)> {
        let mut rows = Vec::new();
        frames.protect(
            2,
            |_, _, _| Chosen::all_of(chosen),
            |row| rows.push((row.first.0, row.count)),
        );
        rows
    }

    fn registered(frames: &mut Frames) {
        let mut asked = Vec::new();
        frames.for_each_unregistered(|first, count| asked.push((first, count)));
        for (first, count) in asked {
            frames.note_registered(first, count);
        }
    }

    #[test]
    fn only_chosen_frames_in_use_are_protected_and_stay_so() {
        let mut frames = Frames::new();
        (0..3).for_each(|_| frames.add_chunk(Guards::default()).unwrap());
        frames.take(100, Scanned).unwrap();
        assert_eq!(rows(&mut frames, ALL), [], "nothing is registered yet");
        registered(&mut frames);
        assert_eq!(rows(&mut frames, 0), []);
        assert_eq!(
            rows(&mut frames, 0b11 << 98 | 0b1001),
            [(0, 4), (98, 2)],
            "small gaps are closed"
        );
        assert_eq!(rows(&mut frames, 1 << 50), [(0, 4), (50, 1), (98, 2)]);
        assert_eq!(frames.scanned_in_chunk(0).0.count_ones(), 7);
        frames.give_back(Frame(50), 1, 7);
        assert_eq!(rows(&mut frames, 0), [(0, 4), (98, 2)]);
        frames.take(1, Scanned).unwrap();
        assert_eq!(
            rows(&mut frames, 0),
            [(0, 4), (50, 1), (98, 2)],
            "what is used again is still reported on"
        );
        frames.give_back(Frame(50), 1, 7);
        frames.next_to_clean(Frame(0), 7).unwrap();
        frames.take(1, Scanned).unwrap();
        assert_eq!(rows(&mut frames, 0), [(0, 4), (98, 2)], "what the system gave anew is not");
        frames.unprotect(Frame(2), 97);
        assert_eq!(rows(&mut frames, 0), [(0, 2), (99, 1)]);
        frames.give_back(Frame(0), 100, 7);
        frames.take(100, Scanned).unwrap();
        assert_eq!(rows(&mut frames, 0), [], "a new block of several frames is not");
        assert_eq!(rows(&mut frames, 1), [(0, 1)]);
        frames.give_back(Frame(0), 100, 7);
        let mut idle = Vec::new();
        for _ in 0..2 {
            frames.unprotect_free(|row| idle.push((row.first.0, row.count)));
        }
        assert_eq!(idle, [(0, 1)]);
        frames.forget_registrations();
        assert_eq!(rows(&mut frames, ALL), []);
    }

    #[test]
    fn what_is_barred_is_in_no_row() {
        let mut frames = Frames::new();
        (0..2).for_each(|_| frames.add_chunk(Guards::default()).unwrap());
        frames.take(100, Scanned).unwrap();
        frames.take(100, Scanned).unwrap();
        registered(&mut frames);
        let mut rows = |barred: Mask| {
            let mut rows = Vec::new();
            let chosen = |known: Range<usize>, _, _| match known.start {
                0 => Chosen { wanted: 0b101 | 0b11 << 98, barred },
                _ => Chosen::all_of(0b11),
            };
            frames.protect(40, chosen, |row| rows.push((row.first.0, row.count)));
            frames.unprotect_all();
            rows
        };
        assert_eq!(rows(0), [(0, 3), (98, 32)], "gaps are closed, between chunks too");
        assert_eq!(rows(0b10), [(0, 1), (2, 1), (98, 2), (128, 2)]);
        assert_eq!(rows(0b111), [(98, 2), (128, 2)], "wanted or not");
    }

    #[test]
    fn what_is_new_is_protected_once_until_all_is_unprotected() {
        let mut frames = Frames::new();
        (0..2).for_each(|_| frames.add_chunk(Guards::default()).unwrap());
        frames.take(3, Scanned).unwrap();
        registered(&mut frames);
        let new = |frames: &mut Frames| {
            let mut rows = Vec::new();
            frames.protect_new(|row| rows.push((row.first.0, row.count)));
            rows
        };
        assert_eq!(new(&mut frames), [(0, 3)]);
        frames.take(2, Scanned).unwrap();
        assert_eq!([new(&mut frames), new(&mut frames)], [vec![(3, 2)], vec![]]);
        let mut protected = 0;
        frames.for_each_protected(|row| protected += row.count);
        assert_eq!(protected, 5);
        frames.unprotect_all();
        assert_eq!(new(&mut frames), [(0, 5)]);
    }

    #[test]
    fn rows_go_on_over_chunks_and_are_not_too_long() {
        let mut frames = Frames::new();
        (0..ROW_CHUNKS + 4).for_each(|_| frames.add_chunk(Guards::default()).unwrap());
        frames.take((ROW_CHUNKS + 2) * CHUNK_FRAMES, Scanned).unwrap();
        frames.take(5, Leaf).unwrap();
        registered(&mut frames);
        let (most, rest) = (ROW_CHUNKS * CHUNK_FRAMES, 2 * CHUNK_FRAMES);
        assert_eq!(rows(&mut frames, ALL), [(0, most), (most as u32, rest)]);
        let mut watched = Vec::new();
        frames.for_each_protected_row(0, |row| watched.push((row.first.0, row.count)));
        assert_eq!(watched, [(0, most), (most as u32, rest)]);
    }

    #[test]
    fn short_gaps_between_chunks_are_closed_too() {
        let mut frames = Frames::new();
        (0..2).for_each(|_| frames.add_chunk(Guards::default()).unwrap());
        frames.take(2 * CHUNK_FRAMES, Scanned).unwrap();
        registered(&mut frames);
        let ends = 0b11 << 125 | 0b1000;
        let last = CHUNK_FRAMES as u32 - 3;
        assert_eq!(rows(&mut frames, ends), [(3, 1), (last, 2), (last + 6, 1), (last + 128, 2)]);
        let mut watched = Vec::new();
        frames.for_each_protected_row(5, |row| watched.push((row.first.0, row.count)));
        assert_eq!(
            watched,
            [(3, 1), (last, 7), (last + 128, 2)],
            "listed in one row, and not protected"
        );
        assert_eq!(frames.scanned_in_chunk(1).0, 0b11 << 125 | 0b1000);
        frames.protect(5, |_, _, _| Chosen::all_of(0), |_| {});
        let protected = |chunk| frames.scanned_in_chunk(chunk).0;
        assert_eq!([protected(0), protected(1)], [0b111 << 125 | 0b1000, 0b11 << 125 | 0b1111]);
    }

    #[test]
    fn gaps_are_closed_whole_or_not_at_all() {
        for (wanted, expected) in [
            (0b1001, 0b1111),
            (0b10001, 0b10001),
            (0b100001, 0b100001),
            (0b100_1000_0101, 0b111_1000_0111),
            (1 << 127 | 1 << 124, 0b1111 << 124),
            (1 << 126, 1 << 126),
            (1 << 127, 1 << 127),
            (1 << 127 | 1 << 126 | 1 << 121, 1 << 127 | 1 << 126 | 1 << 121),
            (0, 0),
            (ALL, ALL),
        ] {
            assert_eq!(closed(wanted, 2), expected, "{wanted:b}");
        }
    }

    #[test]
    fn longer_gaps_are_closed_where_that_is_wanted() {
        for wanted in [0x1_0001_u128, 1 << 127 | 1 << 111] {
            assert_eq!(closed(wanted, 14), wanted);
            assert_eq!(closed(wanted, 15).count_ones(), 17);
        }
        assert_eq!(closed(0b1001 << 60, 0), 0b1001 << 60);
        assert_eq!(closed(1 | 1 << 127, CHUNK_FRAMES), ALL);
    }

    #[test]
    fn rows_of_bits() {
        for (bits, expected) in [
            (0, vec![]),
            (ALL, vec![(0, 128)]),
            (0b1011, vec![(0, 2), (3, 1)]),
            (1 << 127 | 1, vec![(0, 1), (127, 1)]),
        ] {
            let mut rows = Vec::new();
            for_each_row(bits, |place, count| rows.push((place, count)));
            assert_eq!(rows, expected);
        }
    }
}
