//! Settings: exported variables, their setters and getters, and the `GC_*` environment.
//!
//! Invariant: as the crate's. Called from any thread of the program.

pub mod apply_environment;
pub mod carry_over;
pub mod environment;
pub mod handed_over;
pub mod interior_pointers;
pub mod variables;
