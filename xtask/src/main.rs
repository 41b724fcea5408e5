//! `cargo xtask`: the checks that keep the source tree as CONTRIBUTING.md says, and what is
//! generated from the source. Each check is one file here, with tests that show it failing on a bad
//! tree.
//!
//! Invariant: a check reads, only what generates documents writes, without `--check`, and only
//! under `docs/`. Run by people, by `tools/test.sh` and by nothing else; single-threaded but for
//! `rust-tests`.

mod boehm;
mod code_index;
mod document;
mod events;
mod figures;
mod headers;
mod layers;
mod mutants;
mod options;
mod picture;
mod ranks;
mod rust_tests;
mod size;
mod skips;
mod tags;
mod tree;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use tree::{Outcome, Tree};

/// Checks of the source tree, and documents generated from it.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    /// Top of the source tree, if not the one this was built from.
    #[arg(long, global = true)]
    root: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Modules import only what the file LAYERS lets them.
    Layers,
    /// No source file is longer than 500 lines, but for those in SIZE_EXCEPTIONS.
    Size,
    /// Rule tags that code cites are defined in docs/design; every invariant defined is cited.
    Tags,
    /// Every source file opens with a comment that says what it is.
    Headers,
    /// Tests that cannot run say so.
    Skips,
    /// Write docs/options.md from the option table.
    Options {
        /// Only say whether it is up to date.
        #[arg(long)]
        check: bool,
    },
    /// Write docs/events.md from the declaration of figures and steps.
    Events {
        /// Only say whether it is up to date.
        #[arg(long)]
        check: bool,
    },
    /// Write docs/figures.md from the declaration of what is printed.
    Figures {
        /// Only say whether it is up to date.
        #[arg(long)]
        check: bool,
    },
    /// Write docs/boehm-interface.md from the drop-in's list of symbols and its tests.
    Boehm {
        /// Only say whether it is up to date.
        #[arg(long)]
        check: bool,
    },
    /// Write docs/code-index.md from the opening lines of the source files.
    CodeIndex {
        /// Only say whether it is up to date.
        #[arg(long)]
        check: bool,
    },
    /// Write the table of locks in docs/concurrency.md from rank.rs.
    Ranks {
        /// Only say whether it is up to date.
        #[arg(long)]
        check: bool,
    },
    /// Write the table of mutants in docs/reliability.md from the models.
    Mutants {
        /// Only say whether it is up to date.
        #[arg(long)]
        check: bool,
    },
    /// Draw docs/images/architecture.svg from LAYERS and the steps in docs/architecture.md.
    Picture {
        /// Only say whether it is up to date.
        #[arg(long)]
        check: bool,
    },
    /// Every check, as test results.
    Ci,
    /// Run every Rust test, each in a process of its own, as test results.
    RustTests(rust_tests::Arguments),
}

type Check = fn(&Tree) -> Outcome;

/// The checks of `ci`, in the order in which they are reported.
const CHECKS: [(&str, Check); 13] = [
    ("layers", layers::check),
    ("size", size::check),
    ("tags", tags::check),
    ("headers", headers::check),
    ("skips", skips::check),
    ("options", options::check),
    ("events", events::check),
    ("figures", figures::check),
    ("ranks", ranks::check),
    ("mutants", mutants::check),
    ("picture", picture::check),
    ("boehm", boehm::check),
    ("code-index", code_index::check),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let root = arguments.root.unwrap_or_else(|| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").components().collect()
    });
    let tree = Tree::new(root);
    let passed = match arguments.command {
        Command::Layers => report(layers::check(&tree)),
        Command::Size => report(size::check(&tree)),
        Command::Tags => report(tags::check(&tree)),
        Command::Headers => report(headers::check(&tree)),
        Command::Skips => report(skips::check(&tree)),
        Command::Options { check: true } => report(options::check(&tree)),
        Command::Options { check: false } => report(options::write(&tree)),
        Command::Events { check: true } => report(events::check(&tree)),
        Command::Events { check: false } => report(events::write(&tree)),
        Command::Figures { check: true } => report(figures::check(&tree)),
        Command::Figures { check: false } => report(figures::write(&tree)),
        Command::Boehm { check: true } => report(boehm::check(&tree)),
        Command::Boehm { check: false } => report(boehm::write(&tree)),
        Command::Ranks { check: true } => report(ranks::check(&tree)),
        Command::Ranks { check: false } => report(ranks::write(&tree)),
        Command::Mutants { check: true } => report(mutants::check(&tree)),
        Command::Mutants { check: false } => report(mutants::write(&tree)),
        Command::Picture { check: true } => report(picture::check(&tree)),
        Command::Picture { check: false } => report(picture::write(&tree)),
        Command::CodeIndex { check: true } => report(code_index::check(&tree)),
        Command::CodeIndex { check: false } => report(code_index::write(&tree)),
        Command::Ci => ci(&tree),
        Command::RustTests(arguments) => rust_tests::run(&tree, &arguments),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what a single check found.
fn report(outcome: Outcome) -> bool {
    match outcome {
        Ok(findings) => {
            findings.iter().for_each(|finding| eprintln!("{finding}"));
            findings.is_empty()
        }
        Err(error) => {
            eprintln!("{error}");
            false
        }
    }
}

/// Runs every check and prints one test result each, what is wrong before it.
fn ci(tree: &Tree) -> bool {
    let mut all_passed = true;
    for (name, check) in CHECKS {
        let findings = check(tree).unwrap_or_else(|error| vec![error.into()]);
        findings.iter().for_each(|finding| println!("# {finding}"));
        println!("{} - xtask {name}", if findings.is_empty() { "ok" } else { "not ok" });
        all_passed &= findings.is_empty();
    }
    all_passed
}
