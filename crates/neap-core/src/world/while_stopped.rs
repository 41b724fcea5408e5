//! What functions of the program may ask that are called while the world is stopped: whether it is,
//! and what all threads allocated and freed so far.
//!
//! Invariant: who stopped the world reads without the registry's lock, which it has; who has it for
//! another reason, in a handler of the program's, is told of it. Called from any thread, outside
//! critical sections.

use super::registry::{self, Registry};
use super::stop;
use crate::rank::{self, Rank};

/// Whether the calling thread has stopped the world.
pub fn is_mine() -> bool {
    stop::is_under_way() && registry::is_mine()
}

/// Objects and bytes allocated so far.
pub fn allocated() -> (u64, u64) {
    read(Registry::totals)
}

/// Bytes of the objects that the program freed itself.
pub fn freed_bytes() -> u64 {
    read(Registry::freed_bytes)
}

fn read<R>(read: impl FnOnce(&Registry) -> R) -> R {
    if is_mine() {
        return registry::with(read);
    }
    // A callback of toggle references has `Refs`, and who is told of objects that become ready has
    // `Found`. Who has the registry's lock waits for these only with `Cycle`, which belongs to who
    // makes the callback.
    rank::out_of_order(Rank::Found, || rank::out_of_order(Rank::Refs, || read(&registry::lock())))
}
