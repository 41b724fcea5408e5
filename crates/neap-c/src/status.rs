//! Outcomes that functions report.
//!
//! Invariant: numbers and texts are those of neap.h. Nothing here allocates. Called from any
//! thread.

use core::ffi::{CStr, c_char, c_int};

use neap_core::api::FreeError;

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
