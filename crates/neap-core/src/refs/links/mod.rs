//! Disappearing links and toggle references: references that the program keeps in memory of its
//! own, or decides about before every cycle.
//!
//! Invariant: all of them are in tables under one lock (rank `Refs`). Called by mutators on any
//! thread in critical sections, and by the cycle.

pub mod link;
pub(crate) mod link_table;
pub mod toggle;
