//! What ends a view early: a key, a signal that ends this process, the end of the terminal.
//!
//! Invariant: nothing waits longer than for a look, whatever the terminal sends: it is read once
//! where there is something to read, and not by crossterm, which waits for the rest of a key's
//! bytes. Called by `top` and `run`.

use super::Ended;
use crate::Failure;
use crate::run::held::Held;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Between two looks for a signal. Longer: the view ends later; shorter: more wakes.
const LOOK: Duration = Duration::from_millis(100);

/// A terminal's keys, and the signals that are held back while it is drawn on.
pub struct Keys<'a> {
    terminal: OwnedFd,
    held: &'a Held,
}

impl<'a> Keys<'a> {
    /// Of the terminal that crossterm sets up: standard input, or else the process's own.
    pub fn new(held: &'a Held) -> io::Result<Keys<'a>> {
        let input = io::stdin();
        let terminal = match input.is_terminal() {
            true => input.as_fd().try_clone_to_owned()?,
            false => File::open("/dev/tty")?.into(),
        };
        Ok(Keys { terminal, held })
    }

    /// Why the view is to end, if something says so within this time, which passes otherwise.
    pub fn wait(&self, within: Duration) -> Result<Option<Ended>, Failure> {
        let next = Instant::now() + within;
        while let Some(left) = next.checked_duration_since(Instant::now()) {
            if let Some((signal, is_groups)) = self.held.within_and_whose(Duration::ZERO) {
                return Ok(Some(Ended::Signal { signal, is_groups }));
            }
            let found = self.found(left.min(LOOK)).map_err(super::no_terminal)?;
            if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                return Ok(Some(Ended::HungUp));
            }
            if found.contains(PollFlags::IN)
                && let Some(ended) = self.read()
            {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    /// Why what there is to read is to end the view, if it is.
    fn read(&self) -> Option<Ended> {
        let mut bytes = [0; 256];
        match read(&self.terminal, &mut bytes) {
            Ok(0) => Some(Ended::HungUp),
            Ok(count) => is_end(&bytes[..count]).then_some(Ended::Asked),
            // Another process has read it.
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(_) => Some(Ended::HungUp),
        }
    }

    /// What there is of the terminal within this time.
    fn found(&self, within: Duration) -> io::Result<PollFlags> {
        let time = Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() };
        let mut asked = [PollFd::new(&self.terminal, PollFlags::IN)];
        match poll(&mut asked, Some(&time)) {
            // As by a change of the window's size.
            Err(Errno::INTR) => Ok(PollFlags::empty()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(asked[0].revents()),
        }
    }
}

/// Whether these bytes have q or ^C among them, or are the key Esc: other keys begin with its byte.
fn is_end(bytes: &[u8]) -> bool {
    bytes == b"\x1b" || bytes.iter().any(|byte| matches!(byte, b'q' | 0x03))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_keys_end_a_view() {
        for end in ["q", "\x03", "\x1b", "xq", "\x1b[Aq"] {
            assert!(is_end(end.as_bytes()), "{end:?}");
        }
        for other in ["x", "Q", "\x1b[", "\x1b[A", "\x1b\x1b", "\u{e9}"] {
            assert!(!is_end(other.as_bytes()), "{other:?}");
        }
    }
}
