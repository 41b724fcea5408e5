//! The functions of libc that this library stands before: so every thread is known from its start,
//! none blocks the signal that stops it, a stop ends no wait, and a handler of faults does not
//! replace ours.
//!
//! Invariant: each does what libc's does as far as the program can see. Left out without the
//! feature `interpose`; then threads are attached by their first allocation, or made with
//! `neap_pthread_create`. Called from any thread.

pub mod address_space;
pub mod forks;
pub mod helpers;
pub mod kernel_writes;
pub mod masks;
pub mod process_memory;
pub mod signals;
pub mod thread_results;
pub mod waits;
