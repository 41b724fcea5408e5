//! The collectors that the suite's programs run under, and one run of a program under one of them.
//!
//! Invariant: one binary for all modes; a mode is an option of druntime and variables of the
//! environment. Pure but for `run`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::record::Sample;
use crate::process::{Invocation, Outcome};

/// Without a collector programs would take all memory there is: here druntime may map so much, and
/// collects when that is used up, as it did in 2014.
const ADDRESS_SPACE_BYTES: u64 = 6 << 30;

/// A way to run a program.
#[derive(Debug)]
pub struct Mode {
    /// Short and unique.
    pub id: &'static str,
    /// How tables call it.
    pub name: &'static str,
    /// After `--DRT-gcopt=`.
    options: &'static str,
    /// `NEAP_WATCH`.
    watch: Option<&'static str>,
    /// It runs with a limited address space.
    limited: bool,
}

const fn druntime(id: &'static str, name: &'static str, options: &'static str) -> Mode {
    Mode { id, name, options, watch: None, limited: false }
}

const fn neap(
    id: &'static str,
    name: &'static str,
    options: &'static str,
    watch: &'static str,
) -> Mode {
    Mode { id, name, options, watch: Some(watch), limited: false }
}

/// The reference of all ratios.
pub const PEER: &str = "conservative";
/// What the bars are about.
pub const OURS: &str = "pagemap";
/// All of them, the peer first.
pub const MODES: [Mode; 8] = [
    druntime(PEER, "druntime", "gc:conservative"),
    druntime("precise", "druntime, precise", "gc:precise"),
    druntime("fork", "druntime, fork:1", "gc:conservative fork:1"),
    Mode {
        limited: true,
        ..druntime("disabled", "druntime, disabled", "gc:conservative disable:1")
    },
    neap("stopped", "Neap, world stopped", "gc:neap", "none"),
    neap(OURS, "Neap, pagemap", "gc:neap", "pagemap"),
    neap("neap-fork", "Neap, fork", "gc:neap", "fork"),
    neap("neap-precise", "Neap, precise", "gc:neap-precise", "pagemap"),
];

impl Mode {
    /// Runs a program once.
    pub fn run(&self, root: &Path, program: &str, limit: Duration) -> Result<Sample, String> {
        sample(&self.invocation(root, program).run(limit)?)
    }

    fn invocation(&self, root: &Path, program: &str) -> Invocation {
        let path = root.join("build/bench/d").join(program);
        let options = format!("--DRT-gcopt={} profile:1", self.options);
        let mut environment = BTreeMap::new();
        if let Some(watch) = self.watch {
            environment.insert("NEAP_WATCH".to_owned(), watch.into());
        }
        let (program, arguments) = if self.limited {
            let limit = format!("--as={ADDRESS_SPACE_BYTES}");
            ("prlimit".into(), vec![limit, path.to_string_lossy().into_owned(), options])
        } else {
            (path, vec![options])
        };
        Invocation {
            program,
            arguments,
            environment,
            keep_neap_variables: self.watch.is_some(),
            summary: false,
        }
    }
}

/// What a run gave: the program's own line (seconds of work, its peak in KiB, collections, sum and
/// longest of the pauses and what its threads spent in the collector beside them in ms), time and
/// peak as the kernel saw them.
fn sample(outcome: &Outcome) -> Result<Sample, String> {
    let line = outcome.output.lines().next().unwrap_or_default();
    let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    match numbers.as_deref() {
        Ok([work, _, collections, pauses, longest, beside]) => Ok(Sample {
            seconds: outcome.wall_seconds,
            processor_seconds: outcome.user_seconds + outcome.system_seconds,
            work_seconds: *work,
            peak_mb: outcome.peak_mb,
            collections: *collections,
            pause_ms: *pauses,
            longest_ms: *longest,
            beside_ms: *beside,
        }),
        _ => Err(format!("printed '{line}', which is not the six numbers of report.d")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(output: &str) -> Outcome {
        Outcome {
            wall_seconds: 2.5,
            user_seconds: 2.0,
            system_seconds: 0.5,
            peak_mb: 7.0,
            other_processors: None,
            output: output.to_owned(),
            line: None,
            summary: None,
        }
    }

    #[test]
    fn the_line_of_a_program_is_read() {
        let sample = sample(&outcome("1.5 2048 12 3.25 0.5 0.75\n\tNumber of collections:  13\n"))
            .expect("read");
        assert_eq!((sample.seconds, sample.work_seconds, sample.peak_mb), (2.5, 1.5, 7.0));
        assert_eq!(sample.processor_seconds, 2.5);
        assert_eq!((sample.collections, sample.pause_ms, sample.longest_ms), (12.0, 3.25, 0.5));
        assert_eq!(sample.beside_ms, 0.75);
        assert!(
            super::sample(&outcome("1.5 2048 12")).expect_err("too short").contains("six numbers")
        );
        assert!(super::sample(&outcome("")).is_err());
    }

    #[test]
    fn modes_differ_in_options_and_environment_only() {
        let runs: Vec<Invocation> =
            MODES.iter().map(|mode| mode.invocation(Path::new("/r"), "p")).collect();
        for (index, run) in runs.iter().enumerate() {
            let same = |other: &&Invocation| {
                other.arguments == run.arguments && other.environment == run.environment
            };
            assert_eq!(runs.iter().filter(same).count(), 1, "{}", MODES[index].id);
        }
        assert!(
            runs[3].program.ends_with("prlimit") && runs[3].arguments[1] == "/r/build/bench/d/p"
        );
        assert!(runs[0].environment.is_empty() && !runs[0].keep_neap_variables);
    }
}
