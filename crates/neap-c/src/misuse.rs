//! What is said about wrong use.
//!
//! Invariant: wrong use changes nothing; it is told once per call, to the program's callback or as
//! a line on standard error, and after [`MOST_MESSAGES`] lines no more. Nothing here allocates.
//! Called from any thread, world running.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use neap_core::api;

use crate::references::callback::Slot;
use crate::status::Status;

/// Lines about wrong use in one process. Larger: more of the story; smaller: a loop floods the
/// terminal less.
const MOST_MESSAGES: u32 = 10;
static MESSAGES: AtomicU32 = AtomicU32::new(0);
static CALLBACK: Slot<MisuseCallback> = Slot::new();

type MisuseCallback = unsafe extern "C" fn(c_int, *const c_char, *mut c_void);

#[unsafe(no_mangle)]
pub extern "C" fn neap_set_misuse_callback(
    callback: Option<MisuseCallback>,
    environment: *mut c_void,
) -> Status {
    CALLBACK.set(callback, environment)
}

/// Text on the stack, cut off where it is full, always with a NUL behind it.
struct Text {
    bytes: [u8; 320],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let taken = part.len().min(self.bytes.len() - 1 - self.length);
        self.bytes[self.length..self.length + taken].copy_from_slice(&part.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// Tells of wrong use; gives the status back.
#[cold]
pub fn misuse(status: Status, what: fmt::Arguments<'_>) -> Status {
    if let Some((callback, environment)) = CALLBACK.get() {
        let mut text = Text { bytes: [0; 320], length: 0 };
        // Cutting off is no error here.
        let _ = text.write_fmt(what);
        // SAFETY: the program's, for this; the text lives over the call.
        unsafe { callback(status as c_int, text.bytes.as_ptr().cast(), environment) };
        return status;
    }
    line(what);
    status
}

/// A line on standard error, unless there were many.
pub fn line(what: fmt::Arguments<'_>) {
    match MESSAGES.fetch_add(1, Relaxed) + 1 {
        ..MOST_MESSAGES => api::message(what),
        MOST_MESSAGES => api::message(format_args!("{what} (further messages are left out)")),
        _ => MESSAGES.store(MOST_MESSAGES, Relaxed),
    }
}
