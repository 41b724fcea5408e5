//! A full cycle by a child process: one short stop in which the roots are read and the process is copied; the copy marks the heap as it was then, while the program runs on.
//!
//! The steps: *arm* (the collector's thread: finish the last sweep, clear marks, map what the answer comes in) · *first stop* (read roots, make the child; from here on runs are handed out marked) · *mark*
//! (the child marks its copy of the heap, alone or with threads of its own, and sends the marks back; the collector's thread waits for its end and adds them) · *last stop* (references, hand blocks to the sweep).
//! Invariant: `[cycle.inv.snapshot]`, which [`Taken`] keeps. A child that could not be made or did not answer ends in an ordinary cycle.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::Instant;

use super::collector::Collector;
use super::concurrent::background_helpers;
use super::events::{CycleEvent, tell};
use super::markers;
use super::phase::Step;
use super::report::Kind;
use super::settle::Settling;
use super::stopped::{Stop, mark_uncollectable, nanoseconds, read_roots};
use super::taken::Taken;
use crate::addr::{Address, CHUNK_BYTES, PAGE_BYTES};
use crate::heap::{HEAP, sent_marks};
use crate::mark::drain::Marker;
use crate::mark::frozen::Inward;
use crate::mark::team::Team;
use crate::mark::{rescan, verify};
use crate::sys::child::{self, Child};
use crate::sys::{map, print};
use crate::world::mutator::Mutator;
use crate::{check, refs};

/// The beginning of the shared memory; the words of [`sent_marks`] follow. Written by the child, read by the parent after its end.
#[repr(C)]
struct Answer {
    /// Words that follow, plus one; 0 while there is no answer.
    length: AtomicU64,
    /// Bytes that the child marked.
    marked_bytes: AtomicU64,
    /// `NEAP_CHECK=3`: a marked object and one that it points to and that is not; 0 for none.
    lost: [AtomicU64; 2],
}

/// How much the heap may grow between mapping the answer and the stop before the stop has to map it anew.
const SPARE_BYTES: usize = 64 << 20;

/// Memory that parent and child share, for one cycle.
struct Shared {
    start: Address,
    bytes: usize,
}

impl Shared {
    /// Room for the marks of `committed` bytes of heap.
    fn new(committed: usize) -> Option<Self> {
        let bytes = size_of::<Answer>() + sent_marks::most_words(committed) * 8;
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        Some(Self { start: map::allocate_shared(bytes).ok()?, bytes })
    }

    fn holds(&self, committed: usize) -> bool {
        size_of::<Answer>() + sent_marks::most_words(committed) * 8 <= self.bytes
    }

    fn answer(&self) -> &Answer {
        // SAFETY: the mapping begins with it, zero at first, and lives as long as self; all access is atomic.
        unsafe { &*self.start.pointer::<Answer>() }
    }

    /// Where the words go.
    fn words(&self) -> (*mut u64, usize) {
        let start = self.start.add(size_of::<Answer>());
        (start.pointer(), (self.bytes - size_of::<Answer>()) / 8)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        map::release(self.start, self.bytes);
    }
}

/// What such a cycle keeps between its steps; protected by the collector's lock while the world may step, used by the collector's thread alone between.
#[derive(Default)]
pub struct ByFork {
    shared: Option<Shared>,
    child: Option<Child>,
    taken: Taken,
}

impl ByFork {
    /// Before the first cycle.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes allocated while the last cycle ran.
    pub fn allocated_during_last(&self) -> usize {
        self.taken.allocated_during_last
    }

    /// Before the first stop, world running, on the collector's thread.
    pub fn arm(&mut self) {
        let began = Instant::now();
        self.taken.begin(Kind::Fork);
        mend_huge_pages();
        self.shared = Shared::new(HEAP.committed() + SPARE_BYTES);
        self.taken.record.arm_ns = nanoseconds(began);
    }

    /// The first stop. `own` is the calling mutator, if it is one.
    pub fn first_stop(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        collector.step(Step::Armed);
        tell(CycleEvent::CycleStart);
        let stop = Stop::begin(collector, own);
        self.taken.record.stopping_ns = stop.stopping_ns;
        tell(CycleEvent::MarkStart);
        let team = markers::team();
        let helpers = child_helpers(collector);
        team.begin(1, true);
        self.taken.take(collector);
        // SAFETY: this thread drives the stop, under the collector's lock.
        let marker = unsafe { markers::driver() };
        read_roots(collector, &stop, team, marker);
        self.taken.record.roots_ns = nanoseconds(stop.began);
        if !self.shared.as_ref().is_some_and(|shared| shared.holds(HEAP.committed())) {
            self.shared = Shared::new(HEAP.committed());
        }
        if let Some(shared) = &self.shared {
            // The child walks the lists of blocks: nobody is in the middle of changing one.
            let inner = HEAP.inner();
            // SAFETY: what the child does is `mark_and_send`, which keeps to the rules.
            match unsafe { child::make() } {
                Ok(None) => {
                    drop(inner);
                    mark_and_send(shared, team, marker, helpers);
                }
                Ok(Some(made)) => self.child = Some(made),
                Err(_) => {}
            }
        }
        marker.forget_work();
        team.take_overflow();
        self.taken.record.markers = 1 + helpers;
        collector.step(Step::RootsRead);
        self.taken.record.first_ns = stop.end();
    }

    /// Waits for the child and adds its marks, world running, on the collector's thread.
    pub fn mark(&mut self) {
        let began = Instant::now();
        if let (Some(child), Some(shared)) = (self.child.take(), &self.shared) {
            child.wait();
            self.taken.answered = receive(shared);
        }
        self.shared = None;
        if !self.taken.answered {
            self.taken.expect_to_mark();
        }
        self.taken.record.mark_ns = nanoseconds(began);
    }

    /// The last stop; ends the cycle. `own` as in [`Self::first_stop`].
    pub fn remark(&mut self, collector: &mut Collector, own: Option<&Mutator>) {
        self.taken.remark(collector, own);
    }
}

/// What the program wrote while the last child was there has divided huge pages, which the next copy of the page tables would pay for. World running, on the collector's thread.
fn mend_huge_pages() {
    let state = &HEAP.state;
    let above = state.huge_pages_above.load(Relaxed).max(state.small_pages_below.load(Relaxed));
    for offset in (above..HEAP.committed()).step_by(CHUNK_BYTES) {
        let whole = HEAP.inner().granules.is_whole(offset / CHUNK_BYTES);
        if whole && !map::collapse(HEAP.base().add(offset), CHUNK_BYTES) {
            return;
        }
    }
}

/// Threads that the child starts: as many as mark in the background otherwise. Where locks check their order they keep it in thread-local storage, which these threads have none of.
fn child_helpers(collector: &Collector) -> usize {
    if cfg!(debug_assertions) { 0 } else { background_helpers(collector) }
}

/// The child's helpers that have nothing left to do.
static HELPERS_DONE: AtomicU32 = AtomicU32::new(0);

extern "C" fn help(place: *mut c_void) -> c_int {
    let mut marker = Marker::new(markers::team(), &HEAP, place as usize);
    markers::team().enter();
    marker.work();
    marker.report();
    // Its stack is not unmapped: it is the thread's own until the process is gone.
    core::mem::forget(marker);
    HELPERS_DONE.fetch_add(1, Release);
    0
}

/// What the child does: marks its copy of the heap, writes the marks to the shared memory, and exits. The driver's stack holds the roots.
fn mark_and_send(
    shared: &Shared,
    team: &'static Team,
    marker: &mut Marker<'static>,
    helpers: usize,
) -> ! {
    HELPERS_DONE.store(0, Relaxed);
    // The program's trace functions run here, on a copy of the thread that they expect.
    team.begin(1 + helpers, false);
    team.done.become_active();
    let started = (1..=helpers)
        // SAFETY: this is such a child, and markers use no thread-local storage.
        .filter(|place| unsafe { child::start_thread(help, *place as *mut c_void) })
        .count() as u32;
    refs::trace_registered(&mut Settling::new(team, &HEAP, marker));
    marker.scan_frozen(Inward::Scanned);
    mark_uncollectable(marker);
    marker.work_as_driver();
    while HELPERS_DONE.load(Acquire) < started {
        core::hint::spin_loop();
    }
    team.begin(1, false);
    rescan::until_complete(team, marker);
    marker.report();
    let answer = shared.answer();
    if check::level() >= 3
        && let Some(lost) = verify::find_lost(&HEAP)
    {
        answer.lost[0].store(lost.parent as u64, Relaxed);
        answer.lost[1].store(lost.child as u64, Relaxed);
    }
    let (words, most) = shared.words();
    // SAFETY: the rest of the mapping, which the parent reads only after this process has ended.
    let words = unsafe { core::slice::from_raw_parts_mut(words, most) };
    if let Some(sent) = sent_marks::send(&HEAP, words) {
        answer.marked_bytes.store(HEAP.state.marked_bytes.load(Relaxed) as u64, Relaxed);
        answer.length.store(sent as u64 + 1, Release);
    }
    child::exit(0)
}

/// Adds what the child sent to the heap's marks; false if it sent nothing. After the child's end.
fn receive(shared: &Shared) -> bool {
    let answer = shared.answer();
    let Some(length) = answer.length.load(Acquire).checked_sub(1) else { return false };
    let [parent, child] = [0, 1].map(|index| answer.lost[index].load(Relaxed));
    if parent != 0 {
        print::fatal(format_args!(
            "NEAP_CHECK: object {parent:#x} is marked in the snapshot, and its child {child:#x} is not"
        ));
    }
    let (words, most) = shared.words();
    // SAFETY: as many words were written by a process that has ended.
    let words = unsafe { core::slice::from_raw_parts(words, (length as usize).min(most)) };
    sent_marks::receive(&HEAP, words);
    HEAP.state.marked_bytes.store(answer.marked_bytes.load(Relaxed) as usize, Relaxed);
    true
}
