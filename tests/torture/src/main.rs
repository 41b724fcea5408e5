//! Torture: random programs against a shadow of what they keep.
//!
//! `neap-torture run` has workers (`worker`) change graphs of objects at random, in every way that
//! the interface allows, while a shadow outside the heap (`graph`, `node`) knows what each object
//! must hold and which can be reached. What can be reached must be there, with its contents; what
//! cannot must be gone after two collections, but for what stale words on stacks explain (`audit`
//! states the bound). A failure prints the command that repeats the run. `neap-torture case NAME`
//! runs one test of refusals or of misuse (`cases`).
//!
//! Can it fail? `--sabotage lost|stale|leak|weak` builds a fault into the program under test: roots
//! that the collector is not told of, contents that change, pointers held behind the shadow's back,
//! handles that do not keep what they should. `run.sh` expects each to be found.

mod cases;
mod control;
mod failure;
mod fiber;
mod fork;
mod options;
mod referrers;
mod seccomp;
mod shadow;
mod threads;
mod under;
mod worker;

use crate::referrers::{cleaners, monitors};
use crate::shadow::{audit, graph, objects, places, shape};
use clap::{Parser, Subcommand};
use core::sync::atomic::Ordering::Relaxed;
use std::process::ExitCode;
use std::sync::PoisonError;

use neap_core::api;

#[derive(Parser)]
#[command(about = "Random programs against a shadow of what they keep")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One random run.
    Run(options::Options),
    /// One test of what is refused, or of misuse, in this process.
    Case {
        /// Its name.
        name: String,
    },
    /// The names of the cases.
    Cases {
        /// Of those that take long.
        #[arg(long)]
        long: bool,
    },
    /// Becomes another program, with system calls refused.
    Under(under::Options),
    /// The collector's watches, one a line: `--neap watch=NAME`.
    Watches,
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run(options) => run(options),
        Command::Case { name } => return cases::run(&name),
        Command::Cases { long: true } => {
            cases::long_names().for_each(|name| println!("{name}"));
        }
        Command::Cases { long: false } => cases::names().for_each(|name| println!("{name}")),
        Command::Under(options) => return under::run(&options),
        Command::Watches => println!("{}", watches().join("\n")),
    }
    ExitCode::SUCCESS
}

/// The names that the option `watch` takes, but for `auto`, which is one of the others.
fn watches() -> Vec<String> {
    let mut text = String::new();
    if let Some(entry) = api::options::Entry::find(b"watch") {
        let _ = (entry.show_valid)(&mut text);
    }
    let names = text.rsplit(':').next().unwrap_or_default();
    names.split(',').map(|name| name.trim().to_string()).filter(|name| name != "auto").collect()
}

fn run(given: options::Options) {
    let _ = failure::COMMAND.set(given.command());
    for option in &given.neap {
        let Some((name, value)) = option.split_once('=') else {
            fail!("--neap {option}: want NAME=VALUE");
        };
        if let Err(error) = api::set_option(name.as_bytes(), value.as_bytes()) {
            fail!("--neap {option}: {error}");
        }
    }
    options::set(given);
    shape::initialize();
    monitors::initialize();
    cleaners::initialize();
    let options = options::get();
    if options.local_functions {
        api::layouts::note_local_functions();
    }
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut shared = graph::Graph::new();
    places::Place::in_static_data().map(|place| shared.add_place(place));
    places::Place::registered(100).map(|place| shared.add_place(place));
    places::Place::of_handles(40, true).map(|place| shared.add_place(place));
    *worker::SHARED.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared);

    let workers: Vec<_> = (0..options.threads)
        .filter_map(|number| {
            let start = threads::Start::new(random.u64(..), options.operations, 0, 0);
            threads::begin_worker(start, number % 2 == 0)
        })
        .collect();
    ensure!(workers.len() == options.threads as usize, "no memory for a thread's argument");
    workers.into_iter().for_each(threads::join);
    last_audit(&mut random);

    let figures = api::statistics();
    println!(
        "{} operations, {} forks, {} cycles, {} objects, {} bytes allocated, peak {} bytes, longest pause {:.1} ms, {} \
         refused",
        worker::OPERATIONS.load(Relaxed),
        fork::forks().load(Relaxed),
        figures.cycles,
        figures.allocated_objects,
        figures.allocated_bytes,
        figures.peak_bytes,
        figures.pause_max_ns as f64 / 1e6,
        threads::REFUSED.load(Relaxed),
    );
}

/// When all workers have ended, hardly anything of theirs can be left.
#[inline(never)]
fn last_audit(random: &mut fastrand::Rng) {
    let shared = worker::SHARED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut graphs =
        core::mem::take(&mut *threads::LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(mut shared) = shared {
        shared.sweep_check(random);
        (0..shared.places.len()).for_each(|place| shared.remove_place(place));
        objects::free_all_pinned(&mut shared);
        graphs.push(shared);
    }
    let (mut heads, count) = (0, graphs.len());
    for graph in &mut graphs {
        heads += graph.audit(random, audit::MOST_HEADS).unwrap_or(0);
    }
    // Nobody else is left to be in the midst of one.
    api::finalizer::run_ready();
    cleaners::poll();
    graphs.iter().for_each(graph::Graph::check_cleaned);
    // Links of what is left are registered.
    core::mem::forget(graphs);
    ensure!(
        heads <= audit::MOST_HEADS + count / audit::GRAPHS_A_HEAD,
        "leak: when all {count} workers have ended, {heads} unreachable objects keep themselves \
         and others alive"
    );
}
