//! libc's functions that end, join and detach threads, which this library stands before: what a
//! thread returned is kept until it is joined.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread.

#![cfg(not(test))]

neap_core::api::thread_results!();
