//! Reports on recordings: a summary for a terminal, a page with plots, JSON, CSV, comparisons of
//! two runs.
//!
//! Invariant: reads files only; knows the format (`neap-record`) and nothing of the collector.
//! Everything here is a function from a [`Recording`] to text. Called by `neap report`.

pub mod compare;
pub mod cost;
pub mod csv;
pub mod json;
pub mod page;
pub mod sites;
pub mod summary;
pub mod text;
pub mod units;

pub use neap_record::Recording;
pub use sites::Site;
pub use summary::Summary;
