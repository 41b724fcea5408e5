//! Standard input for a program that runs several times.
//!
//! Invariant: every run reads the same bytes: a file's from where it stood at the start, or none.
//! Called by `compare`.

use rustix::fs::{FileType, SeekFrom};
use std::io::{self, IsTerminal};
use std::process::Stdio;

/// What the runs read.
#[derive(Debug, PartialEq)]
pub enum Input {
    /// This process's, a file, from this byte on.
    File(u64),
    /// Nothing; and what this process's is, if it is something to say.
    Empty(Option<&'static str>),
}

impl Input {
    /// From this process's.
    pub fn of_this_process() -> Input {
        let input = rustix::stdio::stdin();
        let Ok(known) = rustix::fs::fstat(input) else { return Input::Empty(None) };
        match FileType::from_raw_mode(known.st_mode) {
            FileType::RegularFile => match rustix::fs::tell(input) {
                Ok(place) => Input::File(place),
                Err(_) => Input::Empty(Some("a file that cannot be read twice")),
            },
            FileType::Fifo => Input::Empty(Some("a pipe")),
            FileType::Socket => Input::Empty(Some("a socket")),
            _ if std::io::stdin().is_terminal() => Input::Empty(Some("a terminal")),
            FileType::CharacterDevice if is_null(known.st_rdev) => Input::Empty(None),
            _ => Input::Empty(Some("a device")),
        }
    }

    /// What this process's is, if the runs cannot have it.
    pub fn refused(&self) -> Option<&'static str> {
        match self {
            Input::File(_) => None,
            Input::Empty(reason) => *reason,
        }
    }

    /// For the next run.
    pub fn stdio(&self) -> io::Result<Stdio> {
        match self {
            Input::Empty(_) => Ok(Stdio::null()),
            Input::File(place) => {
                rustix::fs::seek(rustix::stdio::stdin(), SeekFrom::Start(*place))?;
                Ok(Stdio::inherit())
            }
        }
    }
}

fn is_null(device: u64) -> bool {
    (rustix::fs::major(device), rustix::fs::minor(device)) == (1, 3)
}
