//! Functions of libc that front ends export in libc's stead, so that each thread is known from its
//! start, can be stopped, and has its memory readable while the kernel or libc fills it.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread,
//! some from handlers of signals.

pub mod address_space;
pub mod c11_threads;
pub mod errno;
pub mod forks;
pub mod helpers;
pub mod kernel_stacks;
pub mod kernel_writes;
pub mod masks;
pub mod process_memory;
mod program_handlers;
pub mod signals;
pub mod thread_results;
pub mod waits;
