//! Collections: asked for, forbidden, told of; what they found, and walks over what they left.
//!
//! Invariant: as the crate's. Called from any thread of the program.

pub mod blocks;
pub mod collect;
pub mod events;
pub mod freed;
pub mod incremental;
pub mod memory;
pub mod pacing;
pub mod statistics;
pub mod walk;
pub mod world_stopped;
