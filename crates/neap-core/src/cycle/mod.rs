//! A cycle: what starts one, its phases, the thread that drives it, the threads that help.
//!
//! Invariant: one cycle at a time, driven by whoever has the driver token. From the ground up:
//! [`policy`] decides and is pure; [`collector`] is what stays between cycles, under its lock;
//! [`report`] is what the program is told; [`workers`] mark; [`token`] is the right to drive;
//! [`phases`] are the parts of a cycle; [`modes`] put them together, one file for each way to mark;
//! [`driver`] is the way in, the collector's thread and the handshake between the two.

pub mod collector;
pub mod driver;
pub mod limits;
pub mod modes;
pub mod patience;
pub mod phase;
pub mod phases;
pub mod policy;
pub mod report;
pub mod schedule;
#[cfg(test)]
mod stepping;
pub mod token;
pub mod workers;

pub use driver::{after_fork, lock_for_fork};
