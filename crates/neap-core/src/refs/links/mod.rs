//! Disappearing links and toggle references: references that the program keeps in memory of its
//! own, or decides about before every cycle.
//!
//! Invariant: all of them are in tables under the lock of `refs`, in slots of a space of their own
//! (`held_slots`). Called by mutators on any thread in critical sections, and by the cycle.

pub(crate) mod held_slots;
pub mod link;
pub mod toggle;
