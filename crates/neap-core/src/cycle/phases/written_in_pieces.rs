//! Scanning written pages in short stops, a piece in each, with as much time for the program
//! between: where it writes faster than pages can be scanned beside it.
//!
//! Invariant: as of [`written_pages`](super::written_pages): a page is protected before it is
//! scanned, and what was reported is scanned before the pass is over. After a pass that was
//! [`whole`](Pass::whole), every page that was protected when it began was scanned since it was
//! written last, as of the end of its stop. By the collector's thread.

use crate::sys::clock::Instant;
use core::time::Duration;

use super::pause::rest;
use super::written_pages::{Choice, GAPS_IN_STOPS, Unwatched, WrittenPages, frames, pages};
use crate::heap::Heap;
use crate::mark::drain::Marker;
use crate::sys::meta_vec::MetaVec;
use crate::watch::Watch;
use crate::world::Stopped;

/// Pages that are asked for at once. Larger: fewer questions; smaller: the clock is looked at more
/// often, and a page that is written while it waits need not be scanned twice.
const PIECE_PAGES: usize = 32;
/// A stop scans until it has taken so long. Larger: fewer stops, and longer ones; smaller: more of
/// each goes into stopping and resuming.
const SCANNING: Duration = Duration::from_micros(300);
/// Until then it protects what is scanned beside the program after it.
const STOP: Duration = Duration::from_micros(400);

/// Written ranges that are to be scanned.
type Reported = MetaVec<(usize, usize)>;

/// What a pass over the heap found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Written pages, all of them scanned.
    pub pages: usize,
    /// One stop was enough.
    pub whole: bool,
    /// The world could not be stopped: pages are left that nobody asked about.
    pub unstopped: bool,
}

impl<W: Watch> WrittenPages<W> {
    /// Protects what is written, a piece at a time, and scans it, some in the same stop and as much
    /// after it. `stopped` runs what it is given with the world stopped, and says for how many
    /// nanoseconds it stood, if it could be; so long, and `percent` of it, the program then has
    /// until the next stop.
    pub fn pass_in_pieces(
        &mut self,
        marker: &mut Marker<'_>,
        percent: u64,
        mut stopped: impl FnMut(&mut dyn FnMut(&Stopped)) -> Option<u64>,
    ) -> Result<Pass, Unwatched> {
        self.choose(Choice::Marked, GAPS_IN_STOPS);
        let Self { heap, watch, rows, reported, .. } = self;
        let heap: &Heap = heap;
        let mut questions = Questions { heap, watch, rows, row: 0, at: 0, answered: true };
        let mut scanned = 0;
        let mut scan = |reported: &mut Reported| {
            let range = reported.pop();
            range.map(|(start, end)| scanned += marker.rescan(&(start..end))).is_some()
        };
        reported.clear();
        let (mut stops, mut unstopped) = (0, false);
        let whole = loop {
            let length_ns = stopped(&mut |_| {
                // Not from when the stop began: each stop gets on, however long stopping takes.
                let (began, mut found) = (Instant::now(), 0);
                while began.elapsed() < SCANNING {
                    if !scan(reported) {
                        match questions.ask(reported) {
                            Some(pages) => found += pages,
                            None => break,
                        }
                    }
                }
                while found > 0
                    && began.elapsed() < STOP
                    && let Some(pages) = questions.ask(reported)
                {
                    found = found.saturating_sub(pages.max(1));
                }
            });
            let Some(length_ns) = length_ns else {
                while scan(reported) {}
                unstopped = true;
                break false;
            };
            stops += 1;
            if questions.are_over() && reported.is_empty() {
                break stops == 1;
            }
            let began = Instant::now();
            let program_ns = length_ns / 100 * percent;
            let program = Duration::from_nanos(program_ns);
            while began.elapsed() < program && scan(reported) {}
            if questions.are_over() {
                while scan(reported) {}
                break false;
            }
            rest(began, program_ns);
        };
        if !questions.answered {
            heap.inner().frames.forget_registrations();
            return Err(Unwatched);
        }
        Ok(Pass { pages: pages(scanned), whole, unstopped })
    }
}

/// Address ranges that are asked about, a piece at a time.
struct Questions<'a, W> {
    heap: &'a Heap,
    watch: &'a mut W,
    rows: &'a [(usize, usize)],
    /// The one that is asked about next, from this address on, or from its beginning.
    row: usize,
    at: usize,
    /// Every question was answered so far.
    answered: bool,
}

impl<W: Watch> Questions<'_, W> {
    /// Whether nothing is left to ask, or of no use.
    fn are_over(&self) -> bool {
        self.row == self.rows.len() || !self.answered
    }

    /// Asks for a piece of what was written, and has it protected; gives how many pages that was.
    fn ask(&mut self, reported: &mut Reported) -> Option<usize> {
        if self.are_over() {
            return None;
        }
        let (start, end) = self.rows[self.row];
        let range = start.max(self.at)..end;
        let mut inner = self.heap.inner();
        let (mut found, mut noted) = (0, true);
        let asked = self.watch.take_some_written(&range, PIECE_PAGES, &mut |written| {
            inner.frames.forget_closed(frames(self.heap, &written));
            found += written.len();
            noted &= reported.try_push((written.start, written.end)).is_ok();
        });
        self.answered = asked.is_ok() && noted;
        self.at = asked.unwrap_or(end);
        self.row += (self.at >= end) as usize;
        Some(pages(found))
    }
}

#[cfg(test)]
mod tests {
    use core::ops::Range;
    use core::sync::atomic::AtomicU32;

    use super::*;
    use crate::addr::PAGE_BYTES;
    use crate::alloc::large;
    use crate::heap::HEAP;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::Kind;
    use crate::sys::refusal::Refusal;

    /// Counts what it is asked about, and reports all of it.
    struct Everything(usize);

    impl Watch for Everything {
        fn register(&mut self, _: &Range<usize>) -> Result<(), Refusal> {
            Ok(())
        }

        fn unprotect(&mut self, _: &Range<usize>) {}

        fn take_written(
            &mut self,
            range: &Range<usize>,
            written: &mut dyn FnMut(Range<usize>),
        ) -> Result<(), Refusal> {
            self.0 += range.len();
            written(range.clone());
            Ok(())
        }

        fn written(
            &self,
            _: &Range<usize>,
            _: &mut dyn FnMut(Range<usize>),
        ) -> Result<(), Refusal> {
            Ok(())
        }
    }

    #[test]
    fn every_page_of_each_row_is_asked_about_once() {
        HEAP.reserve(16 << 20).unwrap();
        let (note, bytes) = (AtomicU32::new(0), 400 * PAGE_BYTES);
        let object = large::take(&HEAP, &note, Kind::Conservative, NO_LAYOUT, bytes);
        let base = object.unwrap().start.0;
        let rows = [(0, 100), (200, 201), (300, 300 + 2 * PIECE_PAGES)]
            .map(|(from, to)| (base + from * PAGE_BYTES, base + to * PAGE_BYTES));
        let (mut watch, mut reported) = (Everything(0), MetaVec::new());
        let mut questions = Questions {
            heap: &HEAP,
            watch: &mut watch,
            rows: &rows,
            row: 0,
            at: 0,
            answered: true,
        };
        let mut most = 0;
        while let Some(pages) = questions.ask(&mut reported) {
            most = most.max(pages);
        }
        assert!(questions.answered);
        assert_eq!((most, watch.0), (PIECE_PAGES, (101 + 2 * PIECE_PAGES) * PAGE_BYTES));
        // Nothing twice, nothing left out.
        let mut pages: Vec<usize> =
            reported.iter().flat_map(|(start, end)| (*start..*end).step_by(PAGE_BYTES)).collect();
        let count = pages.len();
        pages.sort();
        pages.dedup();
        assert_eq!((pages.len(), count), (101 + 2 * PIECE_PAGES, count));
    }
}
