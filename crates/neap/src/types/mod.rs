//! What a type says of itself: where its pointers are, and that its end is harmless.
//!
//! Read by the compiler, and once for each type where its layout is made.

pub mod aligned;
pub mod shape;
mod std_types;
pub mod trace;
