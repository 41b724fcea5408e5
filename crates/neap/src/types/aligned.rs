//! The alignment of a word, in which no type that has it can be packed.
//!
//! Invariant: each type of the crate whose pointer is all that leads to collected memory has such a
//! field, itself or in a part of it, so the pointer lies where the collector looks. Nothing here
//! runs; read by the compiler.

/// No bytes, and the alignment of a word: a type that contains it cannot be packed.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub struct Aligned;
