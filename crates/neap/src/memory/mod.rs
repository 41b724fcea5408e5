//! Memory: Rust's own heap where the collector reads it, and cells for values of a type.
//!
//! Called from any thread, which is attached by it.

pub mod allocator;
pub mod buffer;
mod layout_cache;
pub mod place;
