//! Writes to protected pages: the handler of faults, and the kernel's two ways to report them by
//! userfaultfd.
//!
//! Invariant: knows pages, and nothing of what lies in them. Each file says which thread calls it.

pub mod alternate_stack;
pub mod fault;
mod faults_within;
pub mod page_faults;
pub mod write_watch;
