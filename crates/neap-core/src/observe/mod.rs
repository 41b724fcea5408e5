//! What leaves the process: recordings, profiles, metrics.
//!
//! Invariant: reads the rest of the collector and changes nothing there; off, it costs nothing.
//! Runs on a thread of the library's own wherever it can.

pub mod ask_page;
pub mod census;
pub mod heap_snapshot;
pub mod json_text;
pub mod live_page;
pub mod named_file;
mod output;
pub mod record_file;
mod recorded_cycles;
pub mod recorder;
mod snapshot_objects;
pub mod tally;
