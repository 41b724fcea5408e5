//! What refers to the shadow's objects besides pointers: cleaners, finalizers, handles, monitors.
//!
//! Invariant: each is told of an object's death once, and not before it, unless all were made
//! ready. Called by workers.

pub mod all_ready;
pub mod cleaners;
pub mod finalizers;
pub mod handles;
pub mod monitors;
