//! An explicit free that takes no lock, beside a cycle that begins to mark and another thread that
//! wants the cell, with the store buffer of the thread that frees. After `alloc/free`,
//! `Local::change_bits` and `begin_marking_beside`.
//!
//! Invariant checked: whoever gets the cell finds no mark in it that was meant for the object
//! before (`alloc.inv.free`). Called by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// Who begins to mark does not wait for those who are freeing.
    /// `alloc.inv.free`
    WaitsForNobody,
    /// Nor has it what they stored made visible.
    /// `alloc.inv.free`
    NoBarrier,
    /// Who frees looks whether somebody marks, and then says that it frees.
    /// `alloc.inv.free`
    LooksFirst,
    /// The allocation bit is cleared before the mark bit.
    /// `alloc.inv.free`
    AllocationFirst,
}

/// Whose mark the mark bit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// It is clear.
    None,
    /// The freed object's.
    Old,
    /// That of the object that took its cell.
    New,
}

/// One cell, the thread that frees its object, a marker, and a thread that allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    freeing: bool,
    /// That it frees is in the processor's store buffer yet.
    buffered: bool,
    marking: bool,
    allocated: bool,
    /// The cell has another object.
    taken: bool,
    mark: Mark,
    /// Next instruction of the thread that frees.
    freer: u8,
    /// Next instruction of the marker.
    marker: u8,
    /// The marker found the object that took the cell.
    found_new: bool,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The next instruction of the thread that frees.
    Free,
    /// That of the marker, which has a word that leads to the cell.
    Mark,
    /// The other thread is given the cell, if it is free.
    Take,
    /// The processor of the thread that frees empties its store buffer.
    Drain,
}

impl State {
    fn drain(&mut self) {
        self.freeing |= core::mem::take(&mut self.buffered);
    }
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Frees {
    /// With which mistake.
    pub mutant: Mutant,
}

const FREED: u8 = 5;
const PUT_OFF: u8 = 6;
const MARKED: u8 = 5;

impl Frees {
    fn free(&self, state: &mut State) -> Option<()> {
        let (says, looks) = match self.mutant {
            Mutant::LooksFirst => (1, 0),
            _ => (0, 1),
        };
        let (first, second) = match self.mutant {
            Mutant::AllocationFirst => (3, 2),
            _ => (2, 3),
        };
        match state.freer {
            at if at == says => state.buffered = true,
            at if at == looks && state.marking => {
                (state.freeing, state.buffered, state.freer) = (false, false, PUT_OFF);
                return Some(());
            }
            at if at == looks => {}
            // Locked instructions, which empty the buffer.
            at if at == first => {
                state.drain();
                state.mark = Mark::None;
            }
            at if at == second => {
                state.drain();
                state.allocated = false;
            }
            4 => state.freeing = false,
            _ => return None,
        }
        state.freer += 1;
        Some(())
    }

    fn mark(&self, state: &mut State) -> Option<()> {
        match state.marker {
            0 => state.marking = true,
            1 if self.mutant != Mutant::NoBarrier => state.drain(),
            1 => {}
            2 if state.freeing && self.mutant != Mutant::WaitsForNobody => return None,
            2 => {}
            3 if state.allocated => state.found_new = state.taken,
            // The word leads nowhere: another one may come.
            3 => return None,
            4 => {
                let whose = if state.found_new { Mark::New } else { Mark::Old };
                if state.mark == Mark::None {
                    state.mark = whose;
                }
            }
            _ => return None,
        }
        state.marker += 1;
        Some(())
    }
}

impl Model for Frees {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let at_first = State {
            freeing: false,
            buffered: false,
            marking: false,
            allocated: true,
            taken: false,
            mark: Mark::None,
            freer: 0,
            marker: 0,
            found_new: false,
        };
        vec![at_first, State { mark: Mark::Old, ..at_first }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend([Step::Free, Step::Mark, Step::Take, Step::Drain]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        match step {
            Step::Free => self.free(&mut next),
            Step::Mark => self.mark(&mut next),
            Step::Drain => next.buffered.then(|| next.drain()),
            Step::Take => (!next.allocated).then(|| (next.allocated, next.taken) = (true, true)),
        }
        .map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| {
                !(state.taken && state.mark == Mark::Old)
            }),
            Property::sometimes("a free is put off", |_, state: &State| state.freer == PUT_OFF),
            Property::sometimes("the object that took the cell is marked", |_, state: &State| {
                state.marker == MARKED && state.mark == Mark::New && state.freer == FREED
            }),
        ]
    }
}
