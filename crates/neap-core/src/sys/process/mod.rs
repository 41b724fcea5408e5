//! What the system says of this process, and copies of it: limits, loaded objects, mappings,
//! resident memory, a page that others can read, children.
//!
//! Invariant: asks anew each time; nothing is kept but what a caller keeps. Each file says which
//! thread calls it.

pub mod cgroup;
pub mod child;
pub mod copies;
pub mod image;
pub mod instruments;
pub mod mappings;
pub mod modules;
#[cfg(any(test, fuzzing))]
pub mod mutated_texts;
pub mod random;
pub mod resident;
pub mod shared_page;
pub(crate) mod valgrind;
pub mod variables;
