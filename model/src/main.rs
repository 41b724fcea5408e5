//! `make model`: the model with wider bounds than the tests have time for. Prints a line for each
//! exploration, as a part of the tests does.
//!
//! Usage: `neap-model [CYCLES OPERATIONS ROUNDS]`; without arguments the bounds below. Called by
//! `tools/long.sh`.

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
    let failed = all.into_iter().filter(|bounds| !explore(*bounds)).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether every property holds within the bounds.
fn explore(bounds: Bounds) -> bool {
    let name = format!(
        "model of {} cycles, {} steps of the program, {} rounds",
        bounds.cycles, bounds.operations, bounds.rounds
    );
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let model = Cycles { bounds, mutant: Mutant::None, start: None };
    let checker = model.checker().threads(threads).spawn_bfs().join();
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
    println!("# {} states, {} s", checker.unique_state_count(), began.elapsed().as_secs());
    println!("{} - {name}", if held { "ok" } else { "not ok" });
    held
}
