//! Waiting for a cycle: a count of its steps that threads sleep on, and look at again now and then.
//!
//! Invariant: all who wait together look so often that a processor has time for more than that,
//! however many they are. Written by who offers, takes or ends a step; waited for by the program's
//! threads, and by the collector's while it has a step on offer.

use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::sys::{futex, thread};
use crate::world::{attach, blocked, host};

/// Counts steps offered, taken and ended.
static PROGRESS: AtomicU32 = AtomicU32::new(0);
/// How many of the program's threads wait.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Who waits looks this often whether it still has to, and each of more than there are processors
/// that much more rarely.
const LOOK_NS: u64 = 1_000_000;
/// But at least this often: it may have waited for long enough.
const LONGEST_LOOK_NS: u64 = 100_000_000;

/// What [`wait_at`] and [`wait_for`] wait to change.
pub fn seen() -> u32 {
    PROGRESS.load(Acquire)
}

/// Wakes all who wait.
pub fn note() {
    PROGRESS.fetch_add(1, AcqRel);
    futex::wake(&PROGRESS, i32::MAX as u32);
}

/// Waits until the count is not `seen`, or so long; false if it is still that. On the collector's
/// thread.
pub fn wait_for(seen: u32, longest_ns: u64) -> bool {
    futex::wait(&PROGRESS, seen, Some(longest_ns))
}

/// Waits until the count is not `seen`, or for a while. Blocked, so that no stop has to ask this
/// thread, and none reads what earlier calls left on its stack below `position`; a host knows of
/// its threads itself. On a mutator that holds nothing.
pub fn wait_at(position: usize, seen: u32) {
    let others = WAITING.fetch_add(1, Relaxed);
    let wait = || futex::wait(&PROGRESS, seen, Some(look_ns(others, thread::processors())));
    if host::get().is_some() {
        wait();
    } else {
        blocked::blocked_at(attach::current(), position, wait);
    }
    // In a child that a handler made in the wait nobody is counted.
    let _ = WAITING.fetch_update(Relaxed, Relaxed, |waiting| waiting.checked_sub(1));
}

/// Whether a thread of the program's waits.
pub fn is_any_waiting() -> bool {
    WAITING.load(Relaxed) > 0
}

/// In the child of a `fork`: nobody waits.
pub fn after_fork() {
    WAITING.store(0, Relaxed);
}

/// How long one waits, besides so many others, before it looks again.
fn look_ns(others: u32, processors: usize) -> u64 {
    let for_each = others / processors.max(1) as u32;
    LOOK_NS.saturating_mul(u64::from(for_each) + 1).min(LONGEST_LOOK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_look_no_more_often_together_than_a_processor_has_time_for() {
        for processors in [1, 2, 64] {
            assert_eq!(look_ns(0, processors), LOOK_NS);
            assert_eq!(look_ns(processors as u32 - 1, processors), LOOK_NS);
            for others in [1, 2, 50, 100, 1999] {
                let looks = u64::from(others + 1) * 1_000_000_000 / look_ns(others, processors);
                // A look takes some five microseconds.
                assert!(looks <= 20_000 * processors as u64, "{others}: {looks} a second");
            }
            assert_eq!(look_ns(u32::MAX, processors), LONGEST_LOOK_NS);
        }
    }
}
