//! What the program says of its world: its threads, stacks and roots, and a host that stops threads
//! itself.
//!
//! Invariant: as the crate's. Called from any thread of the program.

pub mod host;
pub mod roots;
pub mod stacks;
pub mod threads;
