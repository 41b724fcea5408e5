//! The few words that every layer reads: the cycle's number, whether objects are born marked, and
//! the heap's own byte counts.
//!
//! Invariant: counts are the heap's own, never the system's; each names who writes it. Read from
//! any thread.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::stats::live;

/// What a cycle that marks a snapshot has to know of the time since: an object that was unreachable
/// in it stays so, unless a weak reference brought it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Snapshot {
    /// There is none.
    None = 0,
    /// It was taken, and no hidden pointer was read since.
    Taken = 1,
    /// One was read.
    Revealed = 2,
}

/// What [`HeapState::reference_processing`] says: how far a cycle is with deciding about what
/// marking did not reach.
pub mod reference_processing {
    /// No cycle is at it.
    pub const NO: u32 = 0;
    /// Ephemerons are looked at; who reads a weak reference to an unmarked object has to wait.
    pub const EPHEMERONS: u32 = 1;
    /// Values of ephemerons are being marked, with the world running: what is marked may not be
    /// scanned yet, so who reads any weak reference has to wait.
    pub const FOLLOWING: u32 = 2;
    /// Marks are final for all but finalizable objects; who reads a weak reference to an unmarked
    /// object gets null.
    pub const SHORT: u32 = 3;
    /// What finalizable objects keep is being marked, in a stop; references that track resurrection
    /// are undecided.
    pub const FINALIZERS: u32 = 4;
    /// The same with the world running: as with [`FOLLOWING`] for references that track
    /// resurrection.
    pub const RESURRECTING: u32 = 5;
    /// All marks are final.
    pub const LONG: u32 = 6;
}

/// Alone in its cache lines (two, since processors fetch them in pairs): it is written all the
/// time, and what lies beside it is read all the time.
#[repr(align(128))]
pub struct Apart<T>(T);

impl<T> core::ops::Deref for Apart<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> core::ops::DerefMut for Apart<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Apart<T> {
    /// With its value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

/// Shared words; all access is relaxed, the locks and stops around it order it.
pub struct HeapState {
    /// Whether markers read objects while the program runs, so that memory must not be taken from
    /// under them. Written under the heap's lock. Who frees without it, or hands out cells, is
    /// waited for where the world is not stopped.
    pub marking: AtomicBool,
    /// How many threads make objects permanent: who frees takes the heap's lock meanwhile. Counted
    /// by who does that from before a cycle, in which all that free see it; 0 in a child of `fork`.
    pub freezing: AtomicU32,
    /// Whether frees are put off: as above. Written under the heap's lock; set while `marking` is.
    pub defers_frees: AtomicBool,
    /// 0 or 1: which lists hold swept blocks, for who does not have the heap's lock. Written under
    /// it with the world stopped.
    pub epoch: AtomicUsize,
    /// Whether all buffers are marked as they are handed out; set by who drives the cycle, also
    /// with the world running, and taken back under the heap's lock. Who hands out cells by what it
    /// was is waited for before marks are cleared.
    pub allocate_black: AtomicBool,
    /// The process was forked in the middle of a cycle: there may be marks in blocks that are not
    /// noted as having any. Set by the only thread of a forked child, read and cleared by the
    /// cycle.
    pub unnoted_marks: AtomicBool,
    /// One of [`reference_processing`]. Written by the cycle: set before the world resumes after
    /// the last stop, cleared when all references are processed.
    pub reference_processing: AtomicU32,
    /// Twice the number of the cycle that made the mark bits what they are; odd from the moment the
    /// next one clears them. Written by the cycle.
    pub marks: AtomicU64,
    /// Marks were cleared since marking ended last: a full cycle is under way. As above.
    pub marked_anew: AtomicBool,
    /// Cycles completed; written by who runs the cycle.
    pub cycles: AtomicU64,
    /// Bytes of buffers and large objects handed out since the last cycle; added to by mutators,
    /// reset by the cycle.
    pub allocated_since_cycle: Apart<AtomicUsize>,
    /// Bytes of cells freed explicitly since the last cycle; written under the heap's lock.
    pub freed_since_cycle: AtomicUsize,
    /// Of these, cells that the last cycle had found live; as above.
    pub freed_live_since_cycle: AtomicUsize,
    /// Bytes by which objects grew that the last cycle had found live. As above.
    pub grown_live_since_cycle: AtomicUsize,
    /// Bytes of registrations that were passed since, void ones, in search of others: work that a
    /// cycle saves. Written by any thread.
    pub passed_bytes: AtomicUsize,
    /// Bytes marked by the last cycle; written by the cycle.
    pub live_bytes: AtomicUsize,
    /// Of [`SURVIVING`] bytes handed out, so many are expected to live when the next cycle begins;
    /// written by the cycle.
    pub surviving: AtomicUsize,
    /// Bytes marked so far by the cycle under way; added to by markers.
    pub marked_bytes: AtomicUsize,
    /// Bytes that were born marked during the last cycle, live or not; written by the cycle.
    pub born_marked_bytes: AtomicUsize,
    /// Most bytes of frames that were in use at once; written under the heap's lock.
    pub peak_bytes: AtomicUsize,
    /// Bytes of frames in use; written under the heap's lock.
    pub taken_bytes: AtomicUsize,
    /// Of the frames in use, those of objects that are scanned; written under the heap's lock.
    pub scanned_bytes: AtomicUsize,
    /// What memory that is freed now is stamped with, for decay: the number of cycles, written by
    /// who ends one, or the collector's clock in milliseconds, written by its thread; coarse.
    freeing_stamp: AtomicU64,
    /// Whether it is the number of cycles. Set from options.
    stamps_cycles: AtomicBool,
    /// Whether what is alive is being decided from a snapshot, and whether a hidden pointer was
    /// read meanwhile; see [`Snapshot`].
    snapshot: AtomicU32,
    /// Whether blocks are lent: unprotected while a thread takes buffers from them. Written when
    /// the watch is opened, read under the heap's lock.
    pub lends_blocks: AtomicBool,
    /// Pages of scanned blocks are protected, so that the first write to each is a fault. Written
    /// by who drives a cycle, read by threads that fill blocks: late is slow, not wrong.
    pub protects: AtomicBool,
    /// 1 if an object is given a byte that it did not ask for, so that a pointer past its end keeps
    /// it.
    pub past_end: AtomicUsize,
    /// Chunks from this many bytes of heap on are advised to be huge pages; `usize::MAX` for none.
    /// A small heap would pay for memory that it does not use.
    pub huge_pages_above: AtomicUsize,
    /// The same for chunks made for pointer-free objects, which no watch protects page by page.
    pub huge_leaf_above: AtomicUsize,
    /// Chunks below this many bytes of heap are advised not to be huge pages: in a process that
    /// forks, a word written would copy, or allocate, all of one. Set under the heap's lock.
    pub small_pages_below: AtomicUsize,
    /// Bytes of cells that hold frozen objects, as counted when they were frozen; written under the
    /// heap's lock.
    pub frozen_bytes: AtomicUsize,
    /// 1 if every object lies at a multiple of 16, whatever its size.
    pub align_all: AtomicUsize,
    /// The heap is hardened; set at start-up.
    pub hardened: AtomicBool,
    /// A [`GuardPages`](super::hardened::GuardPages); as above.
    pub guard_pages: AtomicU8,
}

/// The unit of [`HeapState::surviving`].
pub const SURVIVING: usize = 256;

impl HeapState {
    /// All zero.
    pub const fn new() -> Self {
        Self {
            marking: AtomicBool::new(false),
            freezing: AtomicU32::new(0),
            defers_frees: AtomicBool::new(false),
            epoch: AtomicUsize::new(0),
            allocate_black: AtomicBool::new(false),
            unnoted_marks: AtomicBool::new(false),
            reference_processing: AtomicU32::new(reference_processing::NO),
            marks: AtomicU64::new(0),
            marked_anew: AtomicBool::new(false),
            cycles: AtomicU64::new(0),
            allocated_since_cycle: Apart::new(AtomicUsize::new(0)),
            freed_since_cycle: AtomicUsize::new(0),
            freed_live_since_cycle: AtomicUsize::new(0),
            grown_live_since_cycle: AtomicUsize::new(0),
            passed_bytes: AtomicUsize::new(0),
            live_bytes: AtomicUsize::new(0),
            surviving: AtomicUsize::new(SURVIVING),
            marked_bytes: AtomicUsize::new(0),
            born_marked_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            taken_bytes: AtomicUsize::new(0),
            scanned_bytes: AtomicUsize::new(0),
            freeing_stamp: AtomicU64::new(0),
            stamps_cycles: AtomicBool::new(false),
            snapshot: AtomicU32::new(Snapshot::None as u32),
            lends_blocks: AtomicBool::new(false),
            protects: AtomicBool::new(false),
            past_end: AtomicUsize::new(0),
            huge_pages_above: AtomicUsize::new(usize::MAX),
            huge_leaf_above: AtomicUsize::new(usize::MAX),
            small_pages_below: AtomicUsize::new(0),
            frozen_bytes: AtomicUsize::new(0),
            align_all: AtomicUsize::new(0),
            hardened: AtomicBool::new(false),
            guard_pages: AtomicU8::new(0),
        }
    }

    /// Says where a cycle with a snapshot stands. With the world stopped.
    pub fn set_snapshot(&self, snapshot: Snapshot) {
        self.snapshot.store(snapshot as u32, Relaxed);
    }

    /// Whether a snapshot is being marked.
    pub fn has_snapshot(&self) -> bool {
        self.snapshot.load(Relaxed) != Snapshot::None as u32
    }

    /// A pointer that marking does not follow is about to become one that it does: by reading a
    /// weak reference, or what the program hides itself. Before the read, by who keeps cycles from
    /// processing references meanwhile.
    #[inline]
    pub fn note_revealed(&self) {
        if self.snapshot.load(Relaxed) == Snapshot::Taken as u32 {
            // A locked instruction: it is seen before the caller reads. See
            // `refs::handles::retargeted`.
            self.snapshot.swap(Snapshot::Revealed as u32, SeqCst);
        }
    }

    /// Whether [`HeapState::note_revealed`] was called since the snapshot was taken.
    pub fn was_revealed(&self) -> bool {
        self.snapshot.load(Relaxed) == Snapshot::Revealed as u32
    }

    /// Whether an object is born marked now; one that lives until freed is, as soon as markers are
    /// at work, since it is a root.
    #[inline]
    pub fn is_born_marked(&self, uncollectable: bool) -> bool {
        // In the order of `Local::change_bits`.
        self.allocate_black.load(SeqCst) || (uncollectable && self.marking.load(SeqCst))
    }

    /// The stamp of what is freed now.
    pub fn freeing_stamp(&self) -> u64 {
        self.freeing_stamp.load(Relaxed)
    }

    /// It is the number of cycles, or the collector's clock.
    pub fn set_stamps_cycles(&self, cycles: bool) {
        self.stamps_cycles.store(cycles, Relaxed);
    }

    /// Whether it is the number of cycles.
    pub fn stamps_cycles(&self) -> bool {
        self.stamps_cycles.load(Relaxed)
    }

    /// So many cycles are over.
    pub fn note_cycles(&self, cycles: u64) {
        if self.stamps_cycles() {
            self.freeing_stamp.store(cycles, Relaxed);
        }
    }

    /// The collector's clock says so.
    pub fn note_time(&self, now_ms: u64) {
        if !self.stamps_cycles() {
            self.freeing_stamp.store(now_ms, Relaxed);
        }
    }

    /// Notes how many bytes of frames are in use now.
    pub fn note_taken(&self, bytes: usize) {
        self.taken_bytes.store(bytes, Relaxed);
        live::set_used(bytes);
        if bytes > self.peak_bytes.load(Relaxed) {
            self.peak_bytes.store(bytes, Relaxed);
        }
    }

    /// A cell was freed by the program; `was_live` says whether the last cycle had found it live.
    /// Under the heap's lock.
    pub fn note_freed(&self, bytes: usize, was_live: bool) {
        // Stored, not added to atomically, as that takes longer: the lock keeps others off.
        let add = |sum: &AtomicUsize| sum.store(sum.load(Relaxed) + bytes, Relaxed);
        add(&self.freed_since_cycle);
        if was_live {
            add(&self.freed_live_since_cycle);
        }
    }

    /// An object that the last cycle had found live, or a frozen one, grew where it is. What grows
    /// while objects are born marked counts with those. Under the heap's lock.
    pub fn note_grown_live(&self, bytes: usize) {
        if !self.allocate_black.load(Relaxed) {
            let grown = &self.grown_live_since_cycle;
            grown.store(grown.load(Relaxed) + bytes, Relaxed);
        }
    }

    /// Begins to count anew what the program frees; gives what it freed since the last time. Under
    /// the heap's lock.
    pub fn take_freed(&self) -> usize {
        self.freed_live_since_cycle.store(0, Relaxed);
        self.grown_live_since_cycle.store(0, Relaxed);
        self.passed_bytes.store(0, Relaxed);
        let freed = self.freed_since_cycle.load(Relaxed);
        self.freed_since_cycle.store(0, Relaxed);
        freed
    }

    /// Bytes by which the heap has grown since the last cycle: what was handed out without what the
    /// program freed itself. An eighth of what was handed out at least, since memory that is freed
    /// is not always memory that the next request can use.
    pub fn grown_since_cycle(&self) -> usize {
        let allocated = self.allocated_since_cycle.load(Relaxed);
        allocated.saturating_sub(self.freed_since_cycle.load(Relaxed)).max(allocated / 8)
    }

    /// Of what the next cycle may find live, what it has to scan at most.
    pub fn expected_scanned_bytes(&self) -> usize {
        self.expected_live_bytes().min(self.scanned_bytes.load(Relaxed))
    }

    /// Bytes that the next cycle may find live: what the last one marked, and of what was handed
    /// out while it marked and since as large a part as then; before the first, all of it.
    pub fn expected_live_bytes(&self) -> usize {
        let born = self.born_marked_bytes.load(Relaxed);
        let new = (born + self.grown_since_cycle()) / SURVIVING * self.surviving.load(Relaxed);
        self.live_bytes.load(Relaxed).saturating_sub(born) + new
    }
}

impl Default for HeapState {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_frees_is_no_growth() {
        let state = HeapState::new();
        state.allocated_since_cycle.store(8000, Relaxed);
        assert_eq!(state.grown_since_cycle(), 8000);
        state.note_freed(3000, false);
        state.note_freed(1000, true);
        assert_eq!(state.grown_since_cycle(), 4000);
        assert_eq!(state.freed_live_since_cycle.load(Relaxed), 1000);
        state.note_freed(9000, true);
        assert_eq!(state.grown_since_cycle(), 1000, "never less than an eighth");
    }

    #[test]
    fn what_is_freed_is_stamped_by_cycles_or_by_the_clock() {
        let state = HeapState::new();
        state.note_cycles(3);
        state.note_time(5000);
        assert_eq!(state.freeing_stamp(), 5000);
        state.set_stamps_cycles(true);
        state.note_cycles(4);
        state.note_time(6000);
        assert_eq!(state.freeing_stamp(), 4);
    }

    #[test]
    fn as_much_of_what_is_new_is_expected_to_live_as_the_last_time() {
        let state = HeapState::new();
        state.allocated_since_cycle.store(256_000, Relaxed);
        state.scanned_bytes.store(200_000, Relaxed);
        assert_eq!(state.expected_live_bytes(), 256_000, "nothing is known yet");
        assert_eq!(state.expected_scanned_bytes(), 200_000);
        state.live_bytes.store(50_000, Relaxed);
        state.surviving.store(SURVIVING / 4, Relaxed);
        assert_eq!(state.expected_live_bytes(), 114_000);
        assert_eq!(state.expected_scanned_bytes(), 114_000);
        // What was born marked while the last cycle ran was kept unseen.
        state.born_marked_bytes.store(25_600, Relaxed);
        assert_eq!(state.expected_live_bytes(), 50_000 - 25_600 + (256_000 + 25_600) / 4);
    }
}
