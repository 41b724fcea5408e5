//! Disabling collections, by any thread, until as many calls of another allow them again.
//!
//! Invariant `[cycle.inv.disabled]`: from the return of [`disable`] on no cycle begins, and the one
//! that is under way takes no first and no last stop: what the program hides meanwhile, and shows
//! again, is lost to neither. It goes on marking, and is given up in the end. Who takes such a step
//! looks under the collector's lock, which who disables has had since. What the program writes
//! where it counts itself ([`follow`]) holds from the next step on. Called from any thread of the
//! program; waited for by the collector's.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::*};

use super::wake;
use crate::cycle::collector::{COLLECTOR, Collector};
use crate::heap::HEAP;
use crate::sync::Guard;
use crate::sync::set_once::SetOnce;
use crate::sys::{clock, futex};
use crate::world::current;

/// How often collections were disabled more than enabled.
static DISABLED: AtomicU32 = AtomicU32::new(0);
/// Where the program counts itself, and may write what it likes: not 0 disables them as well.
static PROGRAMS_COUNT: SetOnce<&'static AtomicI32> = SetOnce::new();
/// Counts how often they may have been enabled again; the collector's thread sleeps on it.
static ENABLED: AtomicU32 = AtomicU32::new(0);
/// It does.
static IS_WAITED_FOR: AtomicBool = AtomicBool::new(false);
/// It looks so often for who else wants something of it.
const LOOK_NS: u64 = 20_000_000;
/// A cycle waits so long: while it does, what the program frees by hand is not used again. Larger:
/// a program that needs long between two chances has cycles; smaller: less memory is put off.
const LONGEST_NS: u64 = 500_000_000;

/// Whether collections are disabled.
pub fn is_disabled() -> bool {
    let by_program = || PROGRAMS_COUNT.get().is_some_and(|count| count.load(SeqCst) != 0);
    DISABLED.load(SeqCst) > 0 || by_program()
}

/// From now on collections are disabled also while `count` is not 0.
pub fn follow(count: &'static AtomicI32) {
    PROGRAMS_COUNT.set(count);
}

/// No collections until as many calls of [`enable`]. A first or last stop that is being taken is
/// over on return, but for a caller that is called in it.
pub fn disable() {
    DISABLED.fetch_add(1, SeqCst);
    settle();
}

/// What disabled them just now holds on return. As [`disable`], for who counts itself.
pub fn settle() {
    let is_inside = current::get().is_some_and(|mutator| mutator.is_critical());
    if !is_inside && !COLLECTOR.is_mine() {
        drop(COLLECTOR.lock());
    }
    // Hidden pointers are read while there are no cycles.
    HEAP.state.note_revealed();
}

/// The same for good: where no signal can be sent, and in a child of `fork` that collects nothing.
pub fn disable_for_good() {
    DISABLED.fetch_add(1, SeqCst);
}

/// Allows collections again; one more call than [`disable`] changes nothing.
pub fn enable() {
    let _ = DISABLED.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
    tell_enabled();
}

/// Who waits for them looks again.
pub fn tell_enabled() {
    if IS_WAITED_FOR.load(SeqCst) {
        ENABLED.fetch_add(1, SeqCst);
        futex::wake(&ENABLED, 1);
    }
}

/// In the child of a `fork`: the collector's thread is gone.
pub fn after_fork() {
    IS_WAITED_FOR.store(false, Relaxed);
}

/// Waits until they are enabled, and answers who asks for a snapshot meanwhile; false if that takes
/// so long that the cycle is to be given up. On the collector's thread, which has no lock.
pub fn wait_until_enabled() -> bool {
    let until_ns = clock::now_ns() + LONGEST_NS;
    IS_WAITED_FOR.store(true, SeqCst);
    let enabled = loop {
        let seen = ENABLED.load(SeqCst);
        let enabled = !is_disabled();
        if enabled || clock::now_ns() > until_ns {
            break enabled;
        }
        futex::wait(&ENABLED, seen, Some(LOOK_NS));
        wake::answer();
    };
    IS_WAITED_FOR.store(false, Relaxed);
    enabled
}

/// The collector's lock once they are enabled, which they stay while it is held, as far as the
/// program can tell; None as above.
pub fn when_enabled() -> Option<Guard<'static, Collector>> {
    loop {
        let collector = COLLECTOR.lock();
        if !is_disabled() {
            return Some(collector);
        }
        drop(collector);
        if !wait_until_enabled() {
            return None;
        }
    }
}
