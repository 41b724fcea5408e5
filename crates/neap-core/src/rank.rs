//! The lock order as data: a thread that holds a lock may take only locks that stand after it here.
//!
//! Invariant: the order has no cycle because it is a list. Debug builds check it on every
//! acquisition, per thread; release builds compile to nothing. Called by [`crate::sync::Lock`] from
//! any thread.

/// Every lock of the crate, first to be taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// The options, before everything else.
    Options,
    /// One cycle at a time; held from the first step of a cycle to its end.
    Cycle,
    /// The driver token while nobody has it.
    CycleState,
    /// The recording of the process.
    Recorder,
    /// The list of mutators; held while the world is stopped.
    Registry,
    /// Registered root ranges and exclusions.
    Roots,
    /// What ended threads returned.
    Results,
    /// Finalizers and links.
    Refs,
    /// Reference queues.
    Queues,
    /// Interning of layouts.
    Layouts,
    /// Blocks, chunks and their lists.
    Heap,
    /// Objects put aside for the marker that drives the cycle; what a marker leaves to others.
    Aside,
    /// Sampled objects and their sites.
    Samples,
    /// A thread's counts of large requests.
    Tally,
    /// The library's own memory.
    Meta,
    /// What the thread that keeps old pages and those that mark share.
    Snapshot,
    /// What the program wants done about faults.
    Fault,
    /// Locks of unit tests, taken one at a time.
    #[cfg(test)]
    Test,
}

#[cfg(debug_assertions)]
mod held {
    use super::Rank;
    use core::cell::Cell;
    // One bit per rank that this thread holds.
    std::thread_local! { static HELD: Cell<u32> = const { Cell::new(0) } }

    pub fn acquire(rank: Rank) {
        HELD.with(|held| {
            let mask = held.get();
            assert!(mask >> rank as u32 == 0, "lock order: {rank:?} taken while holding {mask:#b}");
            held.set(mask | 1 << rank as u32);
        });
    }
    pub fn release(rank: Rank) {
        HELD.with(|held| held.set(held.get() & !(1 << rank as u32)));
    }
}

#[cfg(debug_assertions)]
pub use held::{acquire, release};

/// Notes that this thread takes a lock of `rank`.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn acquire(_rank: Rank) {}

/// Notes that this thread gives a lock of `rank` back.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn release(_rank: Rank) {}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "lock order")]
    fn descending_order_is_refused() {
        acquire(Rank::Heap);
        acquire(Rank::Registry);
    }

    #[test]
    fn ascending_order_is_allowed() {
        acquire(Rank::Cycle);
        acquire(Rank::Heap);
        release(Rank::Heap);
        release(Rank::Cycle);
    }
}
