//! Neap's core: the heap, allocation, marking, the stopped world and the cycle that joins them.
pub mod addr;
pub mod alloc;
pub mod heap;
pub mod mark;
mod rank;
pub mod sync;
pub mod sys;
