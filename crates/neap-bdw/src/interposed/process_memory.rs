//! libc's functions that write to a file at a place, which this library stands before: the file may
//! be the process's own memory.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread,
//! also in signal handlers.

#![cfg(not(test))]

neap_core::api::process_memory!();
