//! What ends a view early: a key, a signal that ends this process, the end of the terminal.
//!
//! Invariant: keys are asked for only where there is something to read and the terminal is there:
//! crossterm tries for ever to read from one that is gone. Called by `top` and `run`.

use super::Ended;
use crate::Failure;
use crate::run::held::Held;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
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
    /// Of the terminal that crossterm reads: standard input, or else the process's own.
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
            if let Some(signal) = self.held.within(Duration::ZERO) {
                return Ok(Some(Ended::Signal(signal)));
            }
            let found = self.found(left.min(LOOK)).map_err(super::no_terminal)?;
            if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                return Ok(Some(Ended::HungUp));
            }
            if found.contains(PollFlags::IN) && is_asked_to_end().map_err(super::no_terminal)? {
                return Ok(Some(Ended::Asked));
            }
        }
        Ok(None)
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

/// Whether one of the keys that were pressed says so.
fn is_asked_to_end() -> io::Result<bool> {
    while event::poll(Duration::ZERO)? {
        if is_end(&event::read()?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_end(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && (interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}
