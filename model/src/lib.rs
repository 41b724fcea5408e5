//! Models of the collector. The largest is of its cycle over a heap of three frames: every
//! interleaving of a program's steps and the collector's.
//!
//! What is checked: when the sweep begins, no reachable object is unmarked. The phase machine is
//! the core's own file, so model and code cannot part in what may follow what; the rest is written
//! after `cycle/modes/incremental_update.rs`, `cycle/phases/written_pages.rs`,
//! `cycle/modes/stop_the_world.rs`, `heap/frames/watched.rs` and `mark/scan/written.rs`, whose
//! steps it takes one by one: a step is what happens at once, under a lock, in a system call, or as
//! one aligned access. Invariant: a state is a plain value and steps are pure. Called by the tests
//! and by `make model`, on the checker's threads.
//!
//! What this leaves out, `parts` has, a small model for each thing. In none: objects that live
//! until freed, frozen blocks, resizing. Memory is sequentially consistent here;
//! `docs/concurrency.md` argues why that is enough.

#[path = "../../crates/neap-core/src/cycle/phase.rs"]
pub mod phase;

pub mod collector;
pub mod cycles;
pub mod heap;
pub mod mutator;
pub mod parts;
