//! Allocation: a thread's buffers, how they are refilled, large objects, explicit free and
//! resizing.
//!
//! Invariant `[alloc.inv.critical]`: everything here but the bump of a buffer happens in a critical
//! section of its thread (`world::critical`), so a thread is never stopped while it holds the
//! heap's lock or half a block. Knows nothing of threads: the caller brings the thread's
//! [`buffer::Local`].

pub mod buffer;
pub mod free;
pub mod large;
pub mod refill;
pub mod resize;
