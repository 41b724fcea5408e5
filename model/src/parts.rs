//! Small models, one for each thing that the model of the cycle leaves out, with the mistakes that
//! it has to find.
//!
//! Invariant: a file is a model by itself: its state, its steps, what must hold, and its mutants,
//! each of which breaks one rule of `docs/concurrency.md`. Every step is offered in every state,
//! and says itself whether it can be taken. Called by the tests and by `make model`.

pub mod assists;
pub mod before_images;
pub mod births;
pub mod buffers;
pub mod copied;
pub mod disabling;
pub mod frees;
pub mod growing;
pub mod holding;
pub mod last_thread;
pub mod links;
pub mod loader;
pub mod local_functions;
pub mod middle_stop;
pub mod offers;
pub mod root_pieces;
pub mod stopping;
pub mod thread_results;
pub mod timed_waits;
pub mod watched_roots;
pub mod weak_reads;
pub mod weak_snapshots;
