//! `neap run --compare`: runs the program on the libgc that it would load without Neap, and on
//! Neap, some times in turn, and prints a table of both.
//!
//! Invariant: the two differ in their environment only. At most one run is under way; whatever ends
//! this process but SIGKILL, no process of a run and no file of ours is left. What the program
//! prints is kept in files without a name, never in memory. Single-threaded. Called by `run`.

mod input;
mod once;
mod output;
mod table;

use crate::Failure;
use crate::run::held::Held;
use crate::shell::quote;
use input::Input;
use once::{Ended, Run, Stop};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use table::{Same, Verdict};

/// Where the figures of a run on Neap come from; set by us, and so not by the user.
const SUMMARY: &str = "NEAP_SUMMARY";
/// A recording takes time and memory, which would be Neap's in the table.
const STATS: &str = "NEAP_STATS";

/// A program, and what is different for it on either side.
pub struct Compared {
    /// The file to run.
    pub file: PathBuf,
    /// What the user called it, and its arguments.
    pub words: Vec<OsString>,
    /// Variables for Neap's runs.
    pub neap: Vec<(String, OsString)>,
    /// Variables for libgc's runs; None for those that it does not get.
    pub libgc: Vec<(OsString, Option<OsString>)>,
    /// Whether the program loads libgc whatever it does.
    pub needs_libgc: bool,
    /// How often each of the two runs.
    pub rounds: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Libgc,
    Neap,
}

/// Compares; the exit status is 0 if both gave the same output and exit status, else 1.
pub fn run(compared: &Compared) -> Result<u8, Failure> {
    refuse_recordings(&compared.neap)?;
    let input = Input::of_this_process();
    if let Some(reason) = input.refused() {
        eprintln!(
            "neap: standard input is {reason}, which cannot be given to every run: the program \
             gets an empty one. A file can be given: < FILE"
        );
    }
    let held = Held::new();
    match rounds(compared, &input, &held) {
        Ok((text, same)) => {
            // A signal that came last still ends this process without a table.
            drop(held);
            crate::print(&text)?;
            Ok(u8::from(!same))
        }
        Err(Stop::Failed(failure)) => Err(failure),
        Err(Stop::Signal(signal)) => Ok(held.die(signal)),
    }
}

/// Refuses what would make Neap slower than it is, or write where the user has something else.
fn refuse_recordings(variables: &[(String, OsString)]) -> Result<(), Failure> {
    let given = |name: &str| {
        let argument = variables.iter().find(|(variable, _)| variable == name);
        let value = argument.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(name));
        value.is_some_and(|value| !value.is_empty())
    };
    for (name, option, reason) in [
        (STATS, "--stats", "a recording costs time and memory, which would count as Neap's"),
        (SUMMARY, "--summary", "it reads the summaries itself"),
    ] {
        if given(name) {
            return Err(Failure::usage(format!(
                "--compare does not go together with {option} ({name}): {reason}. Leave one of \
                 them out"
            )));
        }
    }
    Ok(())
}

/// All runs; the text to print, and whether both sides were the same.
fn rounds(compared: &Compared, input: &Input, held: &Held) -> Result<(String, bool), Stop> {
    let (mut libgc, mut neap) = (Vec::new(), Vec::new());
    let mut verdict = Verdict::default();
    let mut first = None;
    for round in 1..=compared.rounds {
        for side in [Side::Libgc, Side::Neap] {
            let (run, output) = one(compared, side, round, input, held)?;
            judge(&mut verdict, side, output, &mut first)?;
            if side == Side::Libgc { &mut libgc } else { &mut neap }.push(run);
        }
        let [a, b] = [&libgc, &neap].map(|all| all.last().map_or(0.0, |run| run.wall));
        eprintln!("neap: round {round} of {}: libgc {a:.2} s, Neap {b:.2} s", compared.rounds);
    }
    verdict.statuses(&libgc, &neap);
    let words: Vec<String> =
        compared.words.iter().map(|word| quote(&word.to_string_lossy())).collect();
    let text = table::text(&words.join(" "), &libgc, &neap, &verdict);
    Ok((text, verdict.is_same()))
}

/// One run that ended by itself.
fn one(
    compared: &Compared,
    side: Side,
    round: u32,
    input: &Input,
    held: &Held,
) -> Result<(Run, File), Stop> {
    let failed = |error: std::io::Error| {
        Failure::usage(format!("--compare: no place for what a run prints: {error}"))
    };
    let (name, arguments) = compared.words.split_first().expect("there is a program");
    let folder = tempfile::Builder::new().prefix("neap-compare-").tempdir().map_err(failed)?;
    let summary = folder.path().join("summary");
    let output = tempfile::tempfile().map_err(failed)?;
    let mut command = Command::new(&compared.file);
    command.arg0(name).args(arguments);
    match side {
        Side::Libgc => {
            for (name, value) in &compared.libgc {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
        }
        Side::Neap => {
            command.envs(compared.neap.iter().map(|(name, value)| (name, value)));
            command.env(SUMMARY, &summary);
        }
    }
    command.stdin(input.stdio().map_err(failed)?).stdout(output.try_clone().map_err(failed)?);
    if round > 1 {
        command.stderr(Stdio::null());
    }
    let (mut run, ended) = once::run(command, held)?;
    let shown = name.display();
    let place = format!(
        "on {}, in round {round} of {}",
        if side == Side::Libgc { "libgc" } else { "Neap" },
        compared.rounds
    );
    run.status = match ended {
        Ended::Status(status) => status,
        Ended::Signal(signal) => {
            let signal = once::signal_name(signal);
            return Err(Failure::failed(format!("{shown} was ended by {signal} {place}")).into());
        }
        Ended::WantsTerminal => {
            return Err(Failure::usage(format!(
                "{shown} was stopped {place}: it reads from the terminal or sets it up, and \
                 --compare runs it without one"
            ))
            .into());
        }
    };
    if side == Side::Neap {
        run.figures = once::figures(&summary);
        // A program that needs the library has loaded it, and ended past exit(3).
        if run.figures.is_none() && !compared.needs_libgc {
            return Err(no_summary(&shown.to_string(), run.status).into());
        }
    }
    Ok((run, output))
}

fn no_summary(shown: &str, status: i32) -> Failure {
    Failure::usage(format!(
        "{shown} did not use libgc when it ran on Neap (exit status {status}; no summary was \
         written): there is nothing to compare. Give it arguments with which it does, or the \
         program itself where {shown} only starts it; one that ends by _exit(2) cannot be told \
         from one that does not use libgc"
    ))
}

/// Compares what a run printed with what the first one did.
fn judge(
    verdict: &mut Verdict,
    side: Side,
    output: File,
    first: &mut Option<File>,
) -> Result<(), Failure> {
    let Some(first) = first else {
        *first = Some(output);
        return Ok(());
    };
    let difference = output::difference(first, &output)
        .map_err(|error| Failure::usage(format!("--compare: what a run printed: {error}")))?;
    match (side, difference) {
        (Side::Libgc, Some(_)) => verdict.output = Same::Unsteady,
        (Side::Neap, Some(difference)) if verdict.output == Same::Yes => {
            verdict.output = Same::No(difference);
        }
        _ => {}
    }
    Ok(())
}
