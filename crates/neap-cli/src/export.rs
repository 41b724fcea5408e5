//! `neap export`: a recording (NEAP_STATS) in the formats that other tools read: a pprof heap
//! profile, a trace for Perfetto and Chrome.
//!
//! Invariant: converts and adds nothing; a file that is refused leaves what was there. Called by
//! `main`.

pub mod pprof;
mod segments;
pub mod trace;

use crate::symbols::Symbols;
use crate::{Failure, regular_file, report};
use clap::{Arg, ArgGroup, ArgMatches, Command, value_parser};
use std::io::{self, Write};
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
    let [trace, profile] = ["trace", "pprof"].map(|form| matches.get_one::<PathBuf>(form));
    for out in [trace, profile].into_iter().flatten() {
        report::is_not_the_recording(out, file)?;
    }
    if let (Some(trace), Some(profile)) = (trace, profile)
        && regular_file::are_same(trace, profile)
    {
        let shown = trace.display();
        let why = format!("{shown}: trace and profile are two files; choose another name for one");
        return Err(Failure::usage(why));
    }
    if let Some(path) = trace {
        write(path, |out| trace::write(&recording, out))?;
    }
    if let Some(path) = profile {
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
    regular_file::write(path, content)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
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

    #[test]
    fn neither_the_recording_nor_another_output_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, out] = ["file", "link", "out"].map(|name| folder.path().join(name));
        std::fs::write(&file, neap_record::MAGIC).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let [file, link, out] = [&file, &link, &out].map(|path| path.to_str().unwrap());
        let export = |words: &[&str]| {
            let words = [&["export", file], words].concat();
            run(&command().try_get_matches_from(words).unwrap())
        };
        for form in ["--trace", "--pprof"] {
            for name in [file, link] {
                let said = export(&[form, name]).unwrap_err().to_string();
                assert!(said.contains("is the recording itself; choose another name"), "{said}");
            }
        }
        let said = export(&["--trace", out, "--pprof", out]).unwrap_err().to_string();
        assert!(said.contains("two files; choose another name"), "{said}");
        assert!(!Path::new(out).exists());
        assert_eq!(std::fs::read(file).unwrap(), neap_record::MAGIC);
        export(&["--trace", out]).unwrap();
        assert!(std::fs::read_to_string(out).unwrap().contains("traceEvents"));
    }
}
