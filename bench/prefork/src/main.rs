//! `neap-bench-prefork`: a server that loads a table and forks workers, on Neap and on its peers;
//! prints the tables of docs/prefork.md.
//!
//! The way of a figure: contestants run in turn, A B A B …; each run starts a server (`server`),
//! looks at its workers' memory (`memory`), loads it (`load`), collects in every worker and looks
//! again. Figures are medians over the runs. Main thread, because anything else we did would be
//! measured too.

mod load;
mod memory;
mod server;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;

use crate::memory::Memory;
use crate::server::Server;

/// A server that forks workers: memory, request times and collections, on Neap and on its peers.
#[derive(Parser)]
#[command(name = "neap-bench-prefork", version)]
struct Arguments {
    /// Runs of each contestant; medians are printed
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Entries of the table
    #[arg(long, default_value_t = 120_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    entries: u32,
    /// Requests over each connection
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Requests over each connection in a further run of each contestant; 0 for none
    #[arg(long, default_value_t = 0)]
    long: u32,
    /// Instead: how long forks of a parent with the table take, after neap_prefork() and plain
    #[arg(long)]
    forks: bool,
    /// Only contestants whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// Workers of a server, and connections at the same time.
const WORKERS: u32 = 5;
const CONNECTIONS: u32 = 10;
/// Collections of the parent before it forks, for the first table.
const COLLECTIONS: u32 = 5;
/// Ten forks each, of one server.
const FORK_ROUNDS: usize = 4;

/// A server program with what it runs on.
pub struct Contestant {
    /// As in the tables.
    pub name: &'static str,
    words: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

/// What one run gave. Memory is the sum over the workers.
pub struct Run {
    /// Microseconds until all was marked, in the parent.
    pub parent_marked: f64,
    /// From then until all was swept.
    pub parent_swept: f64,
    /// After forking.
    pub before: Memory,
    /// After the requests.
    pub loaded: Memory,
    /// After a collection in every worker.
    pub collected: Memory,
    /// That collection, microseconds.
    pub collection: f64,
    /// Of requests.
    pub times: load::Times,
    /// The longest of a worker, microseconds.
    pub pause: f64,
    /// Of the parent, microseconds.
    pub fork: f64,
    /// Of a request, what making the answer takes: microseconds.
    pub answering: f64,
    /// Bytes of the parent's objects.
    pub live: f64,
    /// The further run with many requests.
    pub long: Option<Long>,
}

/// What that one gave.
pub struct Long {
    /// Of requests.
    pub times: load::Times,
    /// Of a request, what making the answer takes: microseconds.
    pub answering: f64,
    /// Of the workers, afterwards.
    pub loaded: Memory,
}

fn contestants(root: &Path, entries: u32) -> Vec<Contestant> {
    let out = root.join("build/bench");
    let one = |name: &'static str,
               program: &Path,
               more: &[&str],
               environment: &[(&'static str, &str)]| {
        let mut words = vec![program.to_string_lossy().into_owned()];
        words.extend([entries, WORKERS, COLLECTIONS].map(|number| number.to_string()));
        words.extend(more.iter().map(|&word| word.to_owned()));
        let environment =
            environment.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        Contestant { name, words, environment }
    };
    let (neap, libgc) = (out.join("prefork-neap"), out.join("prefork-libgc"));
    let drop_in = root.join("build/lib/neap").to_string_lossy().into_owned();
    let in_objects = root.join("build/marks-in-objects/lib").to_string_lossy().into_owned();
    let stopped = ("NEAP_WATCH", "none");
    let mut ruby = one("Ruby", Path::new("ruby"), &[], &[]);
    ruby.words.insert(1, root.join("bench/prefork/server.rb").to_string_lossy().into_owned());
    vec![
        one("Neap, neap_prefork()", &neap, &["prefork"], &[]),
        one("Neap, plain fork", &neap, &[], &[]),
        one(
            "Neap as libgc, prefork=on-fork",
            &libgc,
            &[],
            &[("LD_LIBRARY_PATH", &drop_in), ("NEAP_PREFORK", "on-fork")],
        ),
        one("libgc", &libgc, &[], &[]),
        one("no collector, an arena for each request", &out.join("prefork-arena"), &[], &[]),
        one("Neap, plain fork, stopped cycles", &neap, &[], &[stopped]),
        one("Neap, neap_prefork(), stopped cycles", &neap, &["prefork"], &[stopped]),
        // Its cells end in a word of the collector's, of which what the header compiles into the
        // program knows nothing: that is off where the library keeps no byte past the end.
        one(
            "marks in objects, stopped cycles",
            &neap,
            &[],
            &[stopped, ("LD_LIBRARY_PATH", &in_objects), ("NEAP_PAST_END", "no")],
        ),
        ruby,
    ]
}

fn run(contestant: &Contestant, root: &Path, arguments: &Arguments) -> Result<Run, String> {
    let mut server = Server::start(&contestant.words, &contestant.environment, root)?;
    let workers = server.workers.clone();
    let memory = || workers.iter().map(|worker| memory::of(*worker)).sum::<Result<Memory, _>>();
    let median_of = |pick: fn(&(f64, f64)) -> f64, pairs: &[(f64, f64)]| {
        table::median(pairs.iter().map(pick).collect())
    };
    let before = memory()?;
    let times = load::run(server.port, CONNECTIONS, arguments.requests, arguments.entries)?;
    let loaded = memory()?;
    let collections = server.collect()?;
    let collected = memory()?;
    Ok(Run {
        parent_marked: median_of(|pair| pair.0, &server.parent_collections),
        parent_swept: median_of(|pair| pair.1, &server.parent_collections),
        before,
        loaded,
        collected,
        collection: median_of(|pair| pair.0 + pair.1, &collections),
        times,
        pause: server.longest_pause()?,
        fork: table::median(server.fork_times()?),
        answering: server.answering()?,
        live: server.live_bytes()?,
        long: (arguments.long > 0).then(|| long(contestant, root, arguments)).transpose()?,
    })
}

/// As `run` with many requests and nothing else.
fn long(contestant: &Contestant, root: &Path, arguments: &Arguments) -> Result<Long, String> {
    let mut server = Server::start(&contestant.words, &contestant.environment, root)?;
    let times = load::run(server.port, CONNECTIONS, arguments.long, arguments.entries)?;
    let loaded =
        server.workers.iter().map(|worker| memory::of(*worker)).sum::<Result<Memory, _>>()?;
    Ok(Long { times, answering: server.answering()?, loaded })
}

/// Forks of a parent after neap_prefork() and plain, in turn; each of the runs asks several times.
fn forks(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let chosen = contestants(root, arguments.entries);
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..arguments.runs {
        // The first two: with and without.
        for (contestant, took) in chosen.iter().zip(&mut took) {
            let mut server = Server::start(&contestant.words, &contestant.environment, root)?;
            for _ in 0..FORK_ROUNDS {
                took.extend(server.fork_times()?);
            }
        }
    }
    let rows: Vec<(&str, &[f64])> =
        chosen.iter().map(|one| one.name).zip(took.iter().map(Vec::as_slice)).collect();
    Ok(table::forks(&rows))
}

/// Builds the servers; what lacks a peer is said by the compiler.
fn build(root: &Path) -> Result<(), String> {
    let status = Command::new("make")
        .args(["--no-print-directory", "-C"])
        .arg(root.join("bench"))
        .arg("prefork")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("cannot start make: {error}"))?;
    status.success().then_some(()).ok_or_else(|| "building the servers failed".to_owned())
}

fn measure(arguments: &Arguments) -> Result<(), String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .map_err(|error| format!("the repository is not where it was built: {error}"))?;
    build(&root)?;
    if arguments.forks {
        print!("{}", forks(&root, arguments)?);
        return Ok(());
    }
    let mut chosen = contestants(&root, arguments.entries);
    chosen.retain(|contestant| contestant.name.contains(&arguments.only));
    let mut runs: Vec<Vec<Run>> = chosen.iter().map(|_| Vec::new()).collect();
    let mut failed = Vec::new();
    for turn in 1..=arguments.runs {
        for (contestant, runs) in chosen.iter().zip(&mut runs) {
            if failed.contains(&contestant.name) {
                continue;
            }
            match run(contestant, &root, arguments) {
                Ok(run) => runs.push(run),
                Err(error) => {
                    // What failed once has no figure.
                    eprintln!("{turn}: {}: FAILED: {error}", contestant.name);
                    failed.push(contestant.name);
                    runs.clear();
                }
            }
        }
        eprintln!("{turn} of {} turns done", arguments.runs);
    }
    let rows: Vec<(&str, &[Run])> =
        chosen.iter().map(|one| one.name).zip(runs.iter().map(Vec::as_slice)).collect();
    print!("{}", table::all(&rows));
    if rows.iter().any(|(_, runs)| runs.is_empty()) {
        return Err("not every contestant ran".to_owned());
    }
    Ok(())
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("neap-bench-prefork: {error}");
            ExitCode::FAILURE
        }
    }
}
