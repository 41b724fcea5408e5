//! What this crate uses of the core: the one place that names it.
//!
//! Called from everywhere in this crate; the thread rules are those of each function in
//! `neap_core::api`.

pub use neap_core::api::*;
