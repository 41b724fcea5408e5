//! What the system refused: for who has to say it to the user.
//!
//! Invariant: names the call as its manual page does.

use core::fmt;
use rustix::io::Errno;

/// A call that did not do what is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The call.
    pub call: &'static str,
    /// Its error; None where it said nothing and did something else.
    pub error: Option<Errno>,
}

impl Refusal {
    /// A call that failed.
    pub const fn new(call: &'static str, error: Errno) -> Self {
        Self { call, error: Some(error) }
    }

    /// A call that did something else than it should.
    pub const fn wrong(call: &'static str) -> Self {
        Self { call, error: None }
    }

    /// Whether the error is this one.
    pub fn is(&self, call: &str, error: Errno) -> bool {
        self.call == call && self.error == Some(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            Some(error) => write!(out, "{}: {error}", self.call),
            None => write!(out, "{} does not do what it should", self.call),
        }
    }
}
