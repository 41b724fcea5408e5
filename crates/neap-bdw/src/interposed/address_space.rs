//! libc's setrlimit and prlimit, which this library stands before: a limit on address space that a
//! program gives itself counts what the heap has reserved.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread.

#![cfg(not(test))]

use core::ffi::{c_int, c_uint};

neap_core::api::address_space!();
