//! `neap-bench suite`: the programs of bench/gcbench, which do the work of the D runtime's
//! benchmark suite, under druntime's collectors and under Neap.
//!
//! Invariant: modes run in turn, program by program, and a figure is the median of its runs; a
//! program whose result is wrong gives no figure. The way of a figure: `mode` runs a program,
//! `record` keeps samples, `table` and `plot` show them. Called by `main`, on its one thread.

pub mod mode;
pub mod plot;
pub mod record;
pub mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine::Machine;
use crate::needs;
use mode::{MODES, Mode};
use record::Record;

/// The suite's programs; `tree2` is counted apart, as its author did.
pub const PROGRAMS: [&str; 22] = [
    "bulk",
    "resize",
    "string",
    "conalloc",
    "conappend",
    "conmsg",
    "concpu",
    "dlist",
    "huge_single",
    "rand_large",
    "rand_small",
    "slist",
    "testgc3",
    "tree1",
    "words",
    "parser",
    "aa_bigint",
    "aa_objects",
    "aa_pointers",
    "aa_stomp",
    "aa_cache",
    "tree2",
];
/// Not in any sum.
pub const APART: &str = "tree2";

/// The D runtime's benchmark suite under druntime's collectors and Neap: time, memory, pauses.
#[derive(clap::Args)]
pub struct Arguments {
    /// Programs to run; all without names
    programs: Vec<String>,
    /// Modes to run (see --list); all without
    #[arg(long, value_name = "MODE", value_delimiter = ',')]
    modes: Vec<String>,
    /// Runs of each program in each mode; a figure for the record is the median of at least 5
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Add to the runs of the day instead of replacing them
    #[arg(long)]
    add: bool,
    /// Print Markdown instead of tables for a terminal
    #[arg(long)]
    markdown: bool,
    /// Draw the plot into FOLDER, as gcbench.svg and gcbench.png
    #[arg(long, value_name = "FOLDER")]
    plot: Option<PathBuf>,
    /// Put tables and plot into docs/d.md and docs/images too
    #[arg(long)]
    update_docs: bool,
    /// Run nothing; show the results in FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["programs", "modes", "runs", "add", "list"])]
    from: Option<PathBuf>,
    /// List programs and modes, run nothing
    #[arg(long)]
    list: bool,
    /// Seconds after which a single run is stopped and counts as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

/// Runs it; whether every program gave a figure in every mode that was asked for.
pub fn run(arguments: &Arguments, root: &Path, revision: &str) -> Result<bool, String> {
    if arguments.list {
        println!("programs: {}", PROGRAMS.join(" "));
        MODES.iter().for_each(|mode| println!("mode {:<18} {}", mode.id, mode.name));
        return Ok(true);
    }
    let (record, failed) = match &arguments.from {
        Some(file) => (Record::read(file)?, 0),
        None => measure(arguments, root, revision)?,
    };
    let published = table::Published::read(root)?;
    if arguments.update_docs {
        let path = root.join("docs/d.md");
        let complain =
            |error: &dyn std::fmt::Display| format!("cannot update {}: {error}", path.display());
        let document = std::fs::read_to_string(&path).map_err(|error| complain(&error))?;
        let document =
            crate::table::between_marks(&document, &table::markdown(&record, &published))
                .map_err(|error| complain(&error))?;
        std::fs::write(&path, document).map_err(|error| complain(&error))?;
        plot::draw(&record, &root.join("docs/images"))?;
    }
    if let Some(folder) = &arguments.plot {
        plot::draw(&record, folder)?;
    }
    let text = if arguments.markdown {
        table::markdown(&record, &published)
    } else {
        table::plain(&record, &published)
    };
    print!("{text}");
    Ok(failed == 0)
}

fn measure(arguments: &Arguments, root: &Path, revision: &str) -> Result<(Record, usize), String> {
    let programs = chosen(&PROGRAMS, &arguments.programs, |program| program)?;
    let modes: Vec<&Mode> = chosen(&MODES, &arguments.modes, |mode| mode.id)?;
    needs::d_programs(root)?;
    let date = time::OffsetDateTime::now_utc().date().to_string();
    let mut record = Record::of_day(root, date, Machine::this())?;
    record.revision = revision.to_owned();
    if !arguments.add {
        record.forget(&programs, &modes);
    }
    let limit = Duration::from_secs(arguments.limit);
    let mut failed = 0;
    for program in programs {
        let mut running = modes.clone();
        for _ in 0..arguments.runs {
            running.retain(|mode| match mode.run(root, program, limit) {
                Ok(sample) => {
                    record.put(program, mode.id, sample);
                    true
                }
                Err(message) => {
                    // What failed once has no figure.
                    eprintln!("{program}, {}: {message}", mode.name);
                    record.forget(&[program], &[*mode]);
                    failed += 1;
                    false
                }
            });
        }
        eprintln!("{program} done");
        record.write(root)?;
    }
    Ok((record, failed))
}

/// Those of `all` that are named; all if none is.
fn chosen<T>(
    all: &'static [T],
    names: &[String],
    name: impl Fn(&T) -> &str,
) -> Result<Vec<&'static T>, String> {
    if let Some(unknown) =
        names.iter().find(|wanted| !all.iter().any(|one| name(one) == wanted.as_str()))
    {
        return Err(format!(
            "there is no '{unknown}'; `neap-bench suite --list` says what there is"
        ));
    }
    Ok(all
        .iter()
        .filter(|one| names.is_empty() || names.iter().any(|wanted| name(one) == wanted))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_and_unknown_ones_are_refused() {
        let names = ["words".to_owned(), "bulk".to_owned()];
        assert_eq!(
            chosen(&PROGRAMS, &names, |program| program).expect("known"),
            [&"bulk", &"words"]
        );
        assert_eq!(chosen(&PROGRAMS, &[], |program| program).expect("all").len(), 22);
        assert!(
            chosen(&MODES, &["x".to_owned()], |mode| mode.id)
                .expect_err("unknown")
                .contains("--list")
        );
    }
}
