//! `neap-torture under`: becomes another program, with system calls refused as containers refuse
//! them.
//!
//! Invariant: what is said to be refused was seen to be before the program begins. On the only
//! thread.

use crate::ensure;
use crate::seccomp::{Call, refuse};
use clap::{Args, ValueEnum};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// How a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Error {
    /// As a filter does.
    Eperm,
    /// As a kernel without it does.
    Enosys,
}

/// Arguments of `under`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Refuses userfaultfd.
    #[arg(long)]
    userfaultfd: Option<Error>,
    /// Refuses new processes; threads are allowed.
    #[arg(long)]
    fork: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<String>,
}

/// Installs the filters and becomes the program; returns only if it cannot.
pub fn run(options: &Options) -> ExitCode {
    if let Some(error) = options.userfaultfd {
        let error = if error == Error::Eperm { libc::EPERM } else { libc::ENOSYS };
        refuse(Call::Userfaultfd, error);
        // SAFETY: a call that is refused.
        let opened = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1) };
        let seen = std::io::Error::last_os_error().raw_os_error();
        ensure!(opened == -1 && seen == Some(error), "userfaultfd is not refused");
    }
    if options.fork {
        refuse(Call::Fork, libc::EPERM);
        // SAFETY: a call that is refused; were it not, the child would exit at once.
        let made = unsafe { libc::fork() };
        if made == 0 {
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        ensure!(made == -1, "fork is not refused");
    }
    let error = Command::new(&options.program[0]).args(&options.program[1..]).exec();
    eprintln!("neap-torture: {}: {error}", options.program[0]);
    ExitCode::from(127)
}
