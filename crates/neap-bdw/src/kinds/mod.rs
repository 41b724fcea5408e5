//! Kinds of objects: how each is allocated, scanned and disclaimed; the program's own included.
//!
//! Invariant: a kind's number, once given out, means the same until the process ends. Called from
//! any thread of the program; mark procedures and disclaim procedures while the world is stopped.

pub mod cleared;
pub mod descriptors;
pub mod disclaim;
pub mod finalized_malloc;
pub mod free_lists;
pub mod gcj;
pub mod kind;
pub mod mark_procs;
pub mod mark_pushes;
pub mod typed;
