//! libc's functions by which a thread could block the stop signal, or wait for it itself.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread,
//! also in signal handlers.

#![cfg(not(test))]

neap_core::api::masks!();
