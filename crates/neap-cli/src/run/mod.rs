//! `neap run`: puts Neap's libgc.so.1 under a program, and becomes that program.
//!
//! The library's folder goes first in LD_LIBRARY_PATH, so that the program and whatever it starts
//! find ours. Where that would not be enough the library is preloaded as well: where DT_RPATH leads
//! to another one, and where our functions would come after the C library's of the same name
//! (thread creation is one of them), as for libraries that are needed by other libraries or opened
//! later. For a program in D the package for its runtime is preloaded (`d.rs`).
//!
//! Invariant: `execve` replaces this process, so that signals, terminal and exit status are the
//! program's own; not so with `--top` and `--compare`, where the program is a child.
//! Single-threaded. Called by `main`.

use crate::prefix::Prefix;
use crate::run::carried::Copy;
use crate::run::libraries::{LIBGC, Refusal, Uses, exports, opened, uses};
use crate::shell::quote;
use crate::{Failure, option_table};
mod broken_pipe;
mod carried;
mod compare;
mod d;
pub mod held;
pub mod libraries;
mod program;
mod same_run;
mod top;
mod without;

use clap::ArgMatches;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
const PRELOAD: &str = "LD_PRELOAD";
/// A function that Neap defines in the C library's place.
const INTERPOSED: &str = "pthread_create";

/// What is known of a program before it runs.
struct Judged {
    /// If preloading is needed, why.
    why_preload: Option<&'static str>,
    /// The libgc that it gets without Neap, as far as can be seen.
    without_neap: Option<PathBuf>,
    /// Whether it loads one at start.
    needs_libgc: bool,
    /// The file with a copy of libgc in it whose place Neap takes.
    replaced: Option<PathBuf>,
    /// What it needs as a program in D.
    in_d: Option<d::Needs>,
}

/// Runs the program that the command line names, in this one's place; returns if it cannot, if it
/// only had to show, with `--top` with the program's exit status, and after `--compare`.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let mut words = matches.get_many::<OsString>("program").into_iter().flatten();
    let name = words.next().ok_or_else(|| Failure::usage("no PROGRAM to run"))?;
    let prefix = Prefix::find()?;
    let search_path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let file = program::find(name, &search_path)?;
    let loaded = program::loaded(&file, &search_path)?;
    let Judged { why_preload, without_neap, needs_libgc, replaced, in_d } =
        judge(&loaded, &prefix, matches.get_flag("any")).map_err(|failure| {
            match loaded == file {
                true => failure,
                false => program::in_script(&file, failure),
            }
        })?;
    let mut variables = option_table::variables(matches);
    let preloaded = why_preload.map(|_| match in_d {
        Some(_) => prefix.libraries().join(d::PRELOADED),
        None => prefix.drop_in(),
    });
    variables.extend(loader_variables(&prefix, preloaded)?);
    if in_d.is_some() && std::env::var_os(d::CHOICE).is_none() {
        variables.push((d::CHOICE.to_owned(), "neap".into()));
    }
    let is_said =
        |name| std::env::var_os(name).is_some() || variables.iter().any(|(known, _)| known == name);
    if matches.get_flag("top") && !is_said(top::VISIBLE) {
        variables.push((top::VISIBLE.to_owned(), "1".into()));
    }
    if matches.get_flag("show") {
        return crate::print(&shown(&variables, why_preload)).map(|()| 0);
    }
    if let Some(copy) = replaced {
        eprintln!(
            "neap: {} has a copy of libgc inside; Neap takes its place, as its functions are \
             found first",
            copy.display()
        );
    }
    if matches.get_flag("compare") {
        if in_d.is_some() {
            return Err(Failure::usage(format!(
                "{} is in D, and --compare compares with libgc. Run it with and without `neap run`",
                loaded.display()
            )));
        }
        without::check(&loaded, without_neap.as_deref(), needs_libgc)?;
        return compare::run(&compare::Compared {
            file,
            words: std::iter::once(name).chain(words).cloned().collect(),
            neap: variables,
            libgc: without::environment(),
            needs_libgc,
            rounds: matches.get_one("rounds").copied().unwrap_or(3),
        });
    }
    let began = same_run::began(&variables);
    let mut command = Command::new(&file);
    command.arg0(name).args(words).envs(variables).envs(began);
    broken_pipe::as_it_was(&mut command);
    if matches.get_flag("top") {
        return top::run(command);
    }
    let error = command.exec();
    Err(Failure::cannot_run(format!("{}: {error}", file.display())))
}

/// Whether the file that will be loaded can run on Neap, and what there is to know for that.
fn judge(file: &Path, prefix: &Prefix, any: bool) -> Result<Judged, Failure> {
    let shown = file.display();
    if program::gains_rights(file) {
        return Err(Failure::usage(format!(
            "{shown} runs with more rights than you have (set-user-id, set-group-id or capabilities); \
             the system then ignores LD_LIBRARY_PATH, and Neap cannot be put under it. Run it as \
             the \
             user it belongs to"
        )));
    }
    let library_path = std::env::var_os(LIBRARY_PATH).unwrap_or_default();
    let library_path = without::library_path(&library_path);
    let folders: Vec<PathBuf> = std::env::split_paths(&library_path).collect();
    let late = || Judged {
        why_preload: None,
        without_neap: opened(&folders),
        needs_libgc: false,
        replaced: None,
        in_d: None,
    };
    let found = match uses(file, &folders) {
        Ok(Uses::No { loads }) => {
            let in_d = d::needs(file, &loads, prefix);
            if any && !matches!(in_d, Ok(Some(_))) {
                return Ok(late());
            }
            match in_d? {
                Some(needs) => {
                    let preloads = needs == d::Needs::Preloading;
                    return Ok(Judged {
                        why_preload: preloads.then_some("it is in D, with a runtime of its own"),
                        in_d: Some(needs),
                        ..late()
                    });
                }
                None => Uses::No { loads },
            }
        }
        Ok(Uses::Carries(_, Copy::Within)) | Err(_) if any => return Ok(late()),
        Ok(found) => found,
        Err(Refusal::Static) => {
            let has_copy = std::fs::read(file).is_ok_and(|bytes| carried::is_within(&bytes));
            let what = if has_copy { "has a copy of libgc" } else { "has its libgc, if any," };
            return Err(Failure::usage(format!(
                "{shown} is statically linked: it {what} inside. Link it with {LIBGC} to run it \
                 on Neap"
            )));
        }
        Err(Refusal::OtherMachine) => {
            return Err(Failure::usage(format!(
                "{shown} is for another kind of processor than this Neap ({})",
                std::env::consts::ARCH
            )));
        }
        Err(Refusal::NotElf(reason)) => {
            return Err(Failure::cannot_run(format!(
                "{shown} is neither an ELF program nor a script with #! ({reason})"
            )));
        }
    };
    let interposes = || exports(&prefix.drop_in(), INTERPOSED);
    match found {
        Uses::Links { before_libc, fixed, found } => Ok(Judged {
            why_preload: if fixed.is_some() {
                Some("DT_RPATH leads to another libgc.so.1")
            } else if !before_libc && interposes() {
                Some("libgc.so.1 comes after libc.so.6, and has functions to put in its place")
            } else {
                None
            },
            without_neap: found,
            needs_libgc: true,
            replaced: None,
            in_d: None,
        }),
        Uses::Carries(copy, Copy::Replaceable) => Ok(Judged {
            why_preload: Some("a copy of libgc inside is to be replaced"),
            without_neap: None,
            needs_libgc: false,
            replaced: Some(copy),
            in_d: None,
        }),
        Uses::Carries(copy, Copy::Within) => Err(Failure::usage(format!(
            "{shown} does not load {LIBGC}: {} has a copy of libgc inside, and what calls it is \
             bound to that one, so Neap cannot take its place. Build it with the system's libgc \
             (packages often have an option for that), or against Neap: `pkg-config bdw-gc` with \
             PKG_CONFIG_PATH={}. If it starts programs that load {LIBGC}, use `neap run --any -- \
             …`",
            copy.display(),
            prefix.drop_in_folder().join("pkgconfig").display()
        ))),
        Uses::Opens if interposes() => Ok(Judged {
            why_preload: Some(
                "libgc.so.1 is opened late, and has functions to put in libc.so.6's place",
            ),
            ..late()
        }),
        Uses::Opens => Ok(late()),
        Uses::No { .. } => Err(Failure::usage(format!(
            "{shown} does not use libgc ({LIBGC}): neither it nor a library that it loads needs \
             it, none of them has a copy inside, and it is not in D. If it starts programs that \
             do, use `neap run --any -- …`"
        ))),
    }
}

/// What the loader has to be told.
fn loader_variables(
    prefix: &Prefix,
    preloaded: Option<PathBuf>,
) -> Result<Vec<(String, OsString)>, Failure> {
    let folder = prefix.drop_in_folder();
    let preload = preloaded.is_some();
    let separates = |byte: &u8| b":;".contains(byte) || (preload && byte.is_ascii_whitespace());
    if folder.as_os_str().as_bytes().iter().any(separates) {
        return Err(Failure::usage(format!(
            "{} has a character in its name that the loader takes for a separator; install Neap in \
             another folder",
            folder.display()
        )));
    }
    let mut variables = vec![(LIBRARY_PATH.to_owned(), before(folder.as_os_str(), LIBRARY_PATH))];
    if let Some(library) = preloaded {
        variables.push((PRELOAD.to_owned(), before(library.as_os_str(), PRELOAD)));
    }
    Ok(variables)
}

/// `first`, and what the variable holds after it.
fn before(first: &OsStr, variable: &str) -> OsString {
    let mut value = first.to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        value.push(":");
        value.push(rest);
    }
    value
}

/// The variables as a shell would take them.
fn shown(variables: &[(String, OsString)], why_preload: Option<&str>) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        text += &format!("{name}={}\n", quote(&value.to_string_lossy()));
    }
    if let Some(reason) = why_preload {
        text += &format!("# preloaded because {reason}\n");
    }
    text
}
