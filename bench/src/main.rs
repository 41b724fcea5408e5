//! `neap-bench`: runs the benchmarks, each against its peer in the same run, and prints the ratios
//! next to the bars they have to reach.
//!
//! The way of a figure: `catalogue` says what is measured (in the terms of `experiment`), `needs`
//! builds programs and finds peers, `contest` runs contestants in turn through `process`, `report`
//! draws rows with `statistics`, `record` keeps them, `table` prints them and `curves` draws what
//! programs saw of themselves. One thread, because anything else we did would be measured too.
//! `suite` is a command of its own, for programs in D. `make bench` calls it; docs/benchmarks.md
//! explains the method.

#![deny(unsafe_code)]

mod catalogue;
mod contest;
mod curves;
mod experiment;
mod grid;
mod machine;
mod needs;
mod process;
mod record;
mod report;
mod statistics;
mod suite;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::catalogue::Size;
use crate::experiment::Experiment;
use crate::machine::Machine;
use crate::record::{ExperimentRecord, Record};

/// Runs Neap's benchmarks, each against its peer in the same run.
#[derive(Parser)]
#[command(name = "neap-bench", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Benchmarks to run: names, or their beginnings (`alloc` is all of alloc-16, alloc-32, …).
    /// Without names all but pauses-4g and the watches
    names: Vec<String>,
    /// Runs of each program; a figure for the record is the median of at least 5
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: Option<u16>,
    /// Small sizes and one run: shows in a few minutes that everything works
    #[arg(long)]
    quick: bool,
    /// List the benchmarks and their bars, run nothing
    #[arg(long)]
    list: bool,
    /// Install peers that are missing (with sudo where you are not root)
    #[arg(long)]
    install: bool,
    /// Print Markdown instead of the table for a terminal
    #[arg(long)]
    markdown: bool,
    /// Put all results of the day into docs/benchmarks.md too
    #[arg(long, conflicts_with_all = ["quick", "library"])]
    update_docs: bool,
    /// Draw the curves of minimum mutator utilisation, where programs tell it, into FILE, as SVG
    #[arg(long, value_name = "FILE")]
    curves: Option<PathBuf>,
    /// Run nothing; print the results in FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "runs", "quick", "list", "install"])]
    from: Option<PathBuf>,
    /// Folder with the libgc.so.1 to measure [default: build/lib/neap]
    #[arg(long, value_name = "DIR")]
    library: Option<PathBuf>,
    /// Seconds after which a single run is stopped and counts as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

#[derive(clap::Subcommand)]
enum Command {
    Suite(suite::Arguments),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("neap-bench: some benchmarks gave no figure; the notes in the table say why");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("neap-bench: {message}");
            ExitCode::from(2)
        }
    }
}

/// Answers whether every row has its figure.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let here = std::env::current_dir()
        .map_err(|error| format!("cannot tell the current folder: {error}"))?;
    let root = find_root(&here)?;
    if let Some(Command::Suite(arguments)) = &arguments.command {
        return suite::run(arguments, &root, &revision(&root));
    }
    let (record, names) = match &arguments.from {
        Some(file) => {
            let record = Record::read(file)?;
            let names =
                record.experiments.iter().map(|experiment| experiment.name.clone()).collect();
            (record, names)
        }
        None => {
            let size = if arguments.quick { Size::Quick } else { Size::Full };
            let clients = needs::timed_clients(&root);
            let chosen =
                catalogue::choose(catalogue::experiments(size, &clients), &arguments.names)?;
            if arguments.list {
                list(&chosen);
                return Ok(true);
            }
            let names: Vec<String> =
                chosen.iter().map(|experiment| experiment.name.clone()).collect();
            (measure(arguments, &root, &chosen)?, names)
        }
    };
    if arguments.update_docs {
        update_document(&root, &record)?;
    }
    // The record may hold more, from earlier today; what was asked for now is shown now.
    let mut shown = record;
    shown.experiments.retain(|experiment| names.contains(&experiment.name));
    if let Some(path) = &arguments.curves {
        curves::draw(&shown, path)?;
    }
    print!("{}", if arguments.markdown { table::markdown(&shown) } else { table::plain(&shown) });
    Ok(shown
        .experiments
        .iter()
        .flat_map(|experiment| &experiment.rows)
        .all(|row| row.is_complete()))
}

/// Runs the chosen experiments. The record is written after each, so that a run broken off leaves
/// what it has.
fn measure(arguments: &Arguments, root: &Path, chosen: &[Experiment]) -> Result<Record, String> {
    let neap = arguments.library.clone().unwrap_or_else(|| root.join("build/lib/neap"));
    if !neap.join("libgc.so.1").exists() {
        return Err(format!(
            "{} has no libgc.so.1: `make build` makes build/lib/neap, --library names another \
             folder",
            neap.display()
        ));
    }
    let neap =
        neap.canonicalize().map_err(|error| format!("cannot find {}: {error}", neap.display()))?;
    let unavailable = needs::prepare(root, chosen, arguments.install)?;
    for reason in unavailable.values() {
        eprintln!("{reason}");
    }
    let runs = usize::from(arguments.runs.unwrap_or(if arguments.quick { 1 } else { 5 }));
    let setting = contest::Setting {
        root: root.to_owned(),
        neap,
        runs,
        limit: Duration::from_secs(arguments.limit),
        unavailable,
    };

    let date = time::OffsetDateTime::now_utc().date().to_string();
    let mut record = Record::new(date, Machine::this(), arguments.quick);
    let path = record.path(root);
    if path.exists() {
        record.experiments = Record::read(&path)?.experiments;
    }
    let revision = revision(root);
    for experiment in chosen {
        let contestants = contest::hold(experiment, &setting, &mut |line| eprintln!("{line}"));
        let rows =
            experiment.figures.iter().map(|figure| report::draw(figure, &contestants)).collect();
        record.put(ExperimentRecord {
            name: experiment.name.clone(),
            revision: revision.clone(),
            neap_variables: neap_variables(),
            contestants,
            rows,
        });
        // What was measured with another library in Neap's place is not Neap's.
        if arguments.library.is_none() {
            record.write(&path)?;
        }
    }
    if arguments.library.is_none() {
        eprintln!("written: {}", path.strip_prefix(root).unwrap_or(&path).display());
    } else {
        eprintln!("not written, because --library names a library that may not be this revision's");
    }
    Ok(record)
}

fn list(chosen: &[Experiment]) {
    for experiment in chosen {
        println!("{}", experiment.name);
        for figure in &experiment.figures {
            let bar = figure
                .bar
                .map(|bar| format!(" ({})", table::bar_text(bar, figure.metric)))
                .unwrap_or_default();
            println!("    {}{bar}", figure.what);
        }
    }
}

fn update_document(root: &Path, record: &Record) -> Result<(), String> {
    let path = root.join("docs/benchmarks.md");
    let complain =
        |error: &dyn std::fmt::Display| format!("cannot update {}: {error}", path.display());
    let document = std::fs::read_to_string(&path).map_err(|error| complain(&error))?;
    let document = table::into_document(&document, record).map_err(|error| complain(&error))?;
    std::fs::write(&path, document).map_err(|error| complain(&error))
}

/// The repository: the nearest folder upwards that holds bench/programs.
fn find_root(start: &Path) -> Result<PathBuf, String> {
    start
        .ancestors()
        .find(|folder| folder.join("bench/programs").is_dir())
        .map(Path::to_owned)
        .ok_or_else(|| {
            format!("{} is not inside Neap's repository; start it there", start.display())
        })
}

/// The commit that is measured, with `+` when tracked files differ from it.
fn revision(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output =
            std::process::Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|list| !list.is_empty());
    if changed { commit + "+" } else { commit }
}

/// Options that whoever started us set for Neap: they reach the programs, so they belong to the
/// figures.
fn neap_variables() -> BTreeMap<String, String> {
    std::env::vars()
        .filter(|(name, _)| name.starts_with("NEAP_") && name != "NEAP_SUMMARY")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
        assert!(Arguments::try_parse_from(["neap-bench", "--runs", "0"]).is_err());
        assert!(Arguments::try_parse_from(["neap-bench", "--from", "x.json", "mark"]).is_err());
        let arguments = Arguments::try_parse_from(["neap-bench", "mark", "alloc", "--runs", "7"])
            .expect("well-formed");
        assert_eq!((arguments.names.len(), arguments.runs, arguments.limit), (2, Some(7), 600));
    }

    #[test]
    fn the_root_is_found_from_below() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(
            find_root(&here.join("programs")).expect("found"),
            here.parent().expect("a parent")
        );
        assert!(find_root(Path::new("/")).expect_err("not there").contains("not inside"));
    }
}
