//! Functions about signals that this library stands before in libc's stead.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread.

#![cfg(not(test))]

neap_core::api::signal_actions!();
