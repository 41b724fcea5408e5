//! What knows of an object, or of its death: handles, links, finalizers, cleaners.
//!
//! Invariant: as the crate's. Called from any thread of the program.

pub mod callback;
pub mod cleaners;
pub mod finalizers;
pub mod handles;
pub mod links;
