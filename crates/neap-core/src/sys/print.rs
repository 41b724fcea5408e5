//! Lines on standard error without stdio and without malloc, so that they can be written from
//! anywhere.
//!
//! Invariant: one line is one write(2), so lines of several threads do not mix. Called from any
//! thread, also with the world stopped.
//!
//! # Safety
//! The descriptor of standard error is borrowed for single writes, and closed by nobody here.

#![allow(unsafe_code)]

use core::fmt::{self, Write};
use core::panic::PanicInfo;
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, IoSlice};

/// A line under construction in a fixed buffer; what does not fit is cut.
pub struct Line {
    buffer: [u8; 1024],
    length: usize,
}

impl Line {
    /// An empty line.
    pub const fn new() -> Self {
        Self { buffer: [0; 1024], length: 0 }
    }

    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.buffer.len() - self.length;
        let taken = text.len().min(room);
        self.buffer[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// Standard error, as far as the program has not closed it.
pub fn standard_error() -> BorrowedFd<'static> {
    // SAFETY: the number is never taken for more than a place to write messages to.
    unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) }
}

/// Ends the process by SIGABRT.
pub fn abort() -> ! {
    // SAFETY: it takes nothing, and does not return.
    unsafe { libc::abort() }
}

/// Writes `neap: MESSAGE` to standard error.
pub fn message(arguments: fmt::Arguments<'_>) {
    // Standard error may be closed; there is nobody left to tell.
    let _ = try_message(arguments);
}

/// The same, or says what refused it.
pub fn try_message(arguments: fmt::Arguments<'_>) -> Result<usize, Errno> {
    let mut line = Line::new();
    let _ = writeln!(line, "neap: {arguments}");
    if let Some(last) = line.buffer.last_mut().filter(|_| line.length == 1024) {
        *last = b'\n';
    }
    rustix::io::write(standard_error(), line.bytes())
}

/// Writes `neap: ` and the pieces, one after the other: where the stack has no room for a line.
pub fn pieces(pieces: [&str; 4]) {
    let [first, second, third, fourth] = pieces.map(|piece| IoSlice::new(piece.as_bytes()));
    let line = [IoSlice::new(b"neap: "), first, second, third, fourth, IoSlice::new(b"\n")];
    let _ = rustix::io::writev(standard_error(), &line);
}

/// Writes a message and ends the process, for states that cannot be mended.
pub fn fatal(arguments: fmt::Arguments<'_>) -> ! {
    message(arguments);
    abort()
}

/// Ends the process after a panic, which says where something is not as it must be.
pub fn panicked(information: &PanicInfo<'_>) -> ! {
    fatal(format_args!("an error of the collector's own: {information}"))
}

/// Ends the process where the collector itself gets no memory.
#[cold]
pub fn no_memory() -> ! {
    fatal(format_args!(
        "the system gives no memory for the collector's own tables; is a limit on the address \
         space (ulimit -v), on mappings (vm.max_map_count), or of a control group too low?"
    ))
}

/// Ends the process where the library is called on a thread that is in the middle of it: what was
/// interrupted is half done, and would be done wrong.
#[cold]
pub fn reentered() -> ! {
    fatal(format_args!(
        "this library was called on a thread that is inside the library already, from a signal \
         handler or from a function that is called with the world stopped: nothing can be \
         allocated there. Have a signal handler set a flag or write to a pipe and do the rest \
         outside of it, or block the signal while the thread calls the library"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_not_refused() {
        let mut line = Line::new();
        for _ in 0..200 {
            write!(line, "0123456789").unwrap();
        }
        assert_eq!(line.bytes().len(), 1024);
    }
}
