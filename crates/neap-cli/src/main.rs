//! `neap`: runs programs that use libgc on Neap, and says what there is to say about the library.
//!
//! Invariant: exit status 2 for what the user can put right here, 127 and 126 for a program that is
//! not found or cannot be run, as a shell has it; otherwise the program's own. Single-threaded;
//! nothing here touches the collected heap. Built for a fuzzer (`--cfg fuzzing`, tests/fuzz) it has
//! the fuzzer's main function in place of its own.

#![cfg_attr(fuzzing, no_main, allow(dead_code, reason = "the fuzzer calls parts of it"))]

mod doctor;
mod export;
mod flags;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod generated;
mod heap;
mod live;
mod metrics;
mod option_table;
mod prefix;
mod regular_file;
mod report;
mod run;
mod shell;
mod symbols;
mod top;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// What ends `neap` early: a message for standard error and an exit status.
#[derive(Debug, PartialEq)]
pub struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// Something the user can put right in the command or the installation.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), status: 2 }
    }

    /// The program failed where it should not.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), status: 1 }
    }

    /// A program that is there and cannot be run.
    pub fn cannot_run(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), status: 126 }
    }

    /// A program that is not there.
    pub fn not_found(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), status: 127 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "neap: {}", self.message)
    }
}

fn main() -> ExitCode {
    let matches = command()
        .try_get_matches()
        .unwrap_or_else(|error| option_table::spelled_as_in_the_help(error).exit());
    let outcome = match matches.subcommand() {
        Some(("run", arguments)) => match run::run(arguments) {
            Ok(status) => return ExitCode::from(status),
            Err(failure) => Err(failure),
        },
        Some(("options", arguments)) => {
            let word = arguments.get_one::<String>("word").map(String::as_str);
            option_table::text(word).and_then(|text| print(&text))
        }
        Some(("doctor", arguments)) => doctor(arguments),
        Some(("report", arguments)) => report::run(arguments).and_then(|text| print(&text)),
        Some(("heap", arguments)) => heap::run(arguments).and_then(|text| print(&text)),
        Some(("flags", arguments)) => flags(arguments),
        Some(("export", arguments)) => export::run(arguments),
        Some(("top", arguments)) => top::run(arguments),
        Some(("metrics", arguments)) => metrics::run(arguments),
        Some(("completions", arguments)) => generated::completions(arguments, command()),
        Some(("manual", arguments)) => generated::manual(arguments, command()),
        _ => print(&format!("neap {}\n", env!("CARGO_PKG_VERSION"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error may be gone, too.
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::from(failure.status)
        }
    }
}

fn command() -> Command {
    Command::new("neap")
        .about("A garbage collector for native programs")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run_command())
        .subcommand(
            Command::new("options")
                .about("Print the options: name, type, default, meaning")
                .arg(Arg::new("word").value_name("WORD").help("Only those with this word in them")),
        )
        .subcommand(
            Command::new("doctor")
                .about("Print what this machine allows, what would be used, and what to change")
                .arg(
                    Arg::new("measure")
                        .long("measure")
                        .value_name("MIB")
                        .num_args(0..=1)
                        .require_equals(true)
                        .default_missing_value("1024")
                        .value_parser(value_parser!(u32).range(2..=65_536))
                        .help("Measure what each watch costs for so much memory (1024 MiB)"),
                ),
        )
        .subcommand(report::command())
        .subcommand(heap::command())
        .subcommand(flags_command())
        .subcommand(top::command())
        .subcommand(export::command())
        .subcommand(metrics::command())
        .subcommand(generated::completions_command())
        .subcommand(generated::manual_command())
        .subcommand(Command::new("version").about("Print the version"))
}

fn run_command() -> Command {
    let program = Arg::new("program")
        .help("The program and its arguments")
        .value_name("PROGRAM")
        .required(true)
        .num_args(1..)
        .trailing_var_arg(true)
        .value_hint(ValueHint::CommandWithArguments)
        .value_parser(value_parser!(OsString));
    let any = Arg::new("any")
        .long("any")
        .help(
            "Run PROGRAM even if it does not use libgc itself: what it starts may (a shell, make)",
        )
        .action(ArgAction::SetTrue);
    let show = Arg::new("show")
        .long("show")
        .help("Print the environment that PROGRAM would get, and why; run nothing")
        .action(ArgAction::SetTrue);
    let top = Arg::new("top")
        .long("top")
        .help("Show the program's heap while it runs, as `neap top` does; its input is empty")
        .conflicts_with("show")
        .action(ArgAction::SetTrue);
    let compare = Arg::new("compare")
        .long("compare")
        .help(
            "Run PROGRAM on the libgc that it has without Neap, and on Neap, some times in turn, \
             and print a table: same output, times, memory, cycles, stops",
        )
        .conflicts_with_all(["show", "top"])
        .action(ArgAction::SetTrue);
    let rounds = Arg::new("rounds")
        .long("rounds")
        .value_name("N")
        .help("With --compare: how often on each, 1 to 100")
        .default_value("3")
        .requires("compare")
        .value_parser(value_parser!(u32).range(1..=100));
    Command::new("run")
        .about("Run a program that uses Boehm's libgc, or one in D, on Neap")
        .override_usage("neap run [--OPTION=VALUE …] -- PROGRAM [ARGUMENT …]")
        .after_help(
            "Options also come from the environment: --max-heap=1GiB is NEAP_MAX_HEAP=1GiB. \
             `neap options` explains them.\nThe exit status is PROGRAM's; 2 if it neither uses \
             libgc nor is in D, \
             127 if it is not found, 126 if it cannot be run.\n\n\
             With --compare the options hold for the runs on Neap. PROGRAM's standard output is \
             compared and not shown; its standard error is shown in the first round only; its \
             standard input is empty, or a file (< FILE) that every run reads from the same place \
             on. What it leaves running in the background is ended with each run. The exit status \
             is 0 if all runs printed the same and had the same exit status, 1 if not or if one \
             was ended by a signal, 2 if there is nothing to compare.",
        )
        .arg(any)
        .arg(show)
        .arg(top)
        .arg(compare)
        .arg(rounds)
        .args(option_table::arguments())
        .arg(program)
}

fn flags_command() -> Command {
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
    };
    let languages = ["c", "c++", "d", "gdc"];
    let language =
        Arg::new("language").required(true).value_name("LANGUAGE").value_parser(languages);
    Command::new("flags")
        .about(
            "Print what a compiler needs to build programs that use neap.h, or D programs that \
            can choose gc:neap",
        )
        .arg(language.help("Language of the program; d is for ldc2, gdc for that compiler of D"))
        .arg(switch("static", "Link the library into the program"))
        .arg(
            switch("all-static", "Link everything into the program, libc too, as by -static")
                .conflicts_with("static"),
        )
        .arg(switch("cflags", "Only what compiling needs").conflicts_with("libs"))
        .arg(switch("libs", "Only what linking needs"))
}

fn doctor(arguments: &ArgMatches) -> Result<(), Failure> {
    print(&doctor::text())?;
    match arguments.get_one::<u32>("measure") {
        Some(mib) => print(&format!("\n{}", doctor::costs((*mib as usize) << 20))),
        None => Ok(()),
    }
}

fn flags(arguments: &ArgMatches) -> Result<(), Failure> {
    let prefix = prefix::Prefix::find()?;
    let language = arguments.get_one::<String>("language").map_or("c", String::as_str);
    let wanted = flags::Wanted {
        for_d: match language {
            "d" => Some(flags::DCompiler::Ldc),
            "gdc" => Some(flags::DCompiler::Gdc),
            _ => None,
        },
        compile: !arguments.get_flag("libs"),
        link: !arguments.get_flag("cflags"),
        into_program: arguments.get_flag("static"),
        all_of_it: arguments.get_flag("all-static"),
    };
    print(&flags::text(&prefix, wanted)?)
}

/// Writes to standard output; a reader that has gone away is no failure.
fn print(text: &str) -> Result<(), Failure> {
    is_printed(text).map(drop)
}

/// The same, and whether there is still somebody who reads.
fn is_printed(text: &str) -> Result<bool, Failure> {
    use std::io::ErrorKind;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::usage(format!("standard output: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
