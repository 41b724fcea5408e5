//! Scans: what finds grey words in a range of memory. Each way of reading is a file.
//!
//! Invariant: a scan reads words and reports them to its marker; it marks nothing itself. Called by
//! markers.

pub mod by_keys;
pub mod conservative;
pub mod object;
pub mod sparse;
pub mod typed;
pub mod written;
