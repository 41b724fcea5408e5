//! libc's vfork, which this library stands before: what its child waits for is no wait of the
//! thread's.
//!
//! Invariant: it does what libc's does as far as the program can see. Called from any thread.

neap_core::api::vfork_function!();
