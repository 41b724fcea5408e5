//! What a cycle tells: the program's callbacks, the record of a cycle and its line, the function
//! that names roots.
//!
//! Called by the thread that drives a cycle; figures are read from any thread.

pub mod callbacks;
pub mod line;
pub mod record;
pub mod root_callback;
pub mod spans;
pub mod thread_events;
