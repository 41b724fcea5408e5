//! `neap export`: a recording (NEAP_STATS) in the formats that other tools read: a pprof heap
//! profile, a trace for Perfetto and Chrome.
//!
//! Invariant: converts and adds nothing; a file that is refused leaves what was there. Called by
//! `main`.

pub mod pprof;
mod segments;
pub mod trace;

use crate::symbols::Symbols;
use crate::{Failure, report};
use clap::{Arg, ArgGroup, ArgMatches, Command, value_parser};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The command line.
pub fn command() -> Command {
    let output = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("OUT").value_parser(value_parser!(PathBuf)).help(help)
    };
    Command::new("export")
        .about("Write a recording (NEAP_STATS=FILE) in a format that other tools read")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The recording"),
        )
        .arg(output("pprof", "The sampled allocation sites as a heap profile for `go tool pprof`"))
        .arg(output(
            "trace",
            "Cycles, their steps and stops as a trace for ui.perfetto.dev or chrome://tracing",
        ))
        .group(ArgGroup::new("output").args(["pprof", "trace"]).required(true).multiple(true))
}

/// Does what the command line says.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let file = matches.get_one::<PathBuf>("file").expect("it is required");
    let shown = file.display();
    let recording = report::read(file)?;
    for problem in &recording.problems {
        eprintln!("neap: {shown}: {problem}");
    }
    if let Some(path) = matches.get_one::<PathBuf>("trace") {
        write(path, |out| trace::write(&recording, out))?;
    }
    if let Some(path) = matches.get_one::<PathBuf>("pprof") {
        let mut symbols = Symbols::default();
        let names = &mut |module: &_, address| symbols.at(module, address);
        let profile = pprof::profile(&recording, &pprof::Wanted::whole(&recording), names);
        for problem in &symbols.problems {
            eprintln!("neap: {problem}");
        }
        let Some(profile) = profile else {
            return Err(Failure::usage(format!(
                "{shown} has no allocation sites: it was recorded without sampling them"
            )));
        };
        write(path, |out| out.write_all(&profile))?;
    }
    Ok(())
}

fn write(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let written = || -> io::Result<()> {
        let mut out = BufWriter::new(File::create(path)?);
        content(&mut out)?;
        out.flush()
    };
    written().map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_neither_waited_for_nor_read_for_ever() {
        for other in ["/dev/zero", "/dev/tty", "/"] {
            let words = ["export", "--trace", "/dev/null", other];
            let said = run(&command().try_get_matches_from(words).unwrap()).unwrap_err();
            assert!(said.to_string().starts_with(&format!("neap: {other}: ")), "{said}");
        }
    }
}
