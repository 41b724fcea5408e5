//! Marking by the program's threads, beside the collector's.
//!
//! Invariant: one piece of work at a time, in a critical section. Called by mutators.

use crate::cycle::policy::stall::PIECE_NS;
use crate::cycle::workers;
use crate::mark::markers::Until;
use crate::sys::{clock, thread};
use crate::world::{attach, host};

/// Marks with the collector's thread, a piece or, for who `waits` for the cycle in any case, until
/// marking is done; false if there was nothing to do. In a critical section: a stop for something
/// else waits until the piece is done, or has the thread leave in the midst of its work.
pub fn assist(waits: bool) -> bool {
    let mutator = attach::current();
    let _critical = mutator.critical();
    let until = match waits {
        true => Until::Wanted(mutator.stop_pending()),
        false => Until::Clock(clock::now_ns() + PIECE_NS),
    };
    // A host's threads may stand on small stacks.
    let assisted = workers::of_process().assist(until, host::get().is_some());
    thread::clear_vector_registers();
    assisted
}
