//! `neap heap`: what a heap snapshot, in a file or of a running process, says of what is alive and
//! why.
//!
//! Invariant: only regular files are read, and none that is larger than [`LARGEST_FILE`]; what is
//! no snapshot is refused with what is wrong. Single-threaded. Called by `main`.

mod ask;

use crate::symbols::Symbols;
use crate::{Failure, regular_file};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use neap_report::heap::graph::Graph;
use neap_report::heap::{Analysis, text};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Larger snapshots are refused: reading one takes several times as much memory.
const LARGEST_FILE: u64 = 4 << 30;

/// The command line.
pub fn command() -> Command {
    let files = Arg::new("files")
        .help(
            "A running process by its number, or a heap snapshot in a file; with --compare the \
             old one and the new one",
        )
        .value_name("PID|FILE")
        .required(true)
        .num_args(1..=2)
        .value_parser(value_parser!(PathBuf));
    let compare = Arg::new("compare")
        .long("compare")
        .help("Print what became more and what less between two snapshots")
        .action(ArgAction::SetTrue);
    let address = Arg::new("address")
        .long("address")
        .value_name("ADDRESS")
        .help("Print what keeps the object at ADDRESS (0x…) alive")
        .conflicts_with("compare")
        .value_parser(address_of);
    let of = Arg::new("of")
        .long("of")
        .value_name("TEXT")
        .help("Print what keeps the largest objects alive whose type or site contains TEXT")
        .conflicts_with_all(["compare", "address"]);
    let rows = Arg::new("rows")
        .long("rows")
        .value_name("N")
        .help("Rows of a table, or objects with their paths")
        .default_value("20")
        .value_parser(value_parser!(u32).range(1..=1_000_000));
    let save = Arg::new("save")
        .long("save")
        .value_name("FILE")
        .help("Keep the snapshot of the process in a new file, for Chrome and for --compare")
        .conflicts_with("compare")
        .value_parser(value_parser!(PathBuf));
    let json = Arg::new("json").long("json").help("Print JSON").action(ArgAction::SetTrue);
    Command::new("heap")
        .about("Say what is alive in a process or a heap snapshot, and what keeps it alive")
        .after_help(
            "A process stands still only while it is copied; a copy of it tells what is alive. It \
             must be yours. A small heap can be asked after its program has collected \
             (neap_collect(), GC_gcollect()), or where that was started with NEAP_VISIBLE=1. \
             neap_heap_snapshot() of neap.h writes a snapshot too, in the format that Chrome's \
             developer tools open. Sites are those of objects that NEAP_SAMPLE followed.",
        )
        .arg(files)
        .args([compare, address, of, rows, save, json])
}

fn address_of(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "not a hexadecimal address".to_owned())
}

/// Runs it; gives what to print.
pub fn run(arguments: &ArgMatches) -> Result<String, Failure> {
    let files: Vec<&PathBuf> = arguments.get_many("files").into_iter().flatten().collect();
    let rows = arguments.get_one::<u32>("rows").map_or(20, |rows| *rows as usize);
    let is_json = arguments.get_flag("json");
    let mut symbols = Symbols::default();
    let save = arguments.get_one::<PathBuf>("save").map(PathBuf::as_path);
    let said = match (arguments.get_flag("compare"), files.as_slice()) {
        (true, [old, new]) => {
            let old = read(old, None, &mut symbols)?;
            let new = read(new, None, &mut symbols)?;
            match is_json {
                true => format!("{:#}\n", text::compare_json(&old, &new)),
                false => text::compare(&old, &new, rows),
            }
        }
        (false, [file]) => {
            let analysis = read(file, save, &mut symbols)?;
            let objects = wanted(arguments, &analysis, rows)?;
            let variable = &mut |module: &_, address| symbols.variable(module, address);
            match (is_json, &objects) {
                (true, _) => {
                    format!("{:#}\n", text::json(&analysis, objects.as_deref(), rows, variable))
                }
                (false, Some(objects)) => text::paths(&analysis, objects, variable),
                (false, None) => text::tables(&analysis, rows),
            }
        }
        (true, _) => return Err(Failure::usage("--compare takes two files: OLD NEW")),
        (false, _) => return Err(Failure::usage("one FILE, or --compare OLD NEW")),
    };
    for problem in &symbols.problems {
        eprintln!("neap: {problem}");
    }
    Ok(said)
}

/// The objects whose paths are asked for.
fn wanted(
    arguments: &ArgMatches,
    analysis: &Analysis,
    rows: usize,
) -> Result<Option<Vec<u32>>, Failure> {
    if let Some(address) = arguments.get_one::<u64>("address") {
        let object = analysis.graph.at(*address);
        let object = object.ok_or_else(|| {
            Failure::usage(format!("no live object at {address:#x} in this snapshot"))
        })?;
        return Ok(Some(vec![object]));
    }
    let Some(title) = arguments.get_one::<String>("of") else { return Ok(None) };
    let found = analysis.largest(Some(title), rows);
    match found.is_empty() {
        true => Err(Failure::usage(format!("no object's type or site contains '{title}'"))),
        false => Ok(Some(found)),
    }
}

/// The process that an argument names: a number, unless there is a file of that name.
fn process(given: &Path) -> Option<u32> {
    let id = given.to_str()?.parse().ok()?;
    (!given.exists()).then_some(id)
}

/// Reads what was given, and keeps it where that is wanted.
fn read(path: &Path, save: Option<&Path>, symbols: &mut Symbols) -> Result<Analysis, Failure> {
    let shown = path.display();
    let bytes = match process(path) {
        Some(id) => ask::snapshot(id, LARGEST_FILE)?,
        None if save.is_some() => {
            return Err(Failure::usage("--save is for the snapshot of a process"));
        }
        None => regular_file::read(path, LARGEST_FILE)
            .map_err(|error| Failure::usage(format!("{shown}: {error}")))?,
    };
    if let Some(name) = save {
        // The contents of a heap are its user's alone.
        let kept = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(name);
        kept.and_then(|mut file| file.write_all(&bytes))
            .map_err(|error| Failure::usage(format!("{}: {error}", name.display())))?;
    }
    let mut graph =
        Graph::read(&bytes).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    drop(bytes);
    graph.name_classes(&mut |module, address| symbols.variable(module, address));
    Ok(Analysis::new(graph, &mut |module, address| symbols.at(module, address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(arguments: &[&str]) -> Result<String, Failure> {
        let words = core::iter::once("heap").chain(arguments.iter().copied());
        run(&command().try_get_matches_from(words).unwrap())
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        let name = file.to_str().unwrap();
        let said = |arguments: &[&str]| heap(arguments).unwrap_err().to_string();
        assert!(said(&[name]).contains("No such file"));
        std::fs::write(&file, "{}").unwrap();
        assert!(said(&[name]).contains("not a heap snapshot"));
        assert!(said(&[name, "--save", name]).contains("of a process"));
        assert!(said(&["4194304"]).contains("there is no process 4194304"));
        assert!(said(&["/dev/zero"]).contains("not a regular file"));
        assert!(said(&[name, name]).contains("--compare"));
        assert!(said(&[name, "--compare"]).contains("two files"));
        assert!(command().try_get_matches_from(["heap", name, "--address", "x"]).is_err());
    }
}
