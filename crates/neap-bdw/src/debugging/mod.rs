//! What helps to find mistakes: the debugging allocator, what it puts around objects, and text.
//!
//! Invariant: as the crate's. Called from any thread of the program.

pub mod allocator;
pub mod freed_later;
pub mod header;
mod noted;
pub mod output;
pub mod printing;
pub mod regular;
pub mod smashed;
pub mod variants;
