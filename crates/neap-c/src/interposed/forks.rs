//! libc's vfork and _Fork, which this library stands before: what a child of the first waits for is
//! no wait of the thread's, and a child of the second goes on with the heap.
//!
//! Invariant: each does what libc's does as far as the program can see. Called from any thread.

neap_core::api::forks!();
