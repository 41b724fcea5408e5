//! libc's functions that wait, which this library stands before: a stop of the world does not end
//! them.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread,
//! also in signal handlers.

#![cfg(not(test))]

neap_core::api::waits!();
