//! The lock order as data: a thread that holds a lock may take only locks that stand after it here.
//!
//! Invariant: the order has no cycle because it is a list. Debug builds check it on every
//! acquisition, per thread; release builds compile to nothing. The same list says what a `fork`
//! does about each, and `runtime/at_fork.rs` is not compiled if it does something else. Called by
//! [`crate::sync::Lock`] from any thread.

/// What a `fork` of the host's does about the locks of a rank. In the child nobody gives back what
/// a thread held that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverFork {
    /// The thread that forks takes them before, and gives them back in the parent and the child.
    Held,
    /// It does not, and for this reason the child finds none of them held.
    Free(&'static str),
}

use OverFork::{Free, Held};

/// Makes [`Rank`] from its list: a name each, and what a `fork` does about it.
macro_rules! ranks {
    ($($(#[$attribute:meta])* $name:ident: $over_fork:expr,)*) => {
        /// Every lock of the crate, first to be taken first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Rank {
            $($(#[$attribute])* $name,)*
        }

        #[allow(unused_doc_comments)]
        impl Rank {
            /// What a `fork` does about the locks of this rank.
            pub const fn over_fork(self) -> OverFork {
                match self {
                    $($(#[$attribute])* Self::$name => $over_fork,)*
                }
            }

            /// A bit for each rank that a `fork` holds.
            pub const HELD_OVER_FORK: u32 = {
                let mut all = 0;
                $($(#[$attribute])* {
                    if matches!(Self::$name.over_fork(), Held) {
                        all |= Self::$name.bit();
                    }
                })*
                all
            };
        }
    };
}

ranks! {
    /// The start, before everything else.
    Start: Held,
    /// The options.
    Options: Held,
    /// One cycle at a time; held over stops, and while roots are read.
    Cycle: Held,
    /// The driver token while nobody has it.
    CycleState: Free("taken by who has `Cycle`, for a moment"),
    /// The recording of the process.
    Recorder: Held,
    /// The list of mutators; held while the world is stopped.
    Registry: Held,
    /// Registered root ranges and exclusions.
    Roots: Held,
    /// What ended threads returned.
    Results: Held,
    /// What cycles found dead; held while a cycle decides about that.
    Found: Held,
    /// Links and toggle references.
    Refs: Held,
    /// Reference queues.
    Queues: Held,
    /// Interning of layouts.
    Layouts: Held,
    /// Blocks, chunks and their lists.
    Heap: Held,
    /// Objects put aside for the marker that drives the cycle; what a marker leaves to others.
    Aside: Free("markers may have them; the child's are made anew before it marks"),
    /// Sampled objects and their sites.
    Samples: Held,
    /// A thread's counts of large requests.
    Tally: Free("taken by its thread, which is the one that forks, or by who has `Recorder`; the \
        child gives those of other threads back unseen"),
    /// The library's own memory.
    Meta: Held,
    /// What the thread that keeps old pages and those that mark share.
    Snapshot: Free("the child leaves the watch to its parent, lock and all, and opens another"),
    /// The handler of faults, while it is installed.
    Fault: Held,
    /// Locks of unit tests, taken one at a time.
    #[cfg(test)]
    Test: Free("no test forks with one"),
}

impl Rank {
    /// The bit that stands for it.
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

#[cfg(debug_assertions)]
mod held {
    use super::Rank;
    use core::cell::Cell;
    use std::sync::OnceLock;
    // One bit per rank that this thread holds.
    std::thread_local! { static HELD: Cell<u32> = const { Cell::new(0) } }

    /// Locks that are taken between stop and resume.
    const TAKEN_IN_STOPS: u32 = Rank::Roots.bit()
        | Rank::Found.bit()
        | Rank::Refs.bit()
        | Rank::Queues.bit()
        | Rank::Heap.bit()
        | Rank::Samples.bit();
    /// Who has one of these is stopped by nobody.
    const NO_STOPS: u32 = Rank::Cycle.bit() | Rank::Registry.bit();

    /// Whether the calling thread may be stopped, as far as its critical sections say.
    static MAY_BE_STOPPED: OnceLock<fn() -> bool> = OnceLock::new();

    /// Says who knows; once.
    pub fn set_may_be_stopped(asked: fn() -> bool) {
        let _ = MAY_BE_STOPPED.set(asked);
    }

    pub fn check(rank: Rank) {
        let mask = HELD.get();
        assert!(mask >> rank as u32 == 0, "lock order: {rank:?} taken while holding {mask:#b}");
        assert!(
            TAKEN_IN_STOPS & rank.bit() == 0
                || NO_STOPS & mask != 0
                || !MAY_BE_STOPPED.get().is_some_and(|asked| asked()),
            "[world.inv.critical] {rank:?} is taken where a stop may come"
        );
    }
    pub fn acquire(rank: Rank) {
        HELD.set(HELD.get() | rank.bit());
    }
    pub fn release(rank: Rank) {
        HELD.with(|held| held.set(held.get() & !rank.bit()));
    }

    /// Runs `f` as if the calling thread had no lock of this rank: `f` takes one that stands before
    /// it, and the caller says why nobody waits for ever.
    pub fn out_of_order<R>(rank: Rank, f: impl FnOnce() -> R) -> R {
        let mine = HELD.get() & rank.bit();
        HELD.set(HELD.get() & !mine);
        let result = f();
        HELD.set(HELD.get() | mine);
        result
    }

    /// A bit for each rank of which the calling thread holds a lock.
    pub fn held() -> u32 {
        HELD.get()
    }
}

#[cfg(debug_assertions)]
pub use held::{acquire, check, held, out_of_order, release, set_may_be_stopped};

/// Whether this thread may take a lock of `rank` where it is: else the process ends.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn check(_rank: Rank) {}

/// Notes that this thread has taken a lock of `rank`.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn acquire(_rank: Rank) {}

/// Notes that this thread gives a lock of `rank` back.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn release(_rank: Rank) {}

/// Runs `f`, which takes a lock before `rank`'s.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn out_of_order<R>(_rank: Rank, f: impl FnOnce() -> R) -> R {
    f()
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "lock order")]
    fn descending_order_is_refused() {
        acquire(Rank::Heap);
        check(Rank::Registry);
    }

    #[test]
    fn ascending_order_is_allowed() {
        acquire(Rank::Cycle);
        check(Rank::Heap);
        acquire(Rank::Heap);
        release(Rank::Heap);
        release(Rank::Cycle);
    }
}
