//! Who drives a cycle, and when: the way in, the handshake between the collector's thread and the
//! program's, the collector's thread, freezing.
//!
//! Invariant: `[cycle.inv.driver]`. From the ground up: [`between_steps`] keeps the driver
//! token between steps, [`watch_in_use`] opens the watch, [`wake`] is how the collector's thread is
//! woken, [`progress`] is what those who wait sleep on, [`disabling`] says whether there are to be
//! cycles, [`handshake`] hands the token on, [`holding`] keeps it from everybody, [`collect`] is
//! where a mutator asks for a cycle, [`assist`] where it helps to mark, [`collector_thread`] runs
//! what goes on beside the program, [`freeze`] and [`between_cycles`] work between cycles,
//! [`given_up`] ends cycles that cannot go on.

pub mod assist;
pub mod between_cycles;
pub mod between_steps;
pub mod collect;
pub mod collector_thread;
pub mod disabling;
pub mod freeze;
pub mod given_up;
pub mod handshake;
pub mod holding;
pub mod progress;
pub mod wake;
pub mod watch_in_use;

use super::collector::COLLECTOR;
use super::report::callbacks;
use crate::rank::{self, Rank};
use crate::sync::ForkLock;

/// As [`holding::hold`] and [`holding::release`]: a thread that holds collections off has the
/// lock already. One that is in a step of a cycle could not go on with it in the child, nor one
/// that a handler interrupted which has the lock for a moment.
struct OverFork;

impl ForkLock for OverFork {
    fn take(&self) {
        if holding::is_held_by_caller() {
            rank::acquire(Rank::Cycle);
        }
        holding::hold();
    }
    #[allow(unsafe_code)]
    unsafe fn give_back(&self) {
        holding::release();
    }
    fn is_mine(&self) -> bool {
        between_steps::is_mine() || COLLECTOR.is_mine() && !holding::is_held_by_caller()
    }
}

/// The lock, for who holds it over a `fork`.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &OverFork
}

/// In the child of a `fork`: the library's threads are gone.
pub fn after_fork() {
    wake::after_fork();
    collector_thread::after_fork();
    disabling::after_fork();
    handshake::after_fork();
    progress::after_fork();
    super::limits::after_fork();
    callbacks::after_fork();
}
