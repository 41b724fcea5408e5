//! Critical sections by thread, for code that has no mutator at hand: in one, a stop request waits,
//! so locks of the collector may be held.
//!
//! Invariant `[world.inv.critical]`: with the world stopped, no mutator is in a critical section,
//! hence none holds the heap's lock or one of the references'. Waiting for the cycle's or the
//! registry's lock in one is forbidden: their holder may be waiting for this thread to stop.

use super::attach;
use super::mutator::Critical;

/// Enters a critical section of the calling thread, attaching it if need be.
pub fn enter() -> Critical<'static> {
    attach::current().critical()
}
