//! `make model`: the model with wider bounds than the tests have time for. Prints a line for each
//! exploration, as a part of the tests does.
//!
//! Usage: `neap-model [CYCLES OPERATIONS ROUNDS]`; without arguments the bounds below. Called by
//! `tools/long.sh`.

use std::fmt::Debug;
use std::hash::Hash;
use std::process::ExitCode;
use std::time::Instant;

use neap_model::cycles::{Bounds, Cycles, Mutant};
use stateright::{Checker, Model};

/// More of one thing at a time: a step of the program or a round of precleaning more makes five to
/// ten times as many states.
const BOUNDS: [Bounds; 3] = [
    Bounds { cycles: 3, operations: 3, rounds: 1 },
    Bounds { cycles: 1, operations: 4, rounds: 2 },
    Bounds { cycles: 2, operations: 4, rounds: 1 },
];

fn main() -> ExitCode {
    let asked: Result<Vec<u8>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
    let all = match asked.as_deref() {
        Ok([]) => BOUNDS.to_vec(),
        Ok([cycles, operations, rounds]) => {
            vec![Bounds { cycles: *cycles, operations: *operations, rounds: *rounds }]
        }
        _ => {
            eprintln!(
                "neap-model: want no arguments, or three numbers: cycles, operations, rounds"
            );
            return ExitCode::from(2);
        }
    };
    let mut held = asked.is_ok_and(|numbers| !numbers.is_empty()) || parts();
    for bounds in all {
        let name = format!(
            "{} cycles, {} steps of the program, {} rounds",
            bounds.cycles, bounds.operations, bounds.rounds
        );
        held &= explore(&name, &Cycles { bounds, mutant: Mutant::None, start: None });
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the small models hold.
fn parts() -> bool {
    use neap_model::parts::*;
    let all = [
        explore("assists", &assists::Assists { mutant: assists::Mutant::None }),
        explore(
            "before-images",
            &before_images::BeforeImages { mutant: before_images::Mutant::None },
        ),
        explore("births", &births::Births { mutant: births::Mutant::None }),
        explore("disabling", &disabling::Disabling { mutant: disabling::Mutant::None }),
        explore("frees", &frees::Frees { mutant: frees::Mutant::None }),
        explore("growing", &growing::Growing { mutant: growing::Mutant::None }),
        explore("holding off", &holding::Holding { mutant: holding::Mutant::None }),
        explore("buffers", &buffers::Buffers { mutant: buffers::Mutant::None }),
        explore("copied roots", &copied::Copied { mutant: copied::Mutant::None }),
        explore("the last thread", &last_thread::LastThread { mutant: last_thread::Mutant::None }),
        explore("links", &links::Links { mutant: links::Mutant::None }),
        explore("the loader's lock", &loader::Loader { mutant: loader::Mutant::None }),
        explore(
            "local functions",
            &local_functions::LocalFunctions { mutant: local_functions::Mutant::None },
        ),
        explore("the middle stop", &middle_stop::MiddleStop { mutant: middle_stop::Mutant::None }),
        explore("offers", &offers::Offers { mutant: offers::Mutant::None }),
        explore("pieces of roots", &root_pieces::RootPieces { mutant: root_pieces::Mutant::None }),
        explore("stopping", &stopping::Stopping { mutant: stopping::Mutant::None }),
        explore("results", &thread_results::ThreadResults { mutant: thread_results::Mutant::None }),
        explore("timed waits", &timed_waits::TimedWaits { mutant: timed_waits::Mutant::None }),
        explore(
            "watched roots",
            &watched_roots::WatchedRoots { mutant: watched_roots::Mutant::None },
        ),
        explore("weak reads", &weak_reads::WeakReads { mutant: weak_reads::Mutant::None }),
        explore(
            "weak snapshots",
            &weak_snapshots::WeakSnapshots { mutant: weak_snapshots::Mutant::None },
        ),
    ];
    all.into_iter().all(|held| held)
}

/// Whether every property holds within the bounds.
fn explore<M>(name: &str, model: &M) -> bool
where
    M: Model<State: Clone + Debug + PartialEq + Hash + Send + Sync> + Clone + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = model.clone().checker().threads(threads).spawn_bfs().join();
    let mut held = true;
    for property in model.properties() {
        let found = checker.discovery(property.name);
        if property.expectation.discovery_is_failure() == found.is_some() {
            held = false;
            println!("# fails: {}", property.name);
            for (state, action) in found.map(|path| path.into_vec()).unwrap_or_default() {
                println!("#   {state:?}\n#   {action:?}");
            }
        }
    }
    println!("# {} states, {} ms", checker.unique_state_count(), began.elapsed().as_millis());
    println!("{} - model: {name}", if held { "ok" } else { "not ok" });
    held
}
