//! Simulations: what stops, refills and payments for cycles come to on machines larger than the one
//! at hand, and what a change of the pacing policies does to recorded programs, in seconds.
//!
//! [`costs`] are the figures that everything rests on, [`measure`] finds them; [`program`] says
//! what a program does, steadily or as [`trace`] read it from a recording; [`schedule`] puts the
//! core's own [`policy`] files together as the core does; [`simulation`] runs a program on a
//! machine; [`tables`] print what came of it. Written after the code that `docs/design/scaling.md`
//! names. One thread, no clock: the same input gives the same figures.

#![deny(unsafe_code)]

pub mod costs;
pub mod measure;
pub mod program;
pub mod schedule;
mod serial;
pub mod simulation;
pub mod tables;
pub mod trace;

/// The core's decisions about cycles: its own files, so that a change there changes the simulation.
#[allow(clippy::new_without_default)] // Nobody but the core makes them there.
#[path = "../../../crates/neap-core/src/cycle/policy/mod.rs"]
pub mod policy;
