//! The shadow: what the test knows of each object, outside the heap, and how it is compared.
//!
//! Invariant: nothing here keeps an object alive but by a place that says so. Each graph is used by
//! one thread at a time.

pub mod audit;
pub mod graph;
pub mod hidden;
pub mod node;
pub mod objects;
pub mod pairs;
pub mod places;
pub mod shape;
pub mod who;
