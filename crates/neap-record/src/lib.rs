//! The recording that `NEAP_STATS` writes: its format, encoding for the program that writes it,
//! decoding for the tools that read it; and the one declaration of every figure's name, unit and
//! meaning.
//!
//! A file is [`MAGIC`] and then *chunks*, each with a tag, a length and a checksum (`frame`).
//! Chunks only add to what came before, so a file that ends early, because its program crashed or
//! the disk was full, is right up to where it ends. Numbers are LEB128. A reader skips chunks with
//! tags it does not know, and fields that are more than it knows.
//!
//! Invariant: nothing that encodes allocates memory or panics, since it runs in a program whose
//! `malloc` may be the one that is recorded. Decoding refuses nothing but a file that is no
//! recording: what is broken is left out and said. Encoding is called from one thread at a time;
//! decoding is a function of bytes. No dependencies, also none on the collector.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod ask;
pub mod chunks;
pub mod decode;
pub mod figures;
pub mod frame;
pub mod live;
pub mod number;
pub mod spans;
pub mod steps;

pub use chunks::{KIND_NAMES, KINDS, TYPED};
pub use decode::{NotARecording, Recording};
pub use figures::{Census, Cycle, Figure, Live, Nature, Statistics, Unit};
pub use frame::{Full, MAGIC, Tag, Writer};
pub use spans::{Span, SpanKind};
pub use steps::CycleEvent;

/// The variable that says when the run began that a program belongs to, in nanoseconds since 1970:
/// it records over nothing that was written since.
pub const RUN_BEGAN: &core::ffi::CStr = c"NEAPRUN_BEGAN";
