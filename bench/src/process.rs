//! Runs one program once and measures it: wall time, processor time, peak memory, what it printed,
//! what the library summed up.
//!
//! Output goes to files, not pipes, so a program never waits for us and we never wake up while it
//! is measured. Peak memory is the kernel's `ru_maxrss`, the largest of the program and of the
//! children it waited for. One run at a time, from the main thread.
//!
//! # Safety
//! Three system calls that the standard library lacks: `pidfd_open` and `poll` to wait with a
//! limit, `wait4` for the resource usage of one child. Each gets only the id of a child that we
//! started and have not reaped, and memory of this stack frame.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::machine::busy_seconds;

/// The kernel counts busy time in hundredths of a second on each processor, so in a shorter run
/// others cannot be told from rounding.
const SHORTEST_TO_TELL: f64 = 0.5;

/// What to run, and with which surroundings.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// The program's path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables to set, after those that would choose a library or tune one have been
    /// removed.
    pub environment: BTreeMap<String, OsString>,
    /// Whether `NEAP_*` variables of our own environment reach the program.
    pub keep_neap_variables: bool,
}

/// What one run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Seconds from start to end, as a watch on the wall sees them.
    pub wall_seconds: f64,
    /// Seconds of processor time in the program.
    pub user_seconds: f64,
    /// Seconds of processor time in the kernel on its behalf.
    pub system_seconds: f64,
    /// Peak resident memory in MB (2^20 bytes, as the other tools print it).
    pub peak_mb: f64,
    /// How many processors others kept busy meanwhile, on average; nothing for a run too short to
    /// tell.
    pub other_processors: Option<f64>,
    /// Standard output.
    pub output: String,
    /// The last line of output that is a JSON object, if any.
    pub line: Option<Value>,
    /// What the library wrote to `NEAP_SUMMARY`, if anything.
    pub summary: Option<Value>,
}

impl Invocation {
    /// Runs the program; an exit status other than 0, a signal, or more than `limit` of time is an
    /// error that says which.
    pub fn run(&self, limit: Duration) -> Result<Outcome, String> {
        let folder = tempfile::tempdir()
            .map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let file = |name: &str| folder.path().join(name);
        let create = |name: &str| {
            fs::File::create(file(name))
                .map_err(|error| format!("cannot write a temporary file: {error}"))
        };
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(create("output")?)
            .stderr(create("errors")?);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| self.is_removed(name)) {
                command.env_remove(name);
            }
        }
        command.env("NEAP_SUMMARY", file("summary")).envs(&self.environment);

        let busy_before = busy_seconds();
        let began = Instant::now();
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
        let (status, usage) = wait_for(child, limit)
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        let wall_seconds = began.elapsed().as_secs_f64();
        let busy = busy_seconds().zip(busy_before).map(|(after, before)| after - before);
        let output =
            String::from_utf8_lossy(&fs::read(file("output")).unwrap_or_default()).into_owned();
        if !status.success() {
            let errors =
                String::from_utf8_lossy(&fs::read(file("errors")).unwrap_or_default()).into_owned();
            return Err(format!(
                "{} ended with {status}: {}",
                self.program.display(),
                last_lines(&errors, &output)
            ));
        }
        let (user_seconds, system_seconds) = (seconds(usage.ru_utime), seconds(usage.ru_stime));
        let others = |busy: f64| ((busy - user_seconds - system_seconds) / wall_seconds).max(0.0);
        Ok(Outcome {
            wall_seconds,
            user_seconds,
            system_seconds,
            other_processors: busy.filter(|_| wall_seconds >= SHORTEST_TO_TELL).map(others),
            peak_mb: usage.ru_maxrss as f64 / 1024.0,
            line: last_object(&output),
            output,
            summary: fs::read_to_string(file("summary")).ok().and_then(|text| last_object(&text)),
        })
    }

    /// Variables that would make the two sides differ in more than the library.
    fn is_removed(&self, name: &str) -> bool {
        name == "LD_LIBRARY_PATH"
            || name == "LD_PRELOAD"
            || name.starts_with("GC_")
            || name.starts_with("MIMALLOC_")
            || (name.starts_with("NEAP_") && !self.keep_neap_variables)
    }
}

/// The last line of `text` that is a JSON object, or the whole text when that is one.
fn last_object(text: &str) -> Option<Value> {
    let object = |text: &str| serde_json::from_str(text).ok().filter(Value::is_object);
    text.lines().rev().find_map(object).or_else(|| object(text))
}

/// What to show of a program that failed.
fn last_lines(errors: &str, output: &str) -> String {
    let text = if errors.trim().is_empty() { output } else { errors };
    let lines: Vec<&str> = text.lines().collect();
    match lines.len() {
        0 => "it printed nothing".to_owned(),
        count => lines[count.saturating_sub(5)..].join("\n  "),
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 * 1e-6
}

/// Waits for a child, kills it after `limit`.
fn wait_for(mut child: Child, limit: Duration) -> io::Result<(ExitStatus, libc::rusage)> {
    let process = child.id() as libc::pid_t;
    let mut in_time = true;
    // SAFETY: `process` is our own child, not yet reaped; the call only makes a descriptor.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    if descriptor >= 0 {
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let pidfd = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
        in_time = wait_readable(&pidfd, limit)?;
        if !in_time {
            child.kill()?;
        }
    }
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: `process` is our own child, not yet reaped (`child` is never waited for
        // elsewhere); both pointers are to this frame.
        if unsafe { libc::wait4(process, &mut status, 0, &mut usage) } == process {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    if in_time {
        Ok((ExitStatus::from_raw(status), usage))
    } else {
        let message =
            format!("stopped after {} s, the limit for one run (--limit)", limit.as_secs_f64());
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    }
}

/// Whether the descriptor becomes readable before `limit` has passed.
fn wait_readable(descriptor: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now()).as_millis().min(1 << 30) as i32;
        let mut wanted =
            libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd of this frame, and its length.
        match unsafe { libc::poll(&mut wanted, 1, left) } {
            0 => return Ok(false),
            count if count > 0 => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Invocation {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        Invocation { program: "/bin/sh".into(), arguments, ..Invocation::default() }
    }

    #[test]
    fn finds_the_line_of_json_and_the_summary() {
        let outcome = shell(r#"echo hello; echo '{"ok": true, "n": 3}'; printf '{"cycles":\n 7}\n' > "$NEAP_SUMMARY""#)
            .run(Duration::from_secs(20))
            .expect("runs");
        assert_eq!(outcome.line.expect("a line")["n"], 3);
        assert_eq!(outcome.summary.expect("a summary")["cycles"], 7);
        assert!(outcome.output.starts_with("hello\n"));
        assert!(outcome.peak_mb > 0.1);
    }

    #[test]
    fn counts_processor_time_of_children() {
        let outcome = shell("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'")
            .run(Duration::from_secs(60))
            .expect("runs");
        assert!(outcome.user_seconds > 0.01, "{outcome:?}");
        assert!(outcome.wall_seconds > 0.01, "{outcome:?}");
    }

    #[test]
    fn failure_says_how_and_shows_the_errors() {
        let error = shell("echo seen >&2; exit 3").run(Duration::from_secs(20)).expect_err("fails");
        assert!(error.contains("exit status: 3") && error.contains("seen"), "{error}");
        let error = shell("kill -SEGV $$").run(Duration::from_secs(20)).expect_err("fails");
        assert!(error.contains("signal: 11"), "{error}");
        let missing =
            Invocation { program: "/nonexistent/program".into(), ..Invocation::default() };
        assert!(missing.run(Duration::from_secs(1)).expect_err("fails").contains("cannot start"));
    }

    #[test]
    fn a_program_that_hangs_is_stopped() {
        let began = Instant::now();
        let error = shell("exec sleep 60").run(Duration::from_millis(200)).expect_err("is stopped");
        assert!(error.contains("limit"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn variables_that_choose_or_tune_a_library_are_removed() {
        let plain = Invocation::default();
        for name in
            ["LD_LIBRARY_PATH", "LD_PRELOAD", "GC_MARKERS", "MIMALLOC_VERBOSE", "NEAP_WATCH"]
        {
            assert!(plain.is_removed(name), "{name}");
        }
        assert!(!plain.is_removed("PATH"));
        assert!(!Invocation { keep_neap_variables: true, ..plain }.is_removed("NEAP_WATCH"));
    }

    #[test]
    fn variables_of_the_invocation_are_set() {
        let mut invocation = shell(r#"printf '{"markers": "%s"}\n' "$GC_MARKERS""#);
        invocation.environment.insert("GC_MARKERS".to_owned(), "1".into());
        let outcome = invocation.run(Duration::from_secs(20)).expect("runs");
        assert_eq!(outcome.line.expect("a line")["markers"], "1");
    }
}
