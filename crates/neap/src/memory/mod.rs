//! Memory: Rust's own heap where the collector reads it, and cells for values of a type.
//!
//! Called from any thread, which is attached by it.

pub mod allocator;
pub mod buffer;
#[cfg_attr(miri, path = "cells_under_miri.rs")]
mod cells;
mod layout_cache;
pub mod place;
pub mod seen;

/// Alignment that the core gives to every cell whose size is a multiple of it.
const COMMON_ALIGNMENT: usize = 16;
/// The largest alignment that the core gives.
const LARGEST_ALIGNMENT: usize = 4096;
