//! How a run fails: one message that names the seed and the place, then the process ends.
//!
//! Invariant: nothing here needs the heap. Called from any thread and from forked children; a
//! child's failure becomes its parent's through the exit status.

use core::cell::Cell;
use core::fmt::Arguments;
use std::sync::OnceLock;

/// Exit status of a run that found a fault of the collector.
pub const FAULT: i32 = 1;

/// What the command line asked for, in words that repeat the run.
pub static COMMAND: OnceLock<String> = OnceLock::new();

thread_local! {
    static POSITION: Cell<(usize, u64)> = const { Cell::new((usize::MAX, 0)) };
}

/// Says where the calling thread is: the worker's number and how many operations it has done.
pub fn note_position(worker: usize, operation: u64) {
    POSITION.set((worker, operation));
}

/// Reports a fault and ends the process.
pub fn fail(what: Arguments<'_>) -> ! {
    let (worker, operation) = POSITION.get();
    let by = match worker {
        usize::MAX => "main".to_string(),
        worker => format!("worker {worker}, operation {operation}"),
    };
    let command = COMMAND.get().map_or("", String::as_str);
    let text = format!("torture: {what}\n  by {by}; again: {command}\n");
    // SAFETY: writes bytes of a string and ends the process, running nothing else of it.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(FAULT)
    }
}

/// Fails with a formatted message.
#[macro_export]
macro_rules! fail {
    ($($arguments:tt)*) => { $crate::failure::fail(format_args!($($arguments)*)) };
}

/// Fails unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($arguments:tt)*) => {
        if !$condition {
            $crate::failure::fail(format_args!($($arguments)*))
        }
    };
}
