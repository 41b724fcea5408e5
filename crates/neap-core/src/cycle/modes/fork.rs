//! A full cycle by a child process: one short pause in which roots are read and the process is
//! copied; the copy marks the heap as it was then, while the program runs on.
//!
//! The steps: *write-protect* (the collector's thread: finish the last sweep, clear marks, map what
//! the answer comes in; copying the process protects it) · *first pause* (read roots but for large
//! ones, make the child; from here on buffers are handed out marked) · *mark* (the child reads the
//! large roots and marks its copy of the heap, alone or with threads of its own, and sends the
//! marks back; the collector's thread waits for its end and adds them) · *last pause* (references,
//! hand blocks to the sweep). Invariant: `[cycle.inv.snapshot]`, which [`SnapshotCycle`] keeps. A
//! child that could not be made or did not answer ends in an ordinary cycle.
//!
//! # Safety
//! The child does only what is safe in one: no libc, no lock that another thread held. The memory
//! that both share is read by the parent after the child's end.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::marking_mode::{Left, MarkingMode};
use super::snapshot_modes::SnapshotCycle;
use crate::addr::{Address, CHUNK_BYTES, PAGE_BYTES};
use crate::check;
use crate::cycle::collector::Collector;
use crate::cycle::phase::Step;
use crate::cycle::phases::pause::Pause;
use crate::cycle::phases::read_roots::{Resting, read_marking, read_whole};
use crate::cycle::phases::written_pages::Unwatched;
use crate::cycle::policy::generation::Generation;
use crate::cycle::report::callbacks::{self, CycleEvent, tell};
use crate::cycle::report::record::Kind;
use crate::cycle::report::spans::{self, SpanKind, timed};
use crate::cycle::token::Driver;
use crate::cycle::workers;
use crate::heap::bits::mark_transfer;
use crate::heap::{HEAP, Heap};
use crate::mark::drain::Marker;
use crate::mark::frozen_roots::Closed;
use crate::mark::{marking_check, rescan};
use crate::sys::meta_vec::MetaVec;
use crate::sys::process::child::{self, Child};
use crate::sys::process::mappings;
use crate::sys::{clock, map, print, program_call};
use crate::watch::mapping_turns::MappingTurns;
use crate::world::host;
use crate::world::mutator::Mutator;

/// The beginning of the shared memory; the words of [`mark_transfer`] follow. Written by the child,
/// read by the parent after its end.
#[repr(C)]
struct Answer {
    /// Words that follow, plus one; 0 while there is no answer.
    length: AtomicU64,
    /// Bytes that the child marked.
    marked_bytes: AtomicU64,
    /// `NEAP_CHECK=3`: a marked object and one that it points to and that is not; 0 for none.
    lost: [AtomicU64; 2],
    /// 1 where a root that was left to the child may not be there.
    misses_root: AtomicU64,
    /// When marking began and was over, by the clock; 0 if it did not come to that.
    began_ns: AtomicU64,
    marked_ns: AtomicU64,
}

/// How much the heap may grow between mapping the answer and the stop before the stop has to map it
/// anew.
const SPARE_BYTES: usize = 64 << 20;

/// A root with at least so many bytes is left to the child, `[watch.why.left-roots]`, whose copy is
/// as the pause found it. Larger: longer stops; smaller: more questions to the kernel in them.
const LEFT_BYTES: usize = 2 << 20;

/// Memory that parent and child share, for one cycle.
struct Shared {
    start: Address,
    bytes: usize,
}

impl Shared {
    /// Room for the marks of `committed` bytes of heap.
    fn new(committed: usize) -> Option<Self> {
        let bytes = size_of::<Answer>() + mark_transfer::most_words(committed) * 8;
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        Some(Self { start: map::allocate_shared(bytes).ok()?, bytes })
    }

    fn holds(&self, committed: usize) -> bool {
        size_of::<Answer>() + mark_transfer::most_words(committed) * 8 <= self.bytes
    }

    fn answer(&self) -> &Answer {
        // SAFETY: the mapping begins with it, zero at first, and lives as long as self; all access
        // is atomic.
        unsafe { &*self.start.pointer::<Answer>() }
    }

    /// When the child began to mark, by the clock, and how long it took, if it came to the end of
    /// that. After the child's end.
    fn marking_ns(&self) -> Option<(u64, u64)> {
        let [began_ns, marked_ns] =
            [&self.answer().began_ns, &self.answer().marked_ns].map(|time| time.load(Relaxed));
        let length_ns = marked_ns.checked_sub(began_ns).filter(|_| began_ns > 0)?;
        Some((began_ns, length_ns))
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

/// What such a cycle keeps between its steps.
#[derive(Default)]
pub struct Fork {
    shared: Option<Shared>,
    child: Option<Child>,
    /// Roots that the child reads, by their ends.
    left: MetaVec<(usize, usize)>,
    /// A child missed one: the program keeps memory from its children, and all are read in the
    /// stop.
    leaves_none: bool,
    snapshot: SnapshotCycle,
}

impl Fork {
    /// Before the first cycle.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Fork {
    /// All of them, but for those that are left to the child.
    fn read_roots(&mut self, driver: &mut Driver, of: &mut Collector, pause: &Pause) {
        let left = &mut self.left;
        left.clear();
        // What a host names it may use for something else afterwards.
        let leaves_some = !self.leaves_none && host::get().is_none();
        driver.read_roots_by(of, pause, Resting::Read, &mut |marker, range| {
            let is_large = leaves_some && range.len() >= LEFT_BYTES;
            // The child has no copy of memory that is shared: the program goes on writing there.
            let is_copied = is_large && mappings::covering(&range).is_some();
            if !is_copied || left.try_push((range.start, range.end)).is_err() {
                // SAFETY: it is given what roots there are, with the world stopped.
                unsafe { read_whole(marker, range) };
            }
        });
    }
}

impl MarkingMode for Fork {
    fn write_protect(&mut self, driver: &mut Driver, _: Generation) -> Result<(), Unwatched> {
        let began = timed(SpanKind::Protect);
        self.snapshot.begin(driver, Kind::Fork, began);
        mend_huge_pages(driver.heap);
        self.shared = Shared::new(driver.heap.committed() + SPARE_BYTES);
        driver.record.protect_ns = began.over(driver.record.number);
        Ok(())
    }

    fn first_pause(
        &mut self,
        driver: &mut Driver,
        of: &mut Collector,
        own: Option<&Mutator>,
    ) -> Option<()> {
        let (heap, markers) = (driver.heap, driver.markers());
        of.step(Step::Protected);
        callbacks::before_roots(true);
        let pause = Pause::begin(driver, of, own)?;
        driver.record.stopping_ns = pause.stopping_ns;
        tell(CycleEvent::MarkStart);
        let helpers = child_helpers(of);
        markers.begin(1, true);
        self.snapshot.take(heap, of);
        let phase = timed(SpanKind::StoppedRoots);
        self.read_roots(driver, of, &pause);
        phase.over(driver.record.number);
        driver.record.roots_ns = pause.so_far_ns();
        if !self.shared.as_ref().is_some_and(|shared| shared.holds(heap.committed())) {
            self.shared = Shared::new(heap.committed());
        }
        if let Some(shared) = &self.shared {
            // The child walks the lists of blocks: nobody is in the middle of changing one.
            let inner = heap.inner();
            // SAFETY: what the child does is `mark_and_send`, which keeps to the rules.
            match unsafe { child::make() } {
                Ok(None) => {
                    drop(inner);
                    mark_and_send(shared, driver, &self.left, helpers);
                }
                Ok(Some(made)) => self.child = Some(made),
                Err(_) => {}
            }
        }
        driver.marker.forget_work();
        markers.take_overflow();
        driver.record.markers = 1 + helpers;
        of.step(Step::RootsRead);
        driver.record.note_stop(SpanKind::FirstStop, pause.end());
        Some(())
    }

    /// Waits for the child and adds its marks.
    fn mark(&mut self, driver: &mut Driver) {
        let began = timed(SpanKind::Mark);
        if let (Some(child), Some(shared)) = (self.child.take(), &self.shared) {
            let number = child.number();
            child.wait();
            if let Some((began_ns, length_ns)) = shared.marking_ns() {
                let cycle = driver.record.number;
                spans::tell(SpanKind::ForkedMark, Some(number), cycle, began_ns, length_ns);
                driver.record.beside_ns = length_ns * driver.record.markers as u64;
            }
            self.leaves_none |= shared.answer().misses_root.load(Relaxed) != 0;
            self.snapshot.answered = receive(driver.heap, shared);
            driver.record.beside_bytes = driver.heap.state.marked_bytes.load(Relaxed);
        }
        self.shared = None;
        if !self.snapshot.answered {
            self.snapshot.expect_to_mark(driver);
        }
        driver.record.mark_ns = began.over(driver.record.number);
    }

    fn remark(&mut self, driver: &mut Driver, of: &mut Collector, own: Option<&Mutator>) -> Left {
        self.snapshot.remark(driver, of, own)
    }

    fn conclude(&mut self, driver: &mut Driver, of: &mut Collector) {
        self.snapshot.conclude(driver, of);
    }

    fn give_up(&mut self) {
        self.shared = None;
    }
}

/// What the program wrote while the last child was there has divided huge pages, which the next
/// copy of the page tables would pay for. World running, on the collector's thread.
fn mend_huge_pages(heap: &Heap) {
    let state = &heap.state;
    let above = state.huge_pages_above.load(Relaxed).max(state.small_pages_below.load(Relaxed));
    let turns = MappingTurns::default();
    for offset in (above..heap.committed()).step_by(CHUNK_BYTES) {
        let whole = heap.inner().frames.is_whole(offset / CHUNK_BYTES);
        let chunk = heap.base().0 + offset..heap.base().0 + offset + CHUNK_BYTES;
        let collapse = |chunk: &Range<usize>| map::collapse(Address(chunk.start), chunk.len());
        if whole && !turns.in_pieces(&chunk, collapse) {
            return;
        }
    }
}

/// Threads that the child starts: as many as mark in the background otherwise. Where locks check
/// their order they keep it in thread-local storage, which these threads have none of.
fn child_helpers(collector: &Collector) -> usize {
    if cfg!(debug_assertions) { 0 } else { collector.background_helpers() }
}

/// The child's helpers that have nothing left to do.
static HELPERS_DONE: AtomicU32 = AtomicU32::new(0);

extern "C" fn help(place: *mut c_void) -> c_int {
    let markers = workers::of_process().markers();
    let mut marker = Marker::new(markers, &HEAP, place as usize);
    markers.enter();
    marker.work();
    marker.report();
    // Its stack is not unmapped: it is the thread's own until the process is gone.
    core::mem::forget(marker);
    HELPERS_DONE.fetch_add(1, Release);
    0
}

/// What the child does: marks its copy of the heap, writes the marks to the shared memory, and
/// exits. The driver's stack holds the roots, but for those that are left to it.
fn mark_and_send(
    shared: &Shared,
    driver: &mut Driver,
    left: &[(usize, usize)],
    helpers: usize,
) -> ! {
    let (heap, markers) = (driver.heap, driver.markers());
    // The program may keep memory from its children (`MADV_DONTFORK`): asked before anything of
    // ours is mapped there.
    if left.iter().any(|(start, end)| mappings::may_have_hole(&(*start..*end))) {
        shared.answer().misses_root.store(1, Relaxed);
        child::exit(0);
    }
    HELPERS_DONE.store(0, Relaxed);
    shared.answer().began_ns.store(clock::now_ns(), Relaxed);
    // The program's trace functions run here, on a copy of the thread that they expect.
    markers.begin(1 + helpers, false);
    markers.done.become_active();
    let started = (1..=helpers)
        // SAFETY: this is such a child, and markers use no thread-local storage.
        .filter(|place| unsafe { child::start_thread(help, *place as *mut c_void) })
        .count() as u32;
    for (start, end) in left.iter().copied() {
        // SAFETY: it can be read, and is a copy of what was a root when the world stopped.
        unsafe { read_marking(&mut driver.marker, start..end, Marker::drain) };
    }
    driver.trace_registered();
    driver.marker.scan_frozen(Closed::Scanned);
    driver.mark_uncollectable();
    driver.marker.work_as_driver();
    while HELPERS_DONE.load(Acquire) < started {
        core::hint::spin_loop();
    }
    markers.begin(1, false);
    rescan::until_complete(markers, &mut driver.marker);
    driver.marker.report();
    shared.answer().marked_ns.store(clock::now_ns(), Relaxed);
    if program_call::take_lost_roots() {
        child::exit(0);
    }
    let answer = shared.answer();
    if check::level() >= check::MARKS
        && let Some(lost) = marking_check::find_lost(heap)
    {
        answer.lost[0].store(lost.parent as u64, Relaxed);
        answer.lost[1].store(lost.child as u64, Relaxed);
    }
    let (words, most) = shared.words();
    // SAFETY: the rest of the mapping, which the parent reads only after this process has ended.
    let words = unsafe { core::slice::from_raw_parts_mut(words, most) };
    if let Some(sent) = mark_transfer::send(heap, words) {
        answer.marked_bytes.store(heap.state.marked_bytes.load(Relaxed) as u64, Relaxed);
        answer.length.store(sent as u64 + 1, Release);
    }
    child::exit(0)
}

/// Adds what the child sent to the heap's marks; false if it sent nothing. After the child's end.
fn receive(heap: &Heap, shared: &Shared) -> bool {
    let answer = shared.answer();
    let Some(length) = answer.length.load(Acquire).checked_sub(1) else { return false };
    let [parent, child] = [0, 1].map(|index| answer.lost[index].load(Relaxed));
    if parent != 0 {
        print::fatal(format_args!(
            "NEAP_CHECK: object {parent:#x} is marked in the snapshot, and its child {child:#x} \
             is not"
        ));
    }
    let (words, most) = shared.words();
    // SAFETY: as many words were written by a process that has ended.
    let words = unsafe { core::slice::from_raw_parts(words, (length as usize).min(most)) };
    mark_transfer::receive(heap, words);
    heap.state.marked_bytes.store(answer.marked_bytes.load(Relaxed) as usize, Relaxed);
    true
}
