//! Every mistake that the model can be made with loses an object, and the checker finds it: so it
//! would see such a mistake in what it finds in order.
//!
//! Invariant: the bounds are as small as the mistake allows, since the shortest way to a loss is
//! looked for through all shorter ones.

use neap_model::cycles::{Bounds, Cycles, Mutant, NOTHING_LOST};
use stateright::{Checker, HasDiscoveries, Model};

/// Whether something is lost within so many cycles and steps of the program, from one of the
/// starts.
fn loses(mutant: Mutant, cycles: u8, operations: u8, start: usize) -> bool {
    let bounds = Bounds { cycles, operations, rounds: 1 };
    let checker = Cycles { bounds, mutant, start: Some(start) }
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyOf([NOTHING_LOST].into()))
        .spawn_bfs()
        .join();
    checker.discovery(NOTHING_LOST).is_some()
}

#[test]
fn arming_after_the_scan_is_found() {
    assert!(loses(Mutant::ArmsAfterScan, 1, 3, 0));
}

#[test]
fn stacks_that_the_last_stop_leaves_out_are_found() {
    assert!(loses(Mutant::NoStacksInRemark, 1, 2, 0));
}

#[test]
fn written_pages_that_the_last_stop_leaves_out_are_found() {
    assert!(loses(Mutant::NoPagesInRemark, 1, 3, 0));
}

#[test]
fn forgetting_what_was_written_before_a_minor_cycle_is_found() {
    assert!(loses(Mutant::ForgetsRemembered, 2, 3, 0));
}

#[test]
fn unarmed_blocks_that_do_not_count_as_written_are_found() {
    assert!(loses(Mutant::UnarmedNotWritten, 1, 4, 0));
}

#[test]
fn a_block_protected_in_part_is_found() {
    assert!(loses(Mutant::HalfProtected, 1, 4, 3));
}

#[test]
fn a_cycle_that_begins_before_the_sweep_is_over_is_found() {
    assert!(loses(Mutant::SweepsWhileMarking, 2, 2, 0));
}

#[test]
fn marked_blocks_known_from_the_last_round_only_are_found() {
    assert!(loses(Mutant::StaleMarkedBlocks, 1, 4, 0));
}
