//! `rust-tests`: every Rust test of the workspace, each in a process of its own, as test results.
//!
//! A process has one collected heap, so a test that uses it can share a process with no other.
//! Invariant: a test that does not say that it passed has failed: also one that dies or never ends.
//! One that prints a line `# SKIP REASON` could not run and has not passed either. Called by
//! `main`; runs as many tests at once as there are processors.

use crate::tree::Tree;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// So many of the slowest tests are named at the end, if they took at least this long.
const SHOWN_SLOW: usize = 10;
const SLOW: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Args)]
pub struct Arguments {
    /// Seconds that one test may take.
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Tests run at once. 0: as many as there are processors.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Only tests whose `CRATE::TEST` name contains this.
    #[arg(long, default_value = "")]
    filter: String,
    /// Tests whose name contains this are not run, and shown as skipped. May be given more than
    /// once.
    #[arg(long)]
    skip: Vec<String>,
    /// Passed on to `cargo test`: packages, features, target.
    #[arg(last = true)]
    cargo: Vec<String>,
}

/// One test: the program it is in, and its name there.
struct Test {
    program: PathBuf,
    folder: PathBuf,
    shown: String,
    name: String,
}

/// Builds and runs the tests; whether all passed, and there were any.
pub fn run(tree: &Tree, arguments: &Arguments) -> bool {
    let tests = match build(tree, arguments) {
        Ok(tests) => tests,
        Err(error) => {
            eprintln!("{error}");
            println!("not ok - rust tests can be built");
            return false;
        }
    };
    let failed = run_all(&tests, arguments);
    !tests.is_empty() && failed == 0
}

fn run_all(tests: &[Test], arguments: &Arguments) -> usize {
    let jobs = match arguments.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let limit = Duration::from_secs(arguments.timeout);
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let times: Mutex<Vec<(Duration, &str)>> = Mutex::new(Vec::new());
    let work = || {
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            if arguments.skip.iter().any(|part| test.shown.contains(part)) {
                println!("ok - {} # SKIP as --skip says", test.shown);
                continue;
            }
            let start = Instant::now();
            let result = run_one(test, limit);
            // The lock also keeps what one test says together.
            let Ok(mut times) = times.lock() else { return };
            times.push((start.elapsed(), &test.shown));
            match result {
                Ok(None) => println!("ok - {}", test.shown),
                Ok(Some(reason)) => println!("ok - {} # SKIP {reason}", test.shown),
                Err(log) => {
                    failed.fetch_add(1, Ordering::Relaxed);
                    log.lines().for_each(|line| println!("# {line}"));
                    println!("not ok - {}", test.shown);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        (0..jobs).for_each(|_| {
            scope.spawn(work);
        });
    });
    say_slowest(times.into_inner().unwrap_or_default());
    failed.into_inner()
}

/// Names the tests that took longest.
fn say_slowest(mut times: Vec<(Duration, &str)>) {
    times.sort_unstable_by(|left, right| right.cmp(left));
    for (time, name) in times.iter().take(SHOWN_SLOW).filter(|(time, _)| *time >= SLOW) {
        println!("# {:.1} s: {name}", time.as_secs_f64());
    }
}

/// Runs one test. Nothing if it passed, why if it could not run; an error is what it printed and
/// how it ended.
fn run_one(test: &Test, limit: Duration) -> Result<Option<String>, String> {
    let mut command = Command::new(&test.program);
    let arguments = ["--exact", &test.name, "--test-threads=1", "--show-output"];
    command.args(arguments).current_dir(&test.folder);
    // In a process group of its own, so that what a test leaves running can be ended with it.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let (status, output) = std::thread::scope(|scope| {
        let out = scope.spawn(move || read(&mut out));
        let err = scope.spawn(move || read(&mut err));
        let status = wait(&mut child, limit);
        (status, out.join().unwrap_or_default() + &err.join().unwrap_or_default())
    });
    match status {
        Some(status) if status.success() && output.contains("test result: ok. 1 passed") => {
            Ok(output.lines().find_map(|line| line.strip_prefix("# SKIP ")).map(str::to_owned))
        }
        Some(status) => Err(format!("{output}\n{}", ending(status))),
        None => Err(format!("{output}\nstill running after {} s: ended", limit.as_secs())),
    }
}

fn read(stream: &mut Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let _ = stream.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How the child ended; `None` if it had to be ended.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < limit => std::thread::sleep(pause),
            _ => break None,
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    // The whole group: a grandchild with our pipes open would keep us waiting for their end.
    // An error means that there is no one left.
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    if status.is_none() {
        let _ = child.wait();
    }
    status
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, signal) => format!("killed by signal {}", signal.unwrap_or_default()),
    }
}

/// Builds the test programs and asks each for its tests.
fn build(tree: &Tree, arguments: &Arguments) -> Result<Vec<Test>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    let packages = if arguments.cargo.is_empty() {
        vec!["--workspace".into()]
    } else {
        arguments.cargo.clone()
    };
    command.args(packages).current_dir(tree.locate("")).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("cargo test --no-run failed".into());
    }
    let mut tests = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let (Some(program), true) =
            (message["executable"].as_str(), message["profile"]["test"] == true)
        else {
            continue;
        };
        let target = message["target"]["name"].as_str().unwrap_or_default();
        let manifest = PathBuf::from(message["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().map(PathBuf::from).unwrap_or_default();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_library = package.replace('-', "_") == target;
        let prefix = if is_library { package } else { format!("{package}/{target}") };
        for name in list(&PathBuf::from(program), &folder)? {
            let shown = format!("{prefix}::{name}");
            if shown.contains(&arguments.filter) {
                tests.push(Test { program: program.into(), folder: folder.clone(), shown, name });
            }
        }
    }
    Ok(tests)
}

/// The names of the tests in a program, without those that are ignored.
fn list(program: &PathBuf, folder: &PathBuf) -> Result<Vec<String>, String> {
    let ask = |more: &[&str]| -> Result<Vec<String>, String> {
        let mut command = Command::new(program);
        command.args(["--list", "--format=terse"]).args(more).current_dir(folder);
        let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
        if !output.status.success() {
            return Err(format!("{} --list: {}", program.display(), ending(output.status)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    };
    let ignored = ask(&["--ignored"])?;
    Ok(ask(&[])?.into_iter().filter(|name| !ignored.contains(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 'test program' that is a shell: `--exact` becomes `$0` and the script comes as the name.
    fn shell(script: &str, seconds: u64) -> Result<Option<String>, String> {
        let folder = tempfile::TempDir::new().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let test =
            Test { program, folder: folder.path().into(), shown: String::new(), name: "t".into() };
        run_one(&test, Duration::from_secs(seconds))
    }

    #[test]
    fn only_a_test_that_says_it_passed_has_passed() {
        assert_eq!(shell("echo 'test result: ok. 1 passed; 0 failed'", 60), Ok(None));
        assert!(shell("echo 'test result: ok. 0 passed; 0 failed'", 60).is_err());
        assert!(shell("true", 60).unwrap_err().ends_with("exit status 0"));
        assert!(shell("echo boom >&2; exit 3", 60).unwrap_err().contains("boom\n\nexit status 3"));
        let passed_then_died = "echo 'test result: ok. 1 passed'; kill -SEGV $$";
        assert!(shell(passed_then_died, 60).unwrap_err().ends_with("killed by signal 11"));
    }

    #[test]
    fn a_test_that_could_not_run_says_why_and_still_has_to_end_well() {
        let said = "echo '# SKIP no such device'";
        let passed = "echo 'test result: ok. 1 passed'";
        assert_eq!(shell(&format!("{said}; {passed}"), 60), Ok(Some("no such device".into())));
        assert!(shell(said, 60).is_err());
        assert_eq!(shell(&format!("echo 'a # SKIP b'; {passed}"), 60), Ok(None));
    }

    #[test]
    fn a_test_that_hangs_is_ended_with_its_children() {
        let start = Instant::now();
        let log = shell("sleep 600 & echo begun; sleep 600", 1).unwrap_err();
        assert!(log.contains("begun") && log.ends_with("still running after 1 s: ended"), "{log}");
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
