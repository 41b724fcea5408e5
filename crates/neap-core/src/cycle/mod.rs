//! A cycle: what starts one, its phases, its driver, the threads that help.
//!
//! Invariant: one cycle at a time, driven by the thread that holds the collector's lock, a mutator like any other. [`collector`] is the way in.

pub mod background;
pub mod by_fork;
pub mod by_snapshot;
pub mod collector;
pub mod conclude;
pub mod concurrent;
pub mod due;
pub mod events;
pub mod freeze;
pub mod full;
pub mod gate;
pub mod generation;
pub mod idle;
pub mod limits;
pub mod markers;
pub mod pacer;
pub mod phase;
pub mod report;
pub mod root_callback;
pub mod settle;
pub mod steps;
pub mod stopped;
pub mod taken;
pub mod trigger;
pub mod watched;
pub mod watched_roots;
pub mod way;

pub use collector::{after_fork, hold_for_fork, unlock_after_fork};
