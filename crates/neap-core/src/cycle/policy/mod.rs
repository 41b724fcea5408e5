//! Decisions about cycles: when one starts, how fast it goes, which kind it is, how it catches up
//! with a program that writes faster than it scans, how long who allocates waits for it, whether an
//! idle program gets one.
//!
//! Invariant: everything here is pure. Time, sizes and counts are arguments, so policies are tested
//! by simulation. Called under the collector's lock, and by the collector's thread.

pub mod catching_up;
pub mod generation;
pub mod idle;
pub mod pacer;
pub mod snapshot_stops;
pub mod stall;
pub mod stop_time;
pub mod trigger;
