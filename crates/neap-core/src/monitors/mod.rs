//! Monitors: every object can be locked, waited on and notified.
//!
//! Invariant: knows handles (what a thread keeps for both is one record) and nothing of what hangs
//! on an object's death. From the bottom up: a word beside the heap for each object (`lock_word`,
//! `lock_table`), inflated monitors and their records, one object's lock (`object_lock`), and the
//! monitors of the process (`monitor`). Called from any thread; the cycle's part by `refs` and the
//! cycle.

pub mod inflated;
pub(crate) mod lock_table;
pub mod lock_word;
pub mod monitor;
pub mod object_lock;
pub mod records;
