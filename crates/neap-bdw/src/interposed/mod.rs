//! Functions of libc that this library stands before: so every thread is known from its start, can
//! be stopped, and has its memory readable while the kernel fills it.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread.

pub mod address_space;
pub mod forks;
pub mod helpers;
pub mod kernel_writes;
pub mod masks;
pub mod process_memory;
pub mod signals;
pub mod thread_results;
pub mod unmapping;
pub mod waits;
