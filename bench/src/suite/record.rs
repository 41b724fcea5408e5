//! What runs of the suite left: one JSON file for a day and kind of machine, beside that of the
//! other benchmarks.
//!
//! Invariant: it holds samples, and every table is drawn from just these. Written by `suite` after
//! each program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::mode::Mode;
use super::{APART, PROGRAMS};
use crate::machine::Machine;
use crate::record::{read_json, write_json};
use crate::statistics::{largest, median};

/// One run.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Sample {
    /// Wall time of the process.
    pub seconds: f64,
    /// Of all processors, in the program and in the kernel on its behalf; older records have none.
    #[serde(default)]
    pub processor_seconds: f64,
    /// Of the wall time what the program itself timed, without making its input.
    pub work_seconds: f64,
    /// Peak resident memory of the process, or of a child that it waited for.
    pub peak_mb: f64,
    /// Collections, without the one at exit.
    pub collections: f64,
    /// All pauses together.
    pub pause_ms: f64,
    /// The longest.
    pub longest_ms: f64,
    /// What the program's threads spent in the collector beside pauses; of druntime's the sweep.
    pub beside_ms: f64,
}

/// A figure of a sample.
pub type Figure = fn(&Sample) -> f64;

/// All samples.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// The day, in UTC.
    pub date: String,
    /// The kind of machine.
    pub machine: Machine,
    /// The revision of the repository that ran last, with `+` when files were changed since.
    pub revision: String,
    /// By program and mode.
    pub samples: BTreeMap<String, BTreeMap<String, Vec<Sample>>>,
}

impl Record {
    /// That of the day, or an empty one.
    pub fn of_day(root: &Path, date: String, machine: Machine) -> Result<Self, String> {
        let empty = Self { date, machine, revision: String::new(), samples: BTreeMap::new() };
        let path = empty.path(root);
        if path.exists() { Self::read(&path) } else { Ok(empty) }
    }

    /// From a file.
    pub fn read(path: &Path) -> Result<Self, String> {
        read_json(path)
    }

    /// Whole or not at all.
    pub fn write(&self, root: &Path) -> Result<(), String> {
        write_json(self, &self.path(root))
    }

    fn path(&self, root: &Path) -> PathBuf {
        root.join("bench/results").join(format!(
            "{}-{}-gcbench.json",
            self.date,
            self.machine.slug()
        ))
    }

    /// Takes in a run.
    pub fn put(&mut self, program: &str, mode: &str, sample: Sample) {
        self.samples
            .entry(program.to_owned())
            .or_default()
            .entry(mode.to_owned())
            .or_default()
            .push(sample);
    }

    /// Drops the runs that are about to be made anew.
    pub fn forget(&mut self, programs: &[&&str], modes: &[&Mode]) {
        for program in programs {
            if let Some(by_mode) = self.samples.get_mut(**program) {
                by_mode.retain(|id, _| !modes.iter().any(|mode| mode.id == id));
            }
        }
    }

    /// The runs of a program in a mode.
    pub fn of(&self, program: &str, mode: &str) -> &[Sample] {
        self.samples.get(program).and_then(|by_mode| by_mode.get(mode)).map_or(&[], Vec::as_slice)
    }

    /// The median of a figure.
    pub fn middle(&self, program: &str, mode: &str, figure: Figure) -> Option<f64> {
        median(&self.of(program, mode).iter().map(figure).collect::<Vec<_>>())
    }

    /// The largest figure of any run of any program.
    pub fn most(&self, mode: &str, figure: Figure) -> Option<f64> {
        let runs = PROGRAMS.iter().flat_map(|program| self.of(program, mode));
        largest(&runs.map(figure).collect::<Vec<_>>())
    }

    /// The medians of all programs but the one apart; nothing if one of them has no figure.
    pub fn middles(&self, mode: &str, figure: Figure) -> Option<Vec<f64>> {
        PROGRAMS
            .iter()
            .filter(|program| **program != APART)
            .map(|program| self.middle(program, mode, figure))
            .collect()
    }

    /// Their sum.
    pub fn sum(&self, mode: &str, figure: Figure) -> Option<f64> {
        Some(self.middles(mode, figure)?.iter().sum())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::suite::mode::MODES;

    /// Every program in every mode: the mode's number times a base, three runs that differ.
    pub fn example() -> Record {
        let machine = Machine {
            processor: "Example".to_owned(),
            cores: 2,
            memory_gib: 1,
            kernel: "6".to_owned(),
            distribution: "D".to_owned(),
        };
        let (date, revision) = ("2026-01-31".to_owned(), "abc".to_owned());
        let mut record = Record { date, machine, revision, samples: BTreeMap::new() };
        for program in PROGRAMS {
            for (index, mode) in MODES.iter().enumerate() {
                for run in 1..=3 {
                    let value = (index + 1) as f64 * f64::from(run);
                    record.put(
                        program,
                        mode.id,
                        Sample {
                            seconds: value,
                            processor_seconds: value * 2.0,
                            work_seconds: value,
                            peak_mb: value * 10.0,
                            collections: 5.0,
                            pause_ms: value,
                            longest_ms: value / 10.0,
                            beside_ms: value / 2.0,
                        },
                    );
                }
            }
        }
        record
    }

    #[test]
    fn sums_are_of_medians_and_leave_one_out() {
        let record = example();
        assert_eq!(record.middle("bulk", MODES[1].id, |sample| sample.seconds), Some(4.0));
        assert_eq!(record.sum(MODES[0].id, |sample| sample.seconds), Some(21.0 * 2.0));
    }

    #[test]
    fn a_program_without_figure_leaves_no_sum() {
        let mut record = example();
        record.forget(&[&"words"], &[&MODES[0]]);
        assert_eq!(record.sum(MODES[0].id, |sample| sample.seconds), None);
        assert!(record.sum(MODES[1].id, |sample| sample.seconds).is_some());
    }

    #[test]
    fn written_and_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = example();
        record.write(folder.path()).expect("written");
        let again = Record::of_day(folder.path(), record.date.clone(), record.machine.clone());
        assert_eq!(again.expect("read"), record);
    }
}
