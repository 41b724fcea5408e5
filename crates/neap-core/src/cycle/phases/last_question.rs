//! The last question of a cycle by incremental update, with the world stopped: which pages were
//! written since they were asked about last; the marked objects there are scanned again.
//!
//! Invariant: nothing is protected: what is reported now will be reported to the next cycle too.
//! Each piece of the protected frames is asked about once, in a large heap by whoever marks and
//! comes to it first, and who asked has scanned what it was told of when marking is done. By who
//! drives the stop.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::written_pages::{GAPS_IN_STOPS, Unwatched, WrittenPages, address_range, pages};
use crate::addr::{CHUNK_FRAMES, Frame};
use crate::cycle::workers::Workers;
use crate::heap::Heap;
use crate::heap::frames::Mask;
use crate::heap::frames::watched::{Row, for_each_row};
use crate::mark::drain::Marker;
use crate::watch::Watch;
use crate::world::Stopped;

/// For each so many scanned bytes a helper asks too: the kernel looks at each page, which takes an
/// eighth of a millisecond, and waking one takes some microseconds. Larger: longer stops of heaps
/// just below; smaller: threads are woken for less.
const FOR_EACH_HELPER: usize = 256 << 20;
/// So much is asked about at once. Larger: fewer system calls; smaller: more threads have some.
const PIECE_BYTES: usize = 8 << 20;

impl<W: Watch> WrittenPages<W> {
    /// How many helpers had better ask the last question too.
    pub fn helpers_to_ask(&self) -> usize {
        self.heap.state.scanned_bytes.load(Relaxed) / FOR_EACH_HELPER
    }

    /// Asks, and scans the marked objects on written pages again; says how much that was, in pages.
    /// Where it is more than `most_bytes`, the rest is kept for the marker and those who help it.
    /// With `helpers` these ask too, scan what they are told of, and mark what that leads to.
    pub fn remark(
        &mut self,
        workers: &Workers,
        marker: &mut Marker<'static>,
        stopped: &Stopped,
        most_bytes: usize,
        helpers: usize,
    ) -> Result<usize, Unwatched> {
        self.list_questions(stopped);
        let questions = Questions {
            heap: self.heap,
            watch: &self.watch,
            rows: &self.rows,
            chunks: &self.chunks,
            next: AtomicUsize::new(0),
            answered: AtomicBool::new(true),
        };
        let scanned = AtomicUsize::new(0);
        let rescan = |marker: &mut Marker<'_>, range: Range<usize>| {
            if scanned.load(Relaxed) < most_bytes {
                scanned.fetch_add(marker.rescan(&range), Relaxed);
            } else {
                scanned.fetch_add(range.len(), Relaxed);
                marker.keep_written(&range);
            }
        };
        questions.for_each_unasked(|range| rescan(marker, range));
        if helpers == 0 {
            questions.ask(|range| rescan(marker, range));
        } else {
            workers.work_after(marker, helpers, &|marker| {
                questions.ask(|range| {
                    scanned.fetch_add(range.len(), Relaxed);
                    marker.keep_written(&range);
                });
            });
        }
        let answered = questions.answered.into_inner();
        answered.then_some(pages(scanned.into_inner())).ok_or(Unwatched)
    }

    /// Lists what is asked about, and of each chunk the scanned frames that are protected and those
    /// that are not.
    fn list_questions(&mut self, _: &Stopped) {
        let Self { heap, rows, chunks, .. } = self;
        let inner = heap.inner();
        rows.clear();
        inner.frames.for_each_protected_row(GAPS_IN_STOPS[0], |row| {
            let (start, end) = address_range(heap, row);
            (start..end)
                .step_by(PIECE_BYTES)
                .for_each(|piece| rows.push((piece, end.min(piece + PIECE_BYTES))));
        });
        chunks.clear();
        (0..inner.frames.chunks())
            .for_each(|chunk| chunks.push(inner.frames.scanned_in_chunk(chunk)));
    }
}

/// What is asked, by any number of threads.
struct Questions<'a, W> {
    heap: &'static Heap,
    watch: &'a W,
    /// Address ranges to ask about.
    rows: &'a [(usize, usize)],
    /// Of each chunk, the scanned frames that are protected and those that are not.
    chunks: &'a [(Mask, Mask)],
    /// The one that is asked about next.
    next: AtomicUsize,
    /// No question was refused.
    answered: AtomicBool,
}

impl<W: Watch> Questions<'_, W> {
    /// Asks about one piece after the other, as long as there are some that nobody asked about.
    /// Calls `written` for what was written of protected blocks.
    fn ask(&self, mut written: impl FnMut(Range<usize>)) {
        let base = self.heap.base().0;
        while let Some((start, end)) = self.rows.get(self.next.fetch_add(1, Relaxed)) {
            let answered = self.watch.written(&(*start..*end), &mut |range| {
                // Of what never was protected only blocks with marked objects matter, which are
                // not asked about.
                let [first, last] =
                    [range.start, range.end - 1].map(|at| Frame::containing(at - base));
                for chunk in first.chunk()..=last.chunk() {
                    let protected = self.chunks[chunk].0 & in_chunk(chunk, first, last);
                    for_each_row(protected, |place, count| {
                        let row = address_range(self.heap, row(chunk, place, count));
                        written(row.0.max(range.start)..row.1.min(range.end));
                    });
                }
            });
            if answered.is_err() {
                self.answered.store(false, Relaxed);
            }
        }
    }

    /// Calls `f` with each block with marked objects that is not protected, and so counts as
    /// written.
    fn for_each_unasked(&self, mut f: impl FnMut(Range<usize>)) {
        for (chunk, (_, unprotected)) in self.chunks.iter().enumerate() {
            for_each_row(self.heap.marked_in_chunk(chunk) & unprotected, |place, count| {
                for index in place..place + count {
                    let block = Frame((chunk * CHUNK_FRAMES + index) as u32);
                    let count = self.heap.header(block).span() as usize;
                    let (start, end) = address_range(self.heap, Row { first: block, count });
                    f(start..end);
                }
            });
        }
    }
}

fn row(chunk: usize, place: usize, count: usize) -> Row {
    Row { first: Frame((chunk * CHUNK_FRAMES + place) as u32), count }
}

/// The frames of a chunk from `first` to `last`, which may lie in others.
fn in_chunk(chunk: usize, first: Frame, last: Frame) -> Mask {
    let from = if first.chunk() == chunk { first.in_chunk() } else { 0 };
    let to = if last.chunk() == chunk { last.in_chunk() } else { CHUNK_FRAMES - 1 };
    (Mask::MAX >> (CHUNK_FRAMES - 1 - (to - from))) << from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_between_two_ends() {
        let frame = |chunk: usize, place: usize| row(chunk, place, 1).first;
        assert_eq!(in_chunk(3, frame(3, 2), frame(3, 4)), 0b11100);
        assert_eq!(in_chunk(3, frame(2, 9), frame(3, 1)), 0b11);
        assert_eq!(in_chunk(3, frame(3, 126), frame(4, 0)), 0b11 << 126);
        assert_eq!(in_chunk(3, frame(1, 7), frame(5, 7)), Mask::MAX);
    }
}
