//! An allocation buffer, and stops between any two instructions of an allocation. After
//! `alloc/buffer` and `docs/design/alloc.md`.
//!
//! Invariant checked: no cell is two threads', and none that a thread has is freed
//! (`alloc.inv.buffer`). Called by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;
use crate::heap::{Set, each};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The allocator as it is.
    None,
    /// A stop leaves the thread no cell.
    /// `alloc.inv.buffer`
    LeavesNone,
    /// A stop gives all but the next cell back, and leaves the limit where it is.
    /// `alloc.inv.buffer`
    LimitStays,
    /// A stop leaves the next cell, and does not mark it.
    /// `alloc.inv.buffer`
    LeavesUnmarked,
}

const CELLS: u8 = 4;

/// The buffer, a thread in the middle of an allocation, and another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    cursor: u8,
    limit: u8,
    /// The cursor that the thread has read; whether it has compared it with the limit.
    read: Option<u8>,
    compared: bool,
    /// What the thread has, and what the other one has.
    held: Set,
    others: Set,
    allocated: Set,
    stops: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The thread's next instruction.
    Allocate,
    /// It forgets what it has.
    Drop,
    /// The other thread is given a free cell.
    Give(u8),
    /// A cycle's stop, and the sweep.
    Stop,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// With which mistake.
    pub mutant: Mutant,
}

impl Buffers {
    fn allocate(&self, state: &mut State) -> Option<()> {
        match (state.read, state.compared) {
            (None, _) => state.read = Some(state.cursor),
            (Some(cell), false) if cell < state.limit => state.compared = true,
            // The slow path, which gets a buffer elsewhere.
            (Some(_), false) => return None,
            (Some(cell), true) => {
                state.cursor = cell + 1;
                state.held |= 1 << cell;
                (state.read, state.compared) = (None, false);
            }
        }
        Some(())
    }

    fn stop(&self, state: &mut State) -> Option<()> {
        state.stops = state.stops.checked_sub(1)?;
        let mut marked = state.held | state.others;
        let left = state.cursor < state.limit && self.mutant != Mutant::LeavesNone;
        if left && self.mutant != Mutant::LeavesUnmarked {
            marked |= 1 << state.cursor;
        }
        match self.mutant {
            Mutant::LimitStays => {}
            Mutant::LeavesNone => {
                // As for a thread that is not in the middle of an allocation.
                state.limit = state.cursor;
            }
            _ => state.limit = state.limit.min(state.cursor + 1),
        }
        state.allocated &= marked;
        Some(())
    }
}

impl Model for Buffers {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            cursor: 0,
            limit: CELLS,
            read: None,
            compared: false,
            held: 0,
            others: 0,
            allocated: (1 << CELLS) - 1,
            stops: 2,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend([Step::Allocate, Step::Drop, Step::Stop]);
        steps.extend((0..CELLS).map(Step::Give));
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        let taken = match step {
            Step::Allocate => self.allocate(&mut next),
            Step::Drop => {
                next.held = 0;
                Some(())
            }
            Step::Give(cell) => (next.allocated & 1 << cell == 0).then(|| {
                next.allocated |= 1 << cell;
                next.others |= 1 << cell;
            }),
            Step::Stop => self.stop(&mut next),
        };
        taken.filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| {
                state.held & state.others == 0 && state.held & !state.allocated == 0
            }),
            Property::sometimes("the other thread gets most of the buffer", |_, state: &State| {
                each(state.others).count() == CELLS as usize - 1
            }),
            Property::sometimes("a stop comes in the middle", |_, state: &State| {
                state.stops < 2 && state.compared
            }),
        ]
    }
}
