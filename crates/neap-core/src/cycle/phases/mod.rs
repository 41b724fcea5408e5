//! The parts of a cycle, in the order in which they come: write-protecting and asking for written
//! pages, the pause and the roots in it, reference processing, the end.
//!
//! Invariant: each takes the driver token, so it runs on the one thread that drives the cycle; what
//! needs the world stopped takes the pause, too. Called by the modes.

pub mod finish;
pub mod last_question;
pub mod pause;
pub mod read_roots;
pub mod read_watched_roots;
pub mod reference_processing;
pub mod root_pages;
pub mod when_marked;
pub mod written_in_pieces;
pub mod written_pages;
pub mod written_roots;
