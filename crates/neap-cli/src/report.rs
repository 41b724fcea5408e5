//! `neap report`: what a recording says, in the form that is asked for.
//!
//! Invariant: a file that is no recording is refused with what to do; one that ends early is
//! reported up to there. Only regular files are read, and none that is larger than
//! [`LARGEST_FILE`]. Single-threaded. Called by `main`.

use crate::symbols::Symbols;
use crate::{Failure, regular_file};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use neap_record::Recording;
use neap_report::{compare, csv, json, page, sites, text};
use std::path::{Path, PathBuf};

/// A recording of weeks has fewer bytes. Larger: what is no recording takes more memory before it
/// is refused.
const LARGEST_FILE: u64 = 4 << 30;

/// The command line.
pub fn command() -> Command {
    let files = Arg::new("files")
        .help("A recording; or two, to compare them")
        .value_name("FILE")
        .required(true)
        .num_args(1..=2)
        .value_parser(value_parser!(PathBuf));
    let html = Arg::new("html")
        .long("html")
        .value_name("OUT")
        .help("Write a page with plots to OUT; it needs no other file and no network")
        .value_parser(value_parser!(PathBuf));
    let json = Arg::new("json").long("json").help("Print JSON").action(ArgAction::SetTrue);
    let csv = Arg::new("csv")
        .long("csv")
        .value_name("TABLE")
        .help("Print a table as comma-separated values")
        .value_parser(["requests", "cycles", "stops"])
        .num_args(0..=1)
        .default_missing_value("requests");
    Command::new("report")
        .about("Say what a program asked of its memory and what cycles did")
        .after_help(
            "`neap run --stats=FILE -- PROGRAM` or NEAP_STATS=FILE makes a recording. Names and units \
             of the figures are in docs/events.md.",
        )
        .arg(files)
        .args([html, json, csv])
        .group(ArgGroup::new("form").args(["html", "json", "csv"]))
}

/// Runs it; gives what to print.
pub fn run(arguments: &ArgMatches) -> Result<String, Failure> {
    let files: Vec<&PathBuf> = arguments.get_many("files").into_iter().flatten().collect();
    let table = arguments.get_one::<String>("csv");
    let page = arguments.get_one::<PathBuf>("html");
    let first = files.first().ok_or_else(|| Failure::usage("no FILE to report on"))?;
    let recording = read(first)?;
    if let Some(second) = files.get(1) {
        let other = read(second)?;
        let names = (first.display().to_string(), second.display().to_string());
        let (a, b) = ((names.0.as_str(), &recording), (names.1.as_str(), &other));
        return match (arguments.get_flag("json"), page, table) {
            (true, ..) => Ok(format!("{:#}\n", compare::json(a, b))),
            (_, None, None) => Ok(compare::text(a, b)),
            _ => Err(Failure::usage(
                "--html and --csv are of one recording; compare two as text or with --json",
            )),
        };
    }
    let mut symbols = Symbols::default();
    let sites = sites::sites(&recording, &mut |module, address| symbols.at(module, address));
    for problem in &symbols.problems {
        eprintln!("neap: {problem}");
    }
    if let Some(out) = page {
        is_not_the_recording(out, first)?;
        let page = page::html(&recording, &sites);
        regular_file::write(out, |file| file.write_all(page.as_bytes()))
            .map_err(|error| Failure::usage(format!("{}: {error}", out.display())))?;
        return Ok(format!("wrote {}\n", out.display()));
    }
    Ok(match table.map(String::as_str) {
        Some("cycles") => csv::cycles(&recording),
        Some("stops") => csv::stops(&recording),
        Some(_) => csv::requests(&recording),
        None if arguments.get_flag("json") => format!("{:#}\n", json::json(&recording, &sites)),
        None => text::text(&recording, &sites),
    })
}

/// Refuses to write to the file that is read.
pub fn is_not_the_recording(out: &Path, recording: &Path) -> Result<(), Failure> {
    match regular_file::are_same(out, recording) {
        true => Err(Failure::usage(format!(
            "{}: this is the recording itself; choose another name",
            out.display()
        ))),
        false => Ok(()),
    }
}

/// The recording in a file.
pub fn read(path: &Path) -> Result<Recording, Failure> {
    let shown = path.display();
    let bytes = regular_file::read(path, LARGEST_FILE)
        .map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    Recording::read(&bytes).map_err(|error| Failure::usage(format!("{shown}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(arguments: &[&str]) -> Result<String, Failure> {
        let words = core::iter::once("report").chain(arguments.iter().copied());
        run(&command().try_get_matches_from(words).unwrap())
    }

    #[test]
    fn what_is_no_recording_is_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        let name = file.to_str().unwrap();
        assert!(report(&[name]).unwrap_err().to_string().contains("No such file"));
        for other in ["/dev/zero", folder.path().to_str().unwrap()] {
            let said = report(&[other]).unwrap_err().to_string();
            assert!(said.contains("not a regular file"), "{said}");
        }
        std::fs::write(&file, "{}").unwrap();
        assert!(report(&[name]).unwrap_err().to_string().contains("NEAP_STATS=FILE"));
        std::fs::write(&file, neap_record::MAGIC).unwrap();
        assert!(report(&[name]).unwrap().contains("did not end in order"));
        assert!(report(&[name, name]).unwrap().contains("B / A"));
        assert!(report(&[name, name, "--csv"]).is_err());
        let said = report(&[name, "--html", name]).unwrap_err().to_string();
        assert!(said.contains("is the recording itself"), "{said}");
        assert!(report(&[name, "--csv", "cycles"]).unwrap().starts_with("number,"));
        assert!(report(&[name, "--json"]).unwrap().contains("\"requested\""));
    }
}
