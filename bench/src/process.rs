//! Runs one program once and measures it: wall time, processor time, peak memory, what it printed,
//! what the library summed up.
//!
//! The program is started by another one, `programs/start.c`, since ours is larger than many that
//! are measured and the kernel would count that as their peak; it measures, and ends a program that
//! takes too long. Output goes to files, not pipes, so a program never waits for us and we never
//! wake up while it is measured. Peak memory is the kernel's `ru_maxrss`, the largest of the
//! program and of the children it waited for. One run at a time, from the main thread.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::machine::busy_seconds;

/// What starts and measures the program.
const START: &str = concat!(env!("OUT_DIR"), "/start");

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
    /// Whether the library is asked for a summary, which takes time and memory.
    pub summary: bool,
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

/// What the kernel and the watch on the wall say of a program.
struct Measured {
    status: ExitStatus,
    wall_seconds: f64,
    user_seconds: f64,
    system_seconds: f64,
    peak_mb: f64,
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
        let milliseconds = limit.as_millis().min(1 << 30).to_string();
        let mut command = Command::new(START);
        command
            .arg(file("report"))
            .arg(milliseconds)
            .arg(std::process::id().to_string())
            .arg(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(create("output")?)
            .stderr(create("errors")?);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| self.is_removed(name)) {
                command.env_remove(name);
            }
        }
        if self.summary {
            command.env("NEAP_SUMMARY", file("summary"));
        }
        command.envs(&self.environment);

        let busy_before = busy_seconds();
        let ended = command.status().map_err(|error| format!("cannot start {START}: {error}"))?;
        let busy = busy_seconds().zip(busy_before).map(|(after, before)| after - before);
        let report = fs::read_to_string(file("report")).unwrap_or_default();
        let Measured { status, wall_seconds, user_seconds, system_seconds, peak_mb } =
            self.measured(&report, ended, limit)?;
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
        let others = |busy: f64| ((busy - user_seconds - system_seconds) / wall_seconds).max(0.0);
        Ok(Outcome {
            wall_seconds,
            user_seconds,
            system_seconds,
            other_processors: busy.filter(|_| wall_seconds >= SHORTEST_TO_TELL).map(others),
            peak_mb,
            line: last_object(&output),
            output,
            summary: fs::read_to_string(file("summary")).ok().and_then(|text| last_object(&text)),
        })
    }

    /// What the program's starter reported before it `ended`.
    fn measured(
        &self,
        report: &str,
        ended: ExitStatus,
        limit: Duration,
    ) -> Result<Measured, String> {
        let program = self.program.display();
        let mut words = report.split_whitespace();
        let how = words.next().unwrap_or_default();
        let numbers: Vec<i64> = words.filter_map(|word| word.parse().ok()).collect();
        match (how, numbers.as_slice()) {
            ("ended", &[status, wall, user, system, peak]) => Ok(Measured {
                status: ExitStatus::from_raw(status as i32),
                wall_seconds: wall as f64 * 1e-9,
                user_seconds: user as f64 * 1e-6,
                system_seconds: system as f64 * 1e-6,
                peak_mb: peak as f64 / 1024.0,
            }),
            ("late", _) => {
                let seconds = limit.as_secs_f64();
                Err(format!(
                    "{program}: stopped after {seconds} s, the limit for one run (--limit)"
                ))
            }
            ("cannot", &[error]) => {
                let error = io::Error::from_raw_os_error(error as i32);
                Err(format!("cannot start {program}: {error}"))
            }
            _ => Err(format!("{program}: what started it ended with {ended} and no report")),
        }
    }

    /// Variables that would make the two sides differ in more than the library.
    fn is_removed(&self, name: &str) -> bool {
        name == "LD_LIBRARY_PATH"
            || name == "LD_PRELOAD"
            || name == "NEAP_SUMMARY"
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shell(script: &str) -> Invocation {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        Invocation { program: "/bin/sh".into(), arguments, summary: true, ..Invocation::default() }
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
    fn a_summary_is_asked_for_or_not() {
        let mut invocation = shell(r#"printf '{"summary": "%s"}\n' "$NEAP_SUMMARY""#);
        let asked = |invocation: &Invocation| {
            let outcome = invocation.run(Duration::from_secs(20)).expect("runs");
            outcome.line.expect("a line")["summary"] != ""
        };
        assert!(asked(&invocation));
        invocation.summary = false;
        assert!(!asked(&invocation));
        assert!(Invocation { keep_neap_variables: true, ..invocation }.is_removed("NEAP_SUMMARY"));
    }

    #[test]
    fn peak_memory_is_the_program_s_own() {
        let ours = vec![1_u8; 32 << 20];
        let outcome = Invocation { program: "true".into(), ..Invocation::default() }
            .run(Duration::from_secs(20))
            .expect("runs");
        assert!(outcome.peak_mb > 0.1 && outcome.peak_mb < 3.0, "{outcome:?}");
        assert_eq!(std::hint::black_box(ours).len(), 32 << 20);
    }

    #[test]
    fn nothing_of_a_program_outlives_its_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let numbers = folder.path().join("numbers");
        let script =
            |end: &str| shell(&format!("sleep 60 & echo $! $$ > '{}'; {end}", numbers.display()));
        let are_gone = || {
            let text = fs::read_to_string(&numbers).expect("written");
            let is_gone = |number: &str| {
                let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
                stat.is_empty() || stat.contains(") Z ")
            };
            (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(50));
                text.split_whitespace().all(is_gone)
            })
        };
        script("exit 0").run(Duration::from_secs(20)).expect("runs");
        assert!(are_gone(), "after its end");
        script("wait").run(Duration::from_millis(500)).expect_err("is stopped");
        assert!(are_gone(), "after the limit");
        // A runner that is killed: the starter hears of it.
        let (start, report) = (START, folder.path().join("report"));
        let inner = format!("sleep 60 & echo $! $$ > '{}'; wait", numbers.display());
        let _ = fs::remove_file(&numbers);
        let mut runner = Command::new("sh")
            .args(["-c", r#""$0" "$1" 60000 $$ sh -c "$2"; exit"#, start])
            .arg(report)
            .arg(inner)
            .spawn()
            .expect("starts");
        while !fs::read_to_string(&numbers).is_ok_and(|text| text.ends_with('\n')) {
            std::thread::sleep(Duration::from_millis(20));
        }
        runner.kill().expect("killed");
        runner.wait().expect("reaped");
        assert!(are_gone(), "after its runner");
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
