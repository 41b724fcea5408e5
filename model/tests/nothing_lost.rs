//! The model holds what it has to, within bounds that take seconds; `make model` has wider ones.
//!
//! Invariant: the explorations are complete within their bounds, and each reaches what makes it
//! worth while (a dead object found, a late find in the last stop, an old object kept by a minor
//! cycle).

use neap_model::cycles::{Bounds, Cycles, Mutant};
use stateright::{Checker, Model};

fn holds(bounds: Bounds) {
    let model = Cycles { bounds, mutant: Mutant::None, start: None };
    model.checker().threads(2).spawn_bfs().join().assert_properties();
}

#[test]
fn two_cycles_one_after_another() {
    holds(Bounds { cycles: 2, operations: 3, rounds: 1 });
}

#[test]
fn two_rounds_of_precleaning() {
    holds(Bounds { cycles: 1, operations: 2, rounds: 2 });
}
