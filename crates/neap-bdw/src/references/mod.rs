//! What knows of an object's death: finalizers, disappearing links, toggle references.
//!
//! Invariant: as the crate's. Called from any thread of the program.

pub mod finalize;
pub mod links;
pub mod many;
mod running;
pub mod toggle;
