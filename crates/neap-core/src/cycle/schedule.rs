//! When the next cycle is due, and beyond what threads wait for it: the formulas of
//! [`trigger`](super::policy::trigger) over what the last cycle found.
//!
//! Invariant: the marks are written under the collector's lock, or lowered or put off by a thread
//! that is about to pass them; read by every thread after a refill. A mark that is read late is a
//! cycle that begins late.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use super::collector::{self, COLLECTOR, Collector};
use super::limits;
use super::policy::generation::Generation;
use super::policy::trigger::{
    FAIR_SHARE, Live, ROOTS_WEIGH, Settings, WHILE_GROWING, WHILE_GROWING_BESIDE, after_floating,
    concurrent_start, is_growing, is_sparse, resident_after, stall_at,
};
use crate::addr::FRAME_BYTES;
use crate::heap::HEAP;
use crate::options::MinorCycles;
use crate::refs;
use crate::sys::process::resident;
use crate::world::{Stopped, attach, current, roots};

/// Bytes by which the heap has grown since the last cycle when the next one is due; written by the
/// collector.
static DUE_AT: AtomicUsize = AtomicUsize::new(2 << 20);
/// The same beyond which threads wait for the cycle under way; written by the collector.
static STALL_AT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The same from which on one is due where the heap has outgrown what it held; written by the
/// collector.
static SOONEST_AT: AtomicUsize = AtomicUsize::new(0);
/// With so many bytes of frames in use it has; written by the collector.
static OUTGROWN_AT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// With so many bytes of the process in memory the heap has used the room that it was given;
/// written by the collector.
static FULL_AT: AtomicUsize = AtomicUsize::new(0);
/// The same up to which a cycle may be put off; written by the collector.
static LATEST_AT: AtomicUsize = AtomicUsize::new(0);

/// Whether enough was allocated for a cycle. Read after every refill.
#[inline(always)]
pub fn is_due() -> bool {
    let bytes = due_bytes();
    bytes >= DUE_AT.load(Relaxed) || bytes >= SOONEST_AT.load(Relaxed) && outgrows(0)
}

/// Whether the heap is larger than it was after the last full cycle by as much as it may grow, with
/// so many bytes more: they do not fit into what it held beside the live part
/// `[cycle.why.outgrown]`.
#[inline(always)]
fn outgrows(bytes: usize) -> bool {
    HEAP.state.taken_bytes.load(Relaxed).saturating_add(bytes) > OUTGROWN_AT.load(Relaxed)
}

/// By how much the heap has grown since the last cycle, and what else one is to come for.
fn due_bytes() -> usize {
    HEAP.state.grown_since_cycle().saturating_add(HEAP.state.passed_bytes.load(Relaxed))
}

/// Bytes by which the heap has grown since the last cycle beyond which threads wait for the one
/// under way.
pub fn stalls_at() -> usize {
    STALL_AT.load(Relaxed)
}

/// A large object of `bytes` bytes is about to be allocated: if that passes the trigger, the cycle
/// is due before it, or put off.
pub fn note_coming(bytes: usize) {
    let allocated = due_bytes();
    let (coming, due) = (allocated.saturating_add(bytes), DUE_AT.load(Relaxed));
    // An object of which nearly all has room comes first.
    let coming = coming - bytes / NEARLY_ALL;
    let is_known = allocated >= due.saturating_add(LATE_BYTES);
    let grows = coming > SOONEST_AT.load(Relaxed) && outgrows(bytes - bytes / NEARLY_ALL);
    if (grows || coming > due) && (is_known || !postpone_untouched(due, coming)) {
        let _ = DUE_AT.fetch_min(allocated.max(1), Relaxed);
    }
}

/// A large object that passes the trigger by this part of itself only is allocated before the
/// cycle: two objects of a megabyte and a page each would not both fit into two megabytes, and
/// there would be a cycle for each. Larger: nearer to the trigger; smaller: fewer cycles.
const NEARLY_ALL: usize = 16;

/// Threads report what they allocate in such pieces: it may be seen that late that a mark was
/// passed.
const LATE_BYTES: usize = 256 << 10;
/// Looks at what is in memory on the way to [`LATEST_AT`]. More: what is touched after a look is
/// seen sooner, and each takes 4 µs.
const LOOKS: usize = 4;

/// Puts the cycle that is `due` off if, as far as what is in memory shows, the heap will not have
/// used the room it was given at the next look either: as where a program never touches most of
/// what it allocates `[cycle.why.untouched]`.
fn postpone_untouched(due: usize, coming: usize) -> bool {
    let latest = LATEST_AT.load(Relaxed);
    let step = latest / LOOKS;
    let later = coming.saturating_add(step);
    let handed_out = HEAP.state.live_bytes.load(Relaxed).saturating_add(coming);
    let has_room = |resident| {
        is_sparse(resident, handed_out)
            && resident_after(resident, handed_out, step) <= FULL_AT.load(Relaxed)
    };
    if later > latest || HEAP.has_huge_pages() || !resident::bytes().is_some_and(has_room) {
        return false;
    }
    let later = later.max(due);
    if DUE_AT.compare_exchange(due, later, Relaxed, Relaxed).is_ok() {
        let stall_at = |stall_at: usize| Some(stall_at.saturating_add(later - due));
        let _ = STALL_AT.fetch_update(Relaxed, Relaxed, stall_at);
        let more = later.saturating_sub(due_bytes());
        let outgrown_at = |bytes: usize| Some(bytes.saturating_add(more));
        let _ = OUTGROWN_AT.fetch_update(Relaxed, Relaxed, outgrown_at);
    }
    true
}

/// The next cycle is due after as much again: the program does not want one now, and nobody is to
/// wait for it earlier.
pub fn postpone() {
    let later = due_bytes().saturating_add(POSTPONED_BYTES);
    let put_off = later.saturating_sub(DUE_AT.swap(later, Relaxed));
    OUTGROWN_AT.store(usize::MAX, Relaxed);
    let stall_at = |stall_at: usize| Some(stall_at.saturating_add(put_off));
    let _ = STALL_AT.fetch_update(Relaxed, Relaxed, stall_at);
}

/// Whether less was allocated since the last cycle than a cycle that is put off waits for, and the
/// user did not say how much that may be.
pub fn grew_little() -> bool {
    !HAS_MIN_TRIGGER.load(Relaxed) && HEAP.state.grown_since_cycle() < POSTPONED_BYTES
}

/// The user said what is allocated before a cycle at least; written by the collector.
static HAS_MIN_TRIGGER: AtomicBool = AtomicBool::new(false);

/// Until so much more is allocated the program is not asked again. Larger: cycles that begin later
/// than it wanted; smaller: asked more often.
const POSTPONED_BYTES: usize = 1 << 20;

/// The next cycle is to begin and to end no later than this.
pub fn bring_forward(due: &Due) {
    DUE_AT.fetch_min(due.begins, Relaxed);
    STALL_AT.fetch_min(due.ends, Relaxed);
}

/// Heaps of which less is expected to be scanned are marked with the world stopped, which then
/// takes no longer than the user allows; written by the collector.
static STOPPED_BELOW: AtomicUsize = AtomicUsize::new(0);

/// Whether the next cycle is to run beside the program, where that is possible: a short stop is
/// cheaper where there is little to do.
pub fn is_worth_running_beside() -> bool {
    collector::runs_beside() && !fits_in_a_stop()
}

/// Whether the next cycle is expected to take no longer than a stop may.
pub fn fits_in_a_stop() -> bool {
    expected_bytes() < STOPPED_BELOW.load(Relaxed) && !refs::are_many()
}

/// The same with the world stopped for it, when static data can be counted, and with `if_due`
/// whether it is due then: false only where there is more than the last cycle read, so once for
/// what there is.
pub fn still_fits(collector: &mut Collector, stopped: &Stopped, if_due: bool) -> bool {
    let mut bytes = 0;
    collector.images.for_each(stopped, |range| bytes += range.len());
    if bytes <= collector.root_bytes {
        return true;
    }
    collector.root_bytes = bytes;
    roots::note_read(stopped);
    set_due(collector);
    fits_in_a_stop() && (!if_due || is_due())
}

/// A stop for a cycle that was to take no longer than planned ended while marking, which had taken
/// so long of its processor's time.
pub fn note_ended_early(collector: &mut Collector, ns: u64) {
    let roots = collector.stack_bytes + collector.root_bytes / ROOTS_WEIGH;
    collector.stop_time.note_ended_early(ns, expected_bytes() + roots);
    collector.snapshot_stops.note_stopped_cycle();
    set_stopped_below(collector);
}

/// What the next cycle has to read at most, as far as no cycle has measured that.
fn expected_bytes() -> usize {
    HEAP.state.expected_scanned_bytes() + roots::unread_bytes() / ROOTS_WEIGH
}

/// A frozen byte counts for the trigger as this part of a live one: cycles read it, in the order of
/// addresses, and neither mark nor sweep it. Larger: a child of a server collects sooner and has
/// less memory of its own; smaller: fewer cycles.
const FROZEN_WEIGHS: usize = 4;

impl Collector {
    /// The settings with the limits in force, which change as the program goes on; what is frozen
    /// takes of them in full.
    fn limited(&self) -> Settings {
        let frozen = HEAP.state.frozen_bytes.load(Relaxed);
        let beside = |limit: usize| match limit {
            usize::MAX => limit,
            limit => limit.saturating_sub(frozen - frozen / FROZEN_WEIGHS),
        };
        Settings {
            max_bytes: beside(HEAP.max_bytes()),
            soft_bytes: beside(limits::soft_bytes()),
            ..self.settings
        }
    }

    /// How long a stop for a whole cycle may take.
    pub fn longest_stop_ns(&self) -> u64 {
        self.snapshot_stops.longest_ns(self.max_pause_ns)
    }

    /// The kind of the next cycle that the program does not ask for; `can_be_minor` if what was
    /// written since the last one is known.
    pub fn next_generation(&self, can_be_minor: bool) -> Generation {
        let live = HEAP.state.live_bytes.load(Relaxed);
        if !can_be_minor {
            return Generation::Full;
        }
        match self.minor {
            // In spite of the minor cycle before.
            MinorCycles::Auto if self.last == Generation::Minor && outgrows(0) => Generation::Full,
            MinorCycles::Auto => self.generations.next(live, self.room().until_next),
            MinorCycles::Always if self.generations.room_after_minor(live) > 0 => Generation::Minor,
            MinorCycles::Always | MinorCycles::Never => Generation::Full,
        }
    }

    /// What the last cycle found, beside what the heap holds in any case.
    fn live(&self) -> Live {
        let frozen = HEAP.state.frozen_bytes.load(Relaxed);
        let mut live = Live::new(self.marked, HEAP.state.scanned_bytes.load(Relaxed))
            .with_roots(self.root_bytes + self.stack_bytes);
        live.bytes += frozen / FROZEN_WEIGHS;
        live.weight += frozen / FROZEN_WEIGHS;
        live
    }

    /// What may be allocated after a full cycle.
    pub fn room(&self) -> Room {
        let frozen = HEAP.state.frozen_bytes.load(Relaxed);
        // What is frozen is part of what the heap holds, and nothing is allocated there.
        let held = self.held_bytes.saturating_sub(frozen - frozen / FROZEN_WEIGHS);
        self.room_for(self.live().with_held(held))
    }

    fn room_for(&self, live: Live) -> Room {
        // Where the program runs meanwhile it waits for no cycle, and where stops are short it
        // waits little, so there is nothing to buy with more memory; and a heap that grows while
        // cycles have a processor of their own may be marked more often.
        let beside = is_worth_running_beside() && self.has_processor_to_spare();
        let most = if collector::may_run_beside() { FAIR_SHARE } else { 1.0 };
        let share = self.share.min(most);
        let (settings, least) = (self.limited(), self.pacer.least_bytes());
        let floating = HEAP.state.born_marked_bytes.load(Relaxed);
        let room = |growing| {
            let wanted = settings.threshold(live, share, growing, self.allocating, least);
            after_floating(wanted, floating)
        };
        let whole = settings.threshold(live, share, None, self.allocating, least);
        match beside {
            true if self.generations.grows_in_steps() && self.may_have_minor_cycles() => Room {
                until_next: room(Some(WHILE_GROWING_BESIDE)),
                until_full: room(Some(WHILE_GROWING)),
            },
            true if self.generations.grows() => Room::of(room(Some(WHILE_GROWING))),
            false if is_growing(self.marked, self.gained, whole) => {
                Room::of(room(Some(WHILE_GROWING)))
            }
            _ => Room::of(after_floating(whole, floating)),
        }
    }
}

/// Bytes that may be allocated after a full cycle.
#[derive(Clone, Copy)]
pub struct Room {
    /// Before the next one of either kind.
    pub until_next: usize,
    /// Before the next full one, if minor ones come in between.
    pub until_full: usize,
}

impl Room {
    fn of(bytes: usize) -> Self {
        Self { until_next: bytes, until_full: bytes }
    }
}

/// Bytes that may be allocated.
pub struct Due {
    /// Before the next cycle begins.
    pub begins: usize,
    /// Before it ends.
    pub ends: usize,
}

/// Changes the settings; the trigger follows.
pub fn configure(change: impl FnOnce(&mut Collector)) {
    collector::held(attach::current(), |collector| {
        change(collector);
        set_due(collector);
    });
}

/// Sets the trigger after a cycle or a change of settings; gives it.
pub fn set_due(collector: &Collector) -> Due {
    HAS_MIN_TRIGGER.store(collector.settings.min_trigger != 0, Relaxed);
    set_stopped_below(collector);
    let marks = Marks::of(collector);
    FULL_AT.store(marks.full_at, Relaxed);
    LATEST_AT.store(marks.latest_at, Relaxed);
    STALL_AT.store(marks.stall_at, Relaxed);
    DUE_AT.store(marks.due.begins, Relaxed);
    SOONEST_AT.store(marks.soonest_at, Relaxed);
    OUTGROWN_AT.store(marks.outgrown_at, Relaxed);
    marks.due
}

fn set_stopped_below(collector: &Collector) {
    let within = collector.stop_time.scanned_within(collector.longest_stop_ns());
    let roots = collector.root_bytes / ROOTS_WEIGH;
    STOPPED_BELOW.store(within.saturating_sub(collector.stack_bytes + roots), Relaxed);
}

/// Free memory went back to the system, which the program was to allocate in before the next cycle
/// `[cycle.why.spare]`: that comes sooner. Outside critical sections, with no lock.
pub fn note_given_back() {
    let mutator = current::get();
    let held_bytes = {
        let _unstopped = mutator.map(|mutator| mutator.critical());
        HEAP.inner().frames.resident() * FRAME_BYTES
    };
    let note = |collector: &mut Collector| {
        collector.frame_bytes = collector.frame_bytes.min(held_bytes);
        if held_bytes >= collector.held_bytes {
            OUTGROWN_AT.fetch_min(Marks::of(collector).outgrown_at, Relaxed);
            return;
        }
        collector.held_bytes = held_bytes;
        let live_bytes = HEAP.state.live_bytes.load(Relaxed);
        let room = collector.room().until_full;
        collector.generations.bound_room(live_bytes, room);
        let marks = Marks::of(collector);
        FULL_AT.fetch_min(marks.full_at, Relaxed);
        LATEST_AT.fetch_min(marks.latest_at, Relaxed);
        SOONEST_AT.fetch_min(marks.soonest_at, Relaxed);
        OUTGROWN_AT.fetch_min(marks.outgrown_at, Relaxed);
        bring_forward(&Due { begins: marks.due.begins, ends: marks.stall_at });
    };
    match mutator {
        Some(mutator) => collector::held(mutator, note),
        None => note(&mut COLLECTOR.lock()),
    }
}

/// What the heap is held to until the next cycle.
struct Marks {
    due: Due,
    stall_at: usize,
    full_at: usize,
    latest_at: usize,
    soonest_at: usize,
    outgrown_at: usize,
}

impl Marks {
    fn of(collector: &Collector) -> Self {
        let live = HEAP.state.live_bytes.load(Relaxed);
        let threshold = |room: Room| match collector.last {
            Generation::Full => room.until_next,
            Generation::Minor => {
                let left = collector.generations.room_after_minor(live);
                let floor = collector.settings.floor(1, collector.pacer.least_bytes());
                left.max(floor).min(room.until_next)
            }
        };
        let beside = is_worth_running_beside();
        let begins = |threshold| match beside {
            true => concurrent_start(threshold, collector.allocated_during_last),
            false => threshold,
        };
        let growth = threshold(collector.room_for(collector.live()));
        let threshold = threshold(collector.room());
        let (due, soonest_at) = (begins(threshold), begins(growth));
        let outgrown_at = match threshold > growth {
            true => collector.frame_bytes.saturating_add(soonest_at),
            false => usize::MAX,
        };
        Self {
            due: Due { begins: due, ends: threshold },
            stall_at: stall_at(threshold, live, due, collector.marked),
            full_at: live.saturating_add(threshold),
            latest_at: collector.limited().latest(threshold, live),
            soonest_at,
            outgrown_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::map;

    #[test]
    fn a_heap_that_outgrows_what_it_held_is_due_sooner_and_for_a_full_cycle() {
        const HELD: usize = 64 << 20;
        let mut collector = COLLECTOR.lock();
        collector.settings.min_trigger = 1 << 20;
        (collector.held_bytes, collector.frame_bytes) = (HELD, HELD);
        collector.last = Generation::Minor;
        collector.generations.give_room(0, HELD);
        set_due(&collector);
        HEAP.state.allocated_since_cycle.store(8 << 20, Relaxed);
        HEAP.state.note_taken(HELD);
        assert!(!is_due() && collector.next_generation(true) == Generation::Minor);
        HEAP.state.note_taken(HELD + (8 << 20));
        assert!(is_due() && collector.next_generation(true) == Generation::Full);
        HEAP.state.allocated_since_cycle.store(0, Relaxed);
        assert!(!is_due());
    }

    #[test]
    fn ranges_that_no_stop_has_read_count_as_work() {
        const BYTES: usize = 16 << 20;
        let memory = map::allocate(BYTES).unwrap().pointer::<u8>() as usize;
        let before = expected_bytes();
        assert!(roots::add(memory..memory + BYTES));
        assert!(expected_bytes() >= before + BYTES / ROOTS_WEIGH);
        roots::remove(memory..memory + BYTES);
    }
}
