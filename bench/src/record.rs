//! What a run of the benchmarks leaves behind: one JSON file for a day and kind of machine, every
//! sample in it.
//!
//! Invariant: a record holds the samples, and rows drawn from just these; reading a file back and
//! printing it gives the same table. A second run on the same day replaces the experiments it ran
//! and keeps the others. Written by `main` after each experiment.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::experiment::{Bar, Library, Metric};
use crate::machine::Machine;

/// The numbers of one run, by name; nested fields are joined by a dot.
pub type Sample = BTreeMap<String, f64>;

/// Everything measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// The day, in UTC.
    pub date: String,
    /// The kind of machine.
    pub machine: Machine,
    /// Small sizes, one run: shows that everything works and nothing else.
    pub quick: bool,
    /// The experiments, in the order in which they were first run.
    pub experiments: Vec<ExperimentRecord>,
}

/// One experiment.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ExperimentRecord {
    /// Its name on the command line.
    pub name: String,
    /// The revision of the repository, with `+` when files were changed since.
    pub revision: String,
    /// `NEAP_*` variables that were set by whoever ran it.
    pub neap_variables: BTreeMap<String, String>,
    /// Who ran.
    pub contestants: Vec<ContestantRecord>,
    /// What came out.
    pub rows: Vec<Row>,
}

/// All runs of one contestant.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ContestantRecord {
    /// Its label within the experiment.
    pub label: String,
    /// The library it ran on.
    pub library: Library,
    /// That library's version, where the program says it.
    pub version: Option<String>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables set for it alone.
    pub environment: BTreeMap<String, String>,
    /// One for each run; one in which Neap was only asked for a summary holds nothing else.
    pub samples: Vec<Sample>,
    /// Why there are no (more) samples.
    pub failure: Option<String>,
}

/// One row of the table.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// What is compared.
    pub what: String,
    /// The quantity.
    pub metric: Metric,
    /// The peer's name.
    pub peer_name: Option<String>,
    /// The peer's median.
    pub peer: Option<f64>,
    /// Our median.
    pub ours: Option<f64>,
    /// Ours by the peer's.
    pub ratio: Option<f64>,
    /// The larger of both sides' spreads (largest less smallest by median).
    pub spread: Option<f64>,
    /// Runs behind the smaller of both medians.
    pub runs: usize,
    /// What it has to be.
    pub bar: Option<Bar>,
    /// Whether it is; nothing when there is no bar or something is missing.
    pub met: Option<bool>,
    /// Why something is missing, or which of several it is.
    pub note: Option<String>,
}

impl Row {
    /// Whether everything that was to be compared could be.
    pub fn is_complete(&self) -> bool {
        self.ratio.is_some() || (self.peer_name.is_none() && self.ours.is_some())
    }
}

impl Record {
    /// An empty one.
    pub fn new(date: String, machine: Machine, quick: bool) -> Self {
        Self { date, machine, quick, experiments: Vec::new() }
    }

    /// Reads a file that `write` wrote.
    pub fn read(path: &Path) -> Result<Self, String> {
        read_json(path)
    }

    /// Where it belongs: results that count under bench/results, quick ones with the things that
    /// were built.
    pub fn path(&self, root: &Path) -> PathBuf {
        let folder = if self.quick { "build/bench/results" } else { "bench/results" };
        root.join(folder).join(format!("{}-{}.json", self.date, self.machine.slug()))
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        write_json(self, path)
    }

    /// Adds an experiment, in the place of an earlier one of that name.
    pub fn put(&mut self, experiment: ExperimentRecord) {
        match self.experiments.iter_mut().find(|earlier| earlier.name == experiment.name) {
            Some(earlier) => *earlier = experiment,
            None => self.experiments.push(experiment),
        }
    }
}

/// Reads a file of results.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{} is not a file of benchmark results: {error}", path.display()))
}

/// Writes a file of results, whole or not at all.
pub fn write_json(value: &impl Serialize, path: &Path) -> Result<(), String> {
    let complain =
        |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| complain(&error))?;
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(|error| complain(&error))?;
    let text = serde_json::to_string_pretty(value).map_err(|error| complain(&error))?;
    writeln!(file, "{text}").map_err(|error| complain(&error))?;
    file.persist(path).map_err(|error| complain(&error))?;
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A small record for tests of what reads one.
    pub fn example() -> Record {
        let machine = Machine {
            processor: "Example 1".to_owned(),
            cores: 2,
            memory_gib: 8,
            kernel: "6.7.0".to_owned(),
            distribution: "Example".to_owned(),
        };
        let sample = |wall: f64| {
            let numbers = [
                ("wall_seconds", wall),
                ("peak_mb", 10.0),
                ("longest_pause_ms", 0.25),
                ("other_processors", 0.01),
            ];
            numbers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        let row = |what: &str, ratio: Option<f64>, bar, met| Row {
            what: what.to_owned(),
            metric: Metric::WallSeconds,
            peer_name: Some("libgc 8.2.2".to_owned()),
            peer: Some(7.6),
            ours: ratio.map(|ratio| ratio * 7.6),
            ratio,
            spread: ratio.map(|_| 0.031),
            runs: 5,
            bar,
            met,
            note: ratio.is_none().then(|| "it crashed".to_owned()),
        };
        let mut record = Record::new("2026-01-31".to_owned(), machine, false);
        record.put(ExperimentRecord {
            name: "one".to_owned(),
            revision: "0123abc".to_owned(),
            neap_variables: BTreeMap::new(),
            contestants: vec![ContestantRecord {
                label: "neap".to_owned(),
                library: Library::Neap,
                version: Some("0.1.0".to_owned()),
                command: vec!["one".to_owned()],
                environment: BTreeMap::new(),
                samples: [3.0, 1.0, 2.0].map(sample).into(),
                failure: None,
            }],
            rows: vec![
                row("first: wall time", Some(0.5), Some(Bar::AtMost(0.45)), Some(false)),
                row("second: wall time", Some(0.25), Some(Bar::AtMost(0.45)), Some(true)),
                row("third: wall time", None, Some(Bar::AtMost(0.45)), None),
            ],
        });
        record
    }

    #[test]
    fn a_record_survives_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = example().path(folder.path());
        assert!(
            path.ends_with("bench/results/2026-01-31-example-1-2-cores.json"),
            "{}",
            path.display()
        );
        example().write(&path).expect("written");
        assert_eq!(Record::read(&path).expect("read"), example());
    }

    #[test]
    fn a_second_run_replaces_only_its_own_experiments() {
        let mut record = example();
        let mut again = record.experiments[0].clone();
        again.rows.clear();
        record.put(again.clone());
        assert_eq!(record.experiments, [again.clone()]);
        again.name = "two".to_owned();
        record.put(again);
        assert_eq!(record.experiments.len(), 2);
    }

    #[test]
    fn a_row_needs_what_it_compares() {
        let mut row = example().experiments[0].rows[2].clone();
        row.ours = Some(1.0);
        assert!(!row.is_complete(), "its peer has no figure");
        row.peer_name = None;
        assert!(row.is_complete(), "it has no peer");
        row.ours = None;
        assert!(!row.is_complete());
        row.ratio = Some(1.0);
        assert!(row.is_complete(), "it is a mean of ratios");
    }

    #[test]
    fn quick_results_stay_out_of_the_repository() {
        let mut record = example();
        record.quick = true;
        assert!(record.path(Path::new("/r")).starts_with("/r/build"));
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.json");
        fs::write(&path, "{}").expect("written");
        assert!(
            Record::read(&path).expect_err("refused").contains("not a file of benchmark results")
        );
        assert!(
            Record::read(&folder.path().join("none")).expect_err("refused").contains("cannot read")
        );
    }
}
