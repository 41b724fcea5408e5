//! libc's functions that have the kernel fill memory with data, which this library stands before:
//! under `NEAP_WATCH=mprotect` their buffers may lie on protected pages.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread,
//! also in signal handlers.

#![cfg(not(test))]

neap_core::api::kernel_writes!();
