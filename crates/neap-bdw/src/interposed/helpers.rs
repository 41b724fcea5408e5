//! libc's functions that make threads for the program, which this library stands before: no stop
//! waits for who is in one.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread.

#![cfg(not(test))]

neap_core::api::helpers!();
