//! Reads `NEAP_<NAME>` variables from the process's own environment block, and reports what is
//! wrong.
//!
//! Invariant: no allocation, no lock, no `std::env` (which takes a lock and allocates); `errno` is
//! kept. Called at start-up by one thread, while no other can change the environment.
//!
//! # Safety
//! Walks `environ` as the C library laid it out.
#![allow(unsafe_code)]

use super::{OptionError, Options, nearest};
use core::ffi::{CStr, c_char};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use rustix::fd::BorrowedFd;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Takes an error with the name and the value it is about.
type Warn<'a> = dyn FnMut(OptionError, &[u8], &[u8]) + 'a;

/// Set by the first reading, so that a second one (two front ends in one process) is silent.
static REPORTED: AtomicBool = AtomicBool::new(false);

impl Options {
    /// Changes what the environment's `NEAP_<NAME>` variables name. What is wrong there is reported
    /// on standard error, once per process, and has no effect. A program that runs with more rights
    /// than its user has (set-user-id) ignores the environment: options name files to write.
    pub fn apply_environment(&mut self) {
        // SAFETY: getauxval only reads the vector that the kernel gave the process.
        if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
            return;
        }
        let report = !REPORTED.swap(true, Ordering::Relaxed);
        let mut warn = |error: OptionError, name: &[u8], value: &[u8]| {
            if report {
                warn(error, name, value);
            }
        };
        // SAFETY: `environ` is null or a null-ended array of C strings, and no other thread
        // changes it during start-up.
        unsafe { self.apply_block(environ, &mut warn) }
    }

    /// Applies every `NEAP_` string of an environment block; the first of a name counts, as for
    /// getenv.
    ///
    /// # Safety
    /// `block` is null or a null-ended array of C strings; both stay as they are during the call.
    unsafe fn apply_block(&mut self, block: *const *const c_char, warn: &mut Warn<'_>) {
        let mut seen = 0u64;
        const { assert!(super::TABLE.len() <= 64) };
        let mut next = block;
        // SAFETY: by the contract each entry up to the null one is readable and a C string.
        while let Some(text) = unsafe { next_string(&mut next) } {
            let Some(setting) = text.strip_prefix(b"NEAP_") else { continue };
            let Some(split) = setting.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&setting[..split], &setting[split + 1..]);
            match super::TABLE.iter().position(|entry| is_variable(entry.name, name)) {
                Some(index) if seen & 1 << index != 0 => {}
                Some(index) => {
                    seen |= 1 << index;
                    if let Err(error) = self.set(name, value) {
                        warn(error, name, value);
                    }
                }
                None => warn(OptionError::UnknownName(nearest(name)), name, value),
            }
        }
    }
}

/// The string at `*next`, which moves on; `None` at the end.
///
/// # Safety
/// `*next` is null or points into a null-ended array of C strings that stay for `'a`.
unsafe fn next_string<'a>(next: &mut *const *const c_char) -> Option<&'a [u8]> {
    if next.is_null() {
        return None;
    }
    // SAFETY: by the contract `*next` is readable up to the array's null entry, which ends the
    // walk.
    unsafe {
        let text = **next;
        if text.is_null() {
            return None;
        }
        *next = next.add(1);
        Some(CStr::from_ptr(text).to_bytes())
    }
}

/// Variables are upper case throughout: `NEAP_max_heap` is a mistake worth a warning.
fn is_variable(option: &str, given: &[u8]) -> bool {
    option.len() == given.len()
        && option.bytes().zip(given).all(|(own, byte)| own.to_ascii_uppercase() == *byte)
}

/// Writes one line to standard error with one system call.
fn warn(error: OptionError, name: &[u8], value: &[u8]) {
    let mut line = Line { bytes: [0; 1024], length: 0 };
    // A line that is cut short is still worth having.
    let _ = line
        .write_str("neap: ")
        .and_then(|()| error.describe("NEAP_", name, value, &mut line))
        .and_then(|()| line.write_str("; ignored"));
    line.end();
    // By the system call itself: libc's function of this name may be one that we stand before.
    // SAFETY: the descriptor is only written to; where the program closed it, nobody is told.
    let standard_error = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    let _ = rustix::io::write(standard_error, &line.bytes[..line.length]);
}

/// Text on the stack, cut off where it is full. One byte is kept for the line end.
struct Line {
    bytes: [u8; 1024],
    length: usize,
}

impl Line {
    fn end(&mut self) {
        self.bytes[self.length] = b'\n';
        self.length += 1;
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..][..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn apply(variables: &[&str]) -> (Options, Vec<String>) {
        let strings: Vec<CString> =
            variables.iter().map(|text| CString::new(*text).unwrap()).collect();
        let mut block: Vec<*const c_char> = strings.iter().map(|text| text.as_ptr()).collect();
        block.push(core::ptr::null());
        let mut warnings = Vec::new();
        let mut options = Options::DEFAULT;
        let mut warn = |error: OptionError, name: &[u8], value: &[u8]| {
            let mut text = String::new();
            error.describe("NEAP_", name, value, &mut text).unwrap();
            warnings.push(text);
        };
        // SAFETY: `block` is a null-ended array of C strings that outlive the call.
        unsafe { options.apply_block(block.as_ptr(), &mut warn) };
        (options, warnings)
    }

    #[test]
    fn good_variables_are_taken_and_others_left_alone() {
        let (options, warnings) =
            apply(&["PATH=/bin", "NEAP_GROWTH=2", "NEAP_SUMMARY=a=b", "NEAP", "XNEAP_CHECK=3"]);
        assert_eq!(warnings, [""; 0]);
        assert_eq!(options.growth, 2.0);
        assert_eq!(options.summary, Some(c"a=b"));
        assert_eq!(options.check, 0);
    }

    #[test]
    fn each_mistake_is_one_warning_and_changes_nothing() {
        let (options, warnings) =
            apply(&["NEAP_GROWHT=2", "NEAP_growth=2", "NEAP_CHECK=9", "NEAP_=1", "NEAP_MARKERS="]);
        assert_eq!(options, Options::DEFAULT);
        assert_eq!(warnings.len(), 5, "{warnings:?}");
        assert!(warnings[0].contains("did you mean NEAP_GROWTH?"), "{warnings:?}");
        assert!(warnings[1].contains("is not an option"), "{warnings:?}");
        assert!(warnings[2].contains("from 0 to 3"), "{warnings:?}");
    }

    #[test]
    fn the_first_of_a_name_counts() {
        assert_eq!(apply(&["NEAP_CHECK=1", "NEAP_CHECK=2"]).0.check, 1);
    }

    #[test]
    fn a_null_block_is_empty() {
        let mut options = Options::DEFAULT;
        // SAFETY: null is allowed.
        unsafe { options.apply_block(core::ptr::null(), &mut |_, _, _| panic!()) };
        assert_eq!(options, Options::DEFAULT);
    }

    #[test]
    fn a_long_line_is_cut_and_still_ends() {
        let mut line = Line { bytes: [0; 1024], length: 0 };
        assert!(line.write_str(&"x".repeat(2000)).is_err());
        line.end();
        assert_eq!(line.length, 1024);
        assert_eq!(line.bytes[1023], b'\n');
    }
}
