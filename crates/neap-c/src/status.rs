//! Outcomes that functions report, and what is said about wrong use.
//!
//! Invariant: wrong use changes nothing; it is told once per call, to the program's callback or as a line on standard error, and after
//! [`MOST_MESSAGES`] lines no more. Nothing here allocates. Called from any thread, world running.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use neap_core::api::{self, FreeError};

use crate::callback::Slot;

/// `neap_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    Ok = 0,
    NotInHeap = 1,
    NotAnObjectStart = 2,
    AlreadyFree = 3,
    BadArgument = 4,
    NoMemory = 5,
    NotFound = 6,
    Occupied = 7,
    TimedOut = 8,
    NotOwner = 9,
}

const TEXTS: [&CStr; 10] = [
    c"no error",
    c"not an address of the collected heap",
    c"an address inside an object, not its start",
    c"no object is there (any more): it was freed or collected, or never allocated",
    c"an argument is out of range",
    c"no memory",
    c"nothing is registered there",
    c"something else is registered there",
    c"the time is over",
    c"the thread is not in the monitor",
];

impl From<FreeError> for Status {
    fn from(error: FreeError) -> Self {
        match error {
            FreeError::NotInHeap => Self::NotInHeap,
            FreeError::NotAnObjectStart => Self::NotAnObjectStart,
            FreeError::AlreadyFree => Self::AlreadyFree,
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_status_text(status: c_int) -> *const c_char {
    let text = usize::try_from(status).ok().and_then(|index| TEXTS.get(index));
    text.copied().unwrap_or(c"not a status of Neap").as_ptr()
}

/// Lines about wrong use in one process. Larger: more of the story; smaller: a loop floods the terminal less.
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

/// Sets errno, as functions do that report by null.
pub fn set_errno(code: c_int) {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = code };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_text() {
        for (index, text) in TEXTS.iter().enumerate() {
            // SAFETY: a static string.
            assert_eq!(unsafe { CStr::from_ptr(neap_status_text(index as c_int)) }, *text);
        }
        assert_eq!(Status::NotOwner as usize, TEXTS.len() - 1);
        for wrong in [-1, TEXTS.len() as c_int] {
            // SAFETY: as above.
            assert_eq!(unsafe { CStr::from_ptr(neap_status_text(wrong)) }, c"not a status of Neap");
        }
    }
}
