//! The heap under the write watch: which pages are protected, and scanning again what was written.
//!
//! Invariant: as the watch's, `[watch.inv.protect-before-scan]`; what the watch does not report on
//! counts as written, `[heap.inv.protected]`. Used by the collector's thread while the world runs,
//! and by who drives a stop.

use crate::sys::clock::Instant;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use super::pause::rest;
use super::written_roots::WrittenRoots;
use crate::addr::{CHUNK_BYTES, CHUNK_FRAMES, FRAME_BYTES, Frame, PAGE_BYTES};
use crate::cycle::policy::generation::Generation;
use crate::heap::Heap;
use crate::heap::frames::Mask;
use crate::heap::frames::watched::{Chosen, Row};
use crate::mark::drain::Marker;
use crate::sys::meta_vec::MetaVec;
use crate::watch::Watch;
use crate::watch::mapping_turns::MappingTurns;
use crate::world::Stopped;

/// Which blocks are protected besides those that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Those with marked objects: what is allocated and dies soon is never protected.
    Marked,
    /// All of them: most of what was allocated is expected to stay.
    All,
}

/// The system refused to watch; everything counts as written from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwatched;

/// Frames between two rows that are protected with them, to save a system call, and an interruption
/// of the program's other processors, which takes several microseconds. Most of what lies there is
/// free, or lent before it is filled. Larger: fewer calls; smaller: fewer first writes that fault.
const GAPS: &[usize] = &[16];
/// The same for stops, where time is dearer: the last one is taken where others leave too many
/// rows. Shorter than a chunk, which the watch may not know.
pub(super) const GAPS_IN_STOPS: &[usize] = &[16, CHUNK_FRAMES - 1];
/// The same where protection is taken off: a page that has none takes the kernel as long, and each
/// call interrupts the other processors once. Larger: more pages; smaller: more calls.
const UNPROTECTED_GAP: usize = 48;
/// So many rows are asked about in half a millisecond.
const MOST_ROWS: usize = 400;
/// A stop protects until it has taken so long; the next stop goes on. Larger: fewer stops; smaller:
/// shorter ones.
const ARMING: Duration = Duration::from_micros(400);
/// What was written is also scanned in the stop until it has taken so long, so not at all where
/// protecting took longer. Larger: longer stops; smaller: more rounds, since what is scanned beside
/// the program lets it write meanwhile.
const STOP: Duration = Duration::from_micros(300);

/// An open watch on the heap, and room for questions to it.
pub struct WrittenPages<W: Watch> {
    pub(super) heap: &'static Heap,
    pub(super) watch: W,
    /// Address ranges to ask about, kept from one question to the next.
    pub(super) rows: MetaVec<(usize, usize)>,
    /// Written ranges that were reported in a stop.
    pub(super) reported: MetaVec<(usize, usize)>,
    /// Of each chunk, what the last question has to know.
    pub(super) chunks: MetaVec<(Mask, Mask)>,
    roots: WrittenRoots,
}

impl<W: Watch> WrittenPages<W> {
    /// With a watch that is open over this heap.
    pub fn new(heap: &'static Heap, watch: W) -> Self {
        let (rows, reported, chunks) = (MetaVec::new(), MetaVec::new(), MetaVec::new());
        Self { heap, watch, rows, reported, chunks, roots: WrittenRoots::new() }
    }

    /// The watch.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    /// Makes room for questions, and says where that is.
    #[cfg(test)]
    pub fn room(&mut self) -> [usize; 2] {
        assert!(self.rows.try_reserve(1000).is_ok() && self.reported.try_reserve(1000).is_ok());
        [self.rows.as_ptr() as usize, self.reported.as_ptr() as usize]
    }

    /// Closes the watch and leaves all other memory where it is.
    pub fn close(self) {
        let Self { heap: _, watch, rows, reported, chunks, roots } = self;
        drop(watch);
        core::mem::forget((rows, reported, chunks, roots));
    }

    /// Begins a cycle. World running.
    pub fn begin(&mut self, generation: Generation) -> Result<(), Unwatched> {
        self.roots.begin(generation);
        self.watch.begin().map_err(|_| Unwatched)
    }

    /// The roots that are watched, and the watch to ask about them.
    pub fn roots(&mut self) -> (&mut WrittenRoots, &mut W) {
        (&mut self.roots, &mut self.watch)
    }

    /// Protects the chosen blocks and, again, all that are protected; calls `written` for what was
    /// written since it was protected last, what never was protected included. World running.
    pub fn protect(
        &mut self,
        choice: Choice,
        mut written: impl FnMut(Range<usize>),
    ) -> Result<(), Unwatched> {
        self.choose(choice, GAPS);
        let Self { heap, watch, rows, .. } = self;
        let heap: &Heap = heap;
        let turns = MappingTurns::default();
        let mut reported = |range: Range<usize>| {
            if heap.state.frozen_bytes.load(Relaxed) > 0 {
                heap.inner().frames.forget_closed(frames(heap, &range));
            }
            turns.beside(|| written(range));
        };
        let protected = rows.iter().all(|(start, end)| {
            turns.in_pieces(&(*start..*end), |piece| {
                watch.take_written(piece, &mut reported).is_ok()
            })
        });
        if !protected {
            heap.inner().frames.forget_registrations();
        }
        protected.then_some(()).ok_or(Unwatched)
    }

    /// Lists what is to be protected: the chosen blocks and all that are protected already, with
    /// the gaps of at most `gaps` frames between them; longer ones where that makes too many rows.
    /// All that counts as protected from now on.
    pub(super) fn choose(&mut self, choice: Choice, gaps: &[usize]) {
        self.register();
        let (heap, rows) = (self.heap, &mut self.rows);
        heap.state.protects.store(heap.state.lends_blocks.load(Relaxed), Relaxed);
        for gap in gaps.iter().copied() {
            rows.clear();
            let (mut carried, mut barred) = (0, 0);
            let chosen = |known: Range<usize>, unprotected: u128, lent: u128| {
                let chunk = known.start;
                let wanted = match choice {
                    Choice::All => unprotected,
                    Choice::Marked => {
                        let firsts = heap.marked_in_chunk(chunk) & unprotected;
                        heap.frames_of_blocks(chunk, firsts, &mut carried)
                    }
                };
                // A block of cells lies in one chunk.
                let lent = heap.lent_in_chunk(chunk, lent);
                let lent = heap.frames_of_blocks(chunk, lent, &mut 0);
                // Of a block all is protected or nothing.
                let beyond = heap.reaches_beyond(known);
                Chosen { wanted, barred: lent | heap.frames_of_blocks(chunk, beyond, &mut barred) }
            };
            heap.inner().frames.protect(gap, chosen, |row| rows.push(address_range(heap, row)));
            if rows.len() <= MOST_ROWS {
                break;
            }
        }
    }

    /// Has the watch know all chunks of scanned objects, as far as the system agrees.
    fn register(&mut self) {
        let (heap, rows) = (self.heap, &mut self.rows);
        rows.clear();
        heap.inner().frames.for_each_unregistered(|first, count| rows.push((first, count)));
        for (first, count) in rows.iter().copied() {
            let start = heap.base().0 + first * CHUNK_BYTES;
            // Outside the heap's lock: the system call waits for every page fault of the process.
            if self.watch.register(&(start..start + count * CHUNK_BYTES)).is_ok() {
                heap.inner().frames.note_registered(first, count);
            }
        }
    }

    /// How many pages the watch was asked about last.
    pub fn asked_pages(&self) -> usize {
        self.rows.iter().map(|(start, end)| pages(end - start)).sum()
    }

    /// Has the watch forget free memory, so that allocating there causes no page faults. World
    /// running.
    pub fn unprotect_free(&mut self) {
        let Self { heap, watch, rows, .. } = self;
        let heap: &Heap = heap;
        rows.clear();
        heap.inner().frames.unprotect_free(|row| rows.push(address_range(heap, row)));
        unprotect(watch, rows);
    }

    /// Has the watch forget everything: what is written from now on costs no page faults, and is
    /// not known. Says whether it was done; it is not where frozen objects are remembered as closed
    /// by what the watch says. World running.
    pub fn unprotect_all(&mut self) -> bool {
        let Self { heap, watch, rows, .. } = self;
        let heap: &Heap = heap;
        if heap.state.frozen_bytes.load(Relaxed) > 0 {
            return false;
        }
        rows.clear();
        let mut inner = heap.inner();
        let frames = &mut inner.frames;
        frames.for_each_protected_row(UNPROTECTED_GAP, |row| {
            rows.push(address_range(heap, row));
        });
        frames.unprotect_all();
        heap.state.protects.store(false, Relaxed);
        drop(inner);
        unprotect(watch, rows);
        true
    }

    /// Protects the chosen blocks, scans the marked objects on written pages again, and says how
    /// much that was, in pages. World running.
    pub fn preclean(
        &mut self,
        choice: Choice,
        marker: &mut Marker<'_>,
    ) -> Result<usize, Unwatched> {
        let mut scanned = 0;
        self.protect(choice, |written| {
            scanned += marker.rescan(&written);
        })?;
        Ok(pages(scanned))
    }

    /// The same, but protects while `stopped` has the world stopped, as much as fits into short
    /// stops, and begins to scan there what was written. Nobody has to be told of a page that is
    /// protected while nobody runs: with one other thread at work that takes ten times as long, and
    /// meanwhile as much is written again. `stopped` says for how many nanoseconds the world stood,
    /// and so long the program then has until the next stop.
    pub fn preclean_in_pauses(
        &mut self,
        marker: &mut Marker<'_>,
        mut stopped: impl FnMut(&mut dyn FnMut(&Stopped)) -> u64,
    ) -> Result<usize, Unwatched> {
        self.choose(Choice::Marked, GAPS_IN_STOPS);
        let Self { heap, watch, rows, reported, .. } = self;
        let heap: &Heap = heap;
        let mut scanned = 0;
        let mut answered = true;
        let mut left = rows.iter().copied().peekable();
        while left.peek().is_some() {
            reported.clear();
            let length_ns = stopped(&mut |_| {
                // Not from when the stop began: where stopping takes longer than protecting may,
                // there would be no end to it.
                let began = Instant::now();
                let mut inner = heap.inner();
                while began.elapsed() < ARMING
                    && let Some((start, end)) = left.next()
                {
                    let mut note = |written: Range<usize>| {
                        inner.frames.forget_closed(frames(heap, &written));
                        answered &= reported.try_push((written.start, written.end)).is_ok();
                    };
                    answered &= watch.take_written(&(start..end), &mut note).is_ok();
                }
                drop(inner);
                while began.elapsed() < STOP
                    && let Some((start, end)) = reported.pop()
                {
                    let next = end.min(start + FRAME_BYTES);
                    scanned += marker.rescan(&(start..next));
                    if next < end {
                        // There is room for it.
                        let _ = reported.try_push((next, end));
                    }
                }
            });
            let began = Instant::now();
            reported.iter().for_each(|(start, end)| scanned += marker.rescan(&(*start..*end)));
            if left.peek().is_some() {
                rest(began, length_ns);
            }
        }
        if !answered {
            heap.inner().frames.forget_registrations();
        }
        answered.then_some(pages(scanned)).ok_or(Unwatched)
    }
}

/// Those that a range of addresses of the heap lies in.
pub(super) fn frames(heap: &Heap, range: &Range<usize>) -> Range<Frame> {
    let frame = |address: usize| Frame::containing(address - heap.base().0);
    frame(range.start)..frame(range.end - 1).add(1)
}

/// So many bytes in whole pages.
pub(super) fn pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES)
}

/// Has the watch forget these rows. World running.
fn unprotect(watch: &mut impl Watch, rows: &[(usize, usize)]) {
    let turns = MappingTurns::default();
    for (start, end) in rows {
        turns.in_pieces(&(*start..*end), |piece| {
            watch.unprotect(piece);
            true
        });
    }
}

/// The addresses of a row.
pub fn address_range(heap: &Heap, row: Row) -> (usize, usize) {
    let start = heap.address(row.first).0;
    (start, start + row.count * FRAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Address;
    use crate::check::skip;
    use crate::heap::HEAP;
    use crate::sys::map;
    use crate::watch::pagemap::Pagemap;

    /// A child of `fork` that gave such memory back would unmap what lies there now: the parent's
    /// thread may have been moving it.
    #[test]
    fn what_is_left_to_the_parent_stays_mapped() {
        let Ok(watch) = Pagemap::open() else {
            return skip("the kernel refuses the pagemap watch");
        };
        let mut pages = WrittenPages::new(&HEAP, watch);
        let room = pages.room().map(|address| address & !(PAGE_BYTES - 1));
        pages.close();
        for page in room {
            assert!(map::resident_bytes(Address(page), PAGE_BYTES, &mut [0; 1]).is_some());
        }
    }
}
