//! One run of a program as a child: how long, how much processor time and memory, how it ended, and
//! what Neap says of it.
//!
//! Invariant: the child leads a process group of its own, and none of that group lives on when the
//! run is over, also not when a signal ends this process. The child's memory is its own: what this
//! process was before it executed the program counts as the child's peak, so this process gives
//! back what it does not need first, and forks; a child made by vfork would count all of it.
//! Called by `compare`.
//!
//! # Safety
//!
//! Calls wait4(2), which rustix does not have, with pointers to places of its own, and
//! malloc_trim(3). What runs between fork and exec makes system calls only; this process has one
//! thread.

#![allow(unsafe_code)]

use crate::Failure;
use crate::run::broken_pipe;
use crate::run::held::Held;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group,
    set_parent_process_death_signal, waitid,
};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// A summary is a few hundred bytes.
const MOST_SUMMARY_BYTES: u64 = 1 << 20;

/// What is known of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Seconds from before it was started until it ended.
    pub wall: f64,
    /// Seconds of all processors, for it and for those of its children that it waited for.
    pub processor: f64,
    /// The largest resident set of any one of these processes, in bytes.
    pub peak_bytes: u64,
    /// Its exit status.
    pub status: i32,
    /// From Neap's summary.
    pub figures: Option<Figures>,
}

/// What Neap says of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    pub cycles: u64,
    pub longest_stop_ms: f64,
}

/// Why a run did not come to its end.
pub enum Stop {
    /// Said to the user.
    Failed(Failure),
    /// This process got a signal that ends it.
    Signal(i32),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

/// How a run ended.
pub enum Ended {
    Status(i32),
    Signal(i32),
    /// It was stopped, since it is not in the terminal's foreground.
    WantsTerminal,
}

/// Runs the program to its end.
pub fn run(mut command: Command, held: &Held) -> Result<(Run, Ended), Stop> {
    let program = command.get_program().to_string_lossy().into_owned();
    let cannot = |error: std::io::Error| Failure::cannot_run(format!("{program}: {error}"));
    command.process_group(0);
    // SAFETY: makes one system call, which is allowed after a fork.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)
        });
    }
    broken_pipe::as_it_was(&mut command);
    held.let_through(&mut command);
    // SAFETY: gives back pages that hold nothing.
    unsafe { libc::malloc_trim(0) };
    let began = Instant::now();
    let child = command.spawn().map_err(cannot)?;
    let id = Pid::from_child(&child);
    let ended = wait(id, held);
    let wall = began.elapsed().as_secs_f64();
    // Not waited for yet, so that the number is still its own. What it left running would run
    // beside the next run. There may be none left, and the program may have left its group.
    let _ = kill_process_group(id, Signal::KILL);
    let _ = kill_process(id, Signal::KILL);
    let usage = reap(id).map_err(cannot)?;
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let run = Run {
        wall,
        processor: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_bytes: usage.ru_maxrss as u64 * 1024,
        ..Run::default()
    };
    Ok((run, ended?))
}

/// Waits until the child has ended, and leaves it to be reaped.
fn wait(id: Pid, held: &Held) -> Result<Ended, Stop> {
    let how = WaitIdOptions::EXITED
        | WaitIdOptions::STOPPED
        | WaitIdOptions::NOHANG
        | WaitIdOptions::NOWAIT;
    loop {
        let status = waitid(WaitId::Pid(id), how)
            .map_err(|error| Failure::usage(format!("waiting for the program: {error}")))?;
        if let Some(ended) = status.and_then(|status| ended(&status)) {
            return Ok(ended);
        }
        if let Some(signal) = held.next() {
            return Err(Stop::Signal(signal));
        }
    }
}

/// None if it goes on.
fn ended(status: &WaitIdStatus) -> Option<Ended> {
    if let Some(status) = status.exit_status() {
        return Some(Ended::Status(status));
    }
    if let Some(signal) = status.terminating_signal() {
        return Some(Ended::Signal(signal));
    }
    let stopped = status.stopping_signal()?;
    [libc::SIGTTIN, libc::SIGTTOU].contains(&stopped).then_some(Ended::WantsTerminal)
}

/// Takes leave of a child that has ended, or was killed.
fn reap(id: Pid) -> std::io::Result<libc::rusage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: the status is not asked for; the usage is a place of ours.
        let reaped = unsafe {
            libc::wait4(id.as_raw_nonzero().get(), std::ptr::null_mut(), 0, usage.as_mut_ptr())
        };
        if reaped >= 0 {
            // SAFETY: zero or written, numbers either way.
            return Ok(unsafe { usage.assume_init() });
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// What the summary at `path` says; None if there is none.
pub fn figures(path: &Path) -> Option<Figures> {
    let bytes = crate::regular_file::read(path, MOST_SUMMARY_BYTES).ok()?;
    let summary: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    Some(Figures {
        cycles: summary["cycles"].as_u64()?,
        longest_stop_ms: summary["pauses_ms"]["max"].as_f64()?,
    })
}

/// A signal as people know it.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        _ => return format!("signal {signal}"),
    };
    format!("{name} (signal {signal})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read_and_anything_else_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary");
        assert_eq!(figures(&path), None);
        for text in ["", "{}", r#"{"cycles":3}"#, "text"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(figures(&path), None, "{text}");
        }
        std::fs::write(&path, r#"{"cycles":3,"pauses_ms":{"count":9,"max":0.25}}"#).unwrap();
        assert_eq!(figures(&path), Some(Figures { cycles: 3, longest_stop_ms: 0.25 }));
    }
}
