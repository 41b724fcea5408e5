//! The limits in force: what the user set, or what the process's control groups leave for the heap.
//!
//! Invariant `[cycle.rule.limits]`: a limit that the user set is never changed. What a group leaves
//! is its limit less what is charged to it and is not the heap's, less a reserve for what grows
//! between two looks; it is looked at again whenever the heap grew by a part of that reserve,
//! before an allocation is refused, and now and then by the collector's thread. Called from any
//! thread, outside stops and critical sections; who comes while another looks goes on without.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

use crate::addr::FRAME_BYTES;
use crate::heap::{HEAP, METADATA_BYTES};
use crate::options::Limit;
use crate::sys::futex;
use crate::sys::map;
use crate::sys::process::cgroup::{Level, Reader};
use crate::world::current;

/// What the user set; written by who configures.
static HARD: Setting = Setting(AtomicUsize::new(Setting::NONE));
static SOFT: Setting = Setting(AtomicUsize::new(Setting::NONE));
/// The soft limit in force, `usize::MAX` for none; written by who looks.
static SOFT_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
/// When the heap has so many bytes in use, the groups are looked at again; written by who looks.
static LOOK_AT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// When the collector's thread looked last, and when exactly, in its milliseconds; written by it.
static LOOKED_MS: AtomicU64 = AtomicU64::new(0);
static LOOKED_EXACTLY_MS: AtomicU64 = AtomicU64::new(0);
/// Reads the groups; null until they matter, and where there are none.
static READER: AtomicPtr<Reader> = AtomicPtr::new(core::ptr::null_mut());
/// Held by the one thread that looks.
static LOOKING: AtomicBool = AtomicBool::new(false);
/// What is charged to the groups and not the heap's, the most of any look since the last exact one;
/// protected by `LOOKING`.
static OTHERS: [AtomicUsize; LEVELS] = [const { AtomicUsize::new(0) }; LEVELS];

/// The next allocation that needs more memory is refused; set by the cycle that found the program
/// strained.
static REFUSE_NEXT: AtomicBool = AtomicBool::new(false);
/// The program asked for a cycle since the last one.
static EXPLICIT: AtomicBool = AtomicBool::new(false);

/// Levels that are remembered; deeper hierarchies are followed as well, but judged by their last
/// look alone.
const LEVELS: usize = 16;
/// A heap is never limited to less by a group: it may as well try. A limit that the user set has no
/// such floor.
const FLOOR_BYTES: usize = 4 << 20;
/// Nor is one that is smaller than this: programs that stay so small are spared the first look.
const FIRST_LOOK_BYTES: usize = FLOOR_BYTES / 4;
/// The part of a group's limit that is kept free, and what is kept in any case: for what the
/// program allocates elsewhere between two looks, the mark stack, page tables. Larger: less heap;
/// smaller: the kernel may be faster than we are.
const RESERVE: (usize, usize) = (16, 2 << 20);
/// Looks on the way through the reserve.
const LOOKS: usize = 4;
/// The part of the hard limit from which on memory is worth more than time, if the group names
/// none.
const SOFT_SHARE: f64 = 0.8;
/// How often the collector's thread looks: groups that have limits, and groups that have none,
/// milliseconds.
const LIMITED_MS: u64 = 1000;
const UNLIMITED_MS: u64 = 10_000;
/// How often it looks exactly, where there are limits. Larger: what others had for a moment lowers
/// the limits for longer; smaller: more time, some milliseconds for a heap of a gigabyte.
const EXACTLY_MS: u64 = 10_000;
/// Waits for another thread's look before an allocation is refused, nanoseconds, and how many: a
/// handler may have interrupted that look.
const WAIT_NS: u64 = 200_000;
const WAITS: usize = 250;

/// A [`Limit`] that is set while others read it.
struct Setting(AtomicUsize);

impl Setting {
    const NONE: usize = usize::MAX;
    const CGROUP: usize = usize::MAX - 1;

    fn set(&self, limit: Limit) {
        let word = match limit {
            Limit::None => Self::NONE,
            Limit::Cgroup => Self::CGROUP,
            Limit::Bytes(bytes) => bytes.min(Self::CGROUP - FRAME_BYTES),
        };
        self.0.store(word, Relaxed);
    }

    fn get(&self) -> Limit {
        match self.0.load(Relaxed) {
            Self::NONE => Limit::None,
            Self::CGROUP => Limit::Cgroup,
            bytes => Limit::Bytes(bytes),
        }
    }
}

/// What the groups leave for the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    hard: usize,
    soft: usize,
    /// Bytes that the heap may grow by before the next look.
    step: usize,
}

impl Left {
    const ALL: Left = Left { hard: usize::MAX, soft: usize::MAX, step: usize::MAX };

    /// With a level taken in to which `others` bytes are charged that are not the heap's.
    fn with(self, level: &Level, others: usize) -> Left {
        // Each frame in use also takes its metadata.
        let frames = |bytes: usize| bytes / (FRAME_BYTES + METADATA_BYTES) * FRAME_BYTES;
        let left = |limit: usize, kept: usize| match limit {
            usize::MAX => usize::MAX,
            limit => frames(limit.saturating_sub(others).saturating_sub(kept)).max(FLOOR_BYTES),
        };
        let reserve = level.hard_bytes.min(level.soft_bytes) / RESERVE.0 + RESERVE.1;
        let hard = left(level.hard_bytes, reserve);
        let named = left(level.soft_bytes, 0);
        let soft =
            if hard == usize::MAX { named } else { named.min((hard as f64 * SOFT_SHARE) as usize) };
        Left {
            hard: self.hard.min(hard),
            soft: self.soft.min(soft),
            step: self.step.min(reserve / LOOKS),
        }
    }
}

/// The limit in force, of what was set and what the groups leave.
fn in_force(set: Limit, left: usize) -> usize {
    match set {
        Limit::None => usize::MAX,
        Limit::Cgroup => left,
        Limit::Bytes(bytes) => bytes.next_multiple_of(FRAME_BYTES),
    }
}

/// Sets what the user wants.
pub fn configure(hard: Limit, soft: Limit) {
    HARD.set(hard);
    SOFT.set(soft);
    if !is_heap_small() {
        look(false);
        return;
    }
    HEAP.set_max_bytes(in_force(hard, usize::MAX));
    SOFT_BYTES.store(in_force(soft, usize::MAX), Relaxed);
    LOOK_AT.store(FIRST_LOOK_BYTES, Relaxed);
}

/// The soft limit in force, `usize::MAX` for none.
pub fn soft_bytes() -> usize {
    SOFT_BYTES.load(Relaxed)
}

/// Has the next allocation that comes by refused, collected or not.
pub fn refuse_next() {
    REFUSE_NEXT.store(true, Relaxed);
}

/// Whether this one is.
#[inline]
pub fn is_refused() -> bool {
    REFUSE_NEXT.load(Relaxed) && REFUSE_NEXT.swap(false, Relaxed)
}

/// The program asks for a cycle.
pub fn note_explicit() {
    EXPLICIT.store(true, Relaxed);
}

/// Whether it did since the last call.
pub fn was_explicit() -> bool {
    EXPLICIT.swap(false, Relaxed)
}

/// Looks at the groups if the heap grew enough since the last look; the first time also for what an
/// object of `coming` bytes adds. In the slow path of an allocation.
#[inline]
pub fn look_if_grown(coming: usize) {
    let (taken, look_at) = (HEAP.state.taken_bytes.load(Relaxed), LOOK_AT.load(Relaxed));
    if taken >= look_at || (look_at == FIRST_LOOK_BYTES && coming >= look_at - taken) {
        look(false);
    }
}

/// Whether the heap is so small that nobody has looked at the groups yet, nor need sweep it for the
/// program.
pub fn is_heap_small() -> bool {
    HEAP.state.taken_bytes.load(Relaxed) < FIRST_LOOK_BYTES
}

/// Looks if the last look is old. On the collector's thread; true if the heap holds more than the
/// limits allow now.
pub fn look_if_old(now_ms: u64) -> bool {
    let age = now_ms.saturating_sub(LOOKED_MS.load(Relaxed));
    let limited = LOOK_AT.load(Relaxed) != usize::MAX;
    if age >= if limited { LIMITED_MS } else { UNLIMITED_MS } {
        LOOKED_MS.store(now_ms, Relaxed);
        let exactly = now_ms.saturating_sub(LOOKED_EXACTLY_MS.load(Relaxed)) >= EXACTLY_MS;
        if look(exactly) && exactly {
            LOOKED_EXACTLY_MS.store(now_ms, Relaxed);
        }
    }
    let most = HEAP.max_bytes().min(soft_bytes());
    HEAP.inner().frames.resident() * FRAME_BYTES > most
}

/// Before an allocation is refused: counts exactly what memory the heap has, or waits until another
/// thread has looked. True if it is worth another try; the limit may be higher now.
pub fn look_before_refusal() -> bool {
    if LOOK_AT.load(Relaxed) == usize::MAX {
        return false;
    }
    for _ in 0..WAITS {
        if look(true) {
            break;
        }
        futex::sleep(WAIT_NS);
    }
    true
}

/// Looks and sets the limits. `exactly` asks the system which pages of the heap hold memory:
/// without it, what was handed out counts as touched, which hides as much of what others have.
fn look(exactly: bool) -> bool {
    if LOOKING.swap(true, Acquire) {
        return false;
    }
    let critical = current::get().map(|mutator| mutator.critical());
    let held = HEAP.resident_bytes(&HEAP.inner());
    drop(critical);
    let (hard, soft) = (HARD.get(), SOFT.get());
    let by_groups = [hard, soft].contains(&Limit::Cgroup);
    if by_groups
        && READER.load(Acquire).is_null()
        && let Some(reader) = Reader::open("/proc/self")
    {
        READER.store(reader, Release);
    }
    let reader = READER.load(Acquire);
    let mut left = Left::ALL;
    if by_groups && !reader.is_null() {
        // SAFETY: stored once, never unmapped; `LOOKING` makes this thread the only user.
        let reader = unsafe { &mut *reader };
        let counted = if exactly { exact(reader) } else { None };
        let held = counted.unwrap_or(held);
        let mut index = 0;
        reader.for_each_level(|level| {
            let mut others = level.used_bytes.saturating_sub(held);
            if let Some(known) = OTHERS.get(index) {
                if counted.is_none() {
                    others = others.max(known.load(Relaxed));
                }
                known.store(others, Relaxed);
            }
            index += 1;
            left = left.with(&level, others);
        });
    }
    HEAP.set_max_bytes(in_force(hard, left.hard));
    SOFT_BYTES.store(in_force(soft, left.soft), Relaxed);
    LOOK_AT.store(HEAP.state.taken_bytes.load(Relaxed).saturating_add(left.step), Relaxed);
    LOOKING.store(false, Release);
    true
}

/// Bytes of memory that the heap and its metadata have.
fn exact(reader: &mut Reader) -> Option<usize> {
    let committed = HEAP.committed();
    let resident = map::resident_bytes(HEAP.base(), committed, reader.scratch())?;
    Some(resident + resident / FRAME_BYTES * METADATA_BYTES)
}

/// In the child of a `fork`: who looked does not exist.
pub fn after_fork() {
    LOOKING.store(false, Relaxed);
    LOOKED_MS.store(0, Relaxed);
    LOOKED_EXACTLY_MS.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const NONE: usize = usize::MAX;

    #[test]
    fn what_a_group_leaves_by_table() {
        for (hard, soft, used, others, at_least, at_most) in [
            // 64 MiB, 6 of them kept, 2 in use elsewhere; metadata takes 3.5 %.
            (64 * MIB, NONE, 2 * MIB, 2 * MIB, 53 * MIB, 55 * MIB),
            (64 * MIB, NONE, 60 * MIB, 30 * MIB, 26 * MIB, 28 * MIB),
            (64 * MIB, NONE, 64 * MIB, 64 * MIB, 4 * MIB, 4 * MIB),
            (4 << 30, NONE, 0, 0, 3600 * MIB, 3800 * MIB),
            (NONE, 64 * MIB, 0, 0, NONE, NONE),
        ] {
            let level = Level { hard_bytes: hard, soft_bytes: soft, used_bytes: used };
            let left = Left::ALL.with(&level, others);
            assert!((at_least..=at_most).contains(&left.hard), "{level:?} {left:?}");
            assert!(left.soft <= left.hard && left.step <= RESERVE.1.max(hard.min(soft) / 16));
        }
    }

    #[test]
    fn the_tightest_level_counts_and_a_named_soft_limit_too() {
        let tight = Level { hard_bytes: 64 * MIB, soft_bytes: NONE, used_bytes: 0 };
        let wide = Level { hard_bytes: 640 * MIB, soft_bytes: NONE, used_bytes: 0 };
        let both = Left::ALL.with(&wide, 0).with(&tight, 0);
        assert_eq!(both, Left::ALL.with(&tight, 0).with(&wide, 0));
        assert_eq!(both.hard, Left::ALL.with(&tight, 0).hard);
        let soft = Left::ALL.with(&Level { soft_bytes: 10 * MIB, ..tight }, 0);
        assert_eq!(soft.hard / MIB, 59, "a named soft limit leaves the hard one alone");
        assert!(soft.soft < 10 * MIB);
    }

    #[test]
    fn small_heaps_are_spared_the_first_look_and_large_objects_are_not() {
        configure(Limit::Cgroup, Limit::Bytes(64 * MIB));
        look_if_grown(FIRST_LOOK_BYTES - 1);
        assert!(READER.load(Relaxed).is_null(), "nothing was read");
        assert_eq!((HEAP.max_bytes(), soft_bytes()), (NONE, 64 * MIB));
        look_if_grown(FIRST_LOOK_BYTES);
        assert_ne!(LOOK_AT.load(Relaxed), FIRST_LOOK_BYTES);
        configure(Limit::Bytes(8 * MIB), Limit::None);
        assert_eq!((HEAP.max_bytes(), soft_bytes()), (8 * MIB, NONE));
    }

    #[test]
    fn what_the_user_set_wins() {
        assert_eq!(in_force(Limit::None, 5), usize::MAX);
        assert_eq!(in_force(Limit::Cgroup, 5), 5);
        assert_eq!(in_force(Limit::Bytes(MIB + 1), 5), MIB + FRAME_BYTES);
        assert_eq!(in_force(Limit::Bytes(64 * MIB), usize::MAX), 64 * MIB);
    }
}
