//! Reports on recordings: a summary for a terminal, a page with plots, JSON, CSV, comparisons of
//! two runs; and on heap snapshots.
//!
//! Invariant: reads files only; knows the format (`neap-record`) and nothing of the collector.
//! Everything here is a function from what was read to text. Called by `neap report` and
//! `neap heap`.

pub mod compare;
pub mod cost;
pub mod csv;
pub mod heap;
pub mod json;
pub mod page;
pub mod sites;
pub mod summary;
pub mod text;
pub mod unfinished;
pub mod units;

pub use neap_record::Recording;
pub use sites::Site;
pub use summary::Summary;
pub use unfinished::Unfinished;
