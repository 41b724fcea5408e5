//! A call of this library from a signal handler that interrupted the library on the same thread:
//! how it is noticed where it would wait for itself, and how it ends.
//!
//! Invariant: who holds a lock is known by its thread control block, which no other thread has as
//! long as this one lives. Called from any thread, also in signal handlers; the message takes no
//! lock and no memory.

use super::{print, thread};

/// What tells the calling thread from all others; never 0.
#[inline(always)]
pub fn me() -> usize {
    // There is no thread pointer to read under miri, and no handler.
    if cfg!(miri) { 1 } else { thread::control_block() }
}

/// Ends the process: what the handler interrupted is half done, and would be done wrong.
#[cold]
pub fn refuse() -> ! {
    print::fatal(format_args!(
        "this library was called on a thread that is inside the library already, from a signal \
         handler or from a function that is called with the world stopped: nothing can be \
         allocated there. Have a signal handler set a flag or write to a pipe and do the rest \
         outside of it, or block the signal while the thread calls the library"
    ))
}
