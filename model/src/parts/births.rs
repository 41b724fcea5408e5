//! Cells that are handed out while a cycle ends and the next one begins, with the store buffer of
//! the thread that is given them. After `alloc/refill`, `Local::change_bits` and
//! `clear_marks_beside`.
//!
//! Invariant checked: what an object leads to when the world stands is reached, also where the
//! object was to be born marked for the cycle before (`alloc.inv.born-marked`). Called by the
//! checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// Who clears marks does not wait for those who hand out cells.
    /// `alloc.inv.born-marked`
    WaitsForNobody,
    /// Nor has it what they stored made visible.
    /// `alloc.inv.born-marked`
    NoBarrier,
    /// Who hands out cells looks whether they are born marked, and then says that it does.
    /// `alloc.inv.born-marked`
    LooksFirst,
}

/// One cell, the thread that is given it, and who drives the cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    changing: bool,
    /// That it changes bits is in the processor's store buffer yet.
    buffered: bool,
    /// Objects are born marked.
    black: bool,
    /// What the thread has read of that.
    saw_black: bool,
    marked: bool,
    allocated: bool,
    /// The object leads to one that nothing else leads to.
    leads: bool,
    /// It was scanned in this cycle.
    scanned: bool,
    /// Next instruction of the thread.
    thread: u8,
    /// That of the driver.
    driver: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The next instruction of the thread.
    Thread,
    /// That of the driver.
    Drive,
    /// The thread's processor empties its store buffer.
    Drain,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Births {
    /// With which mistake.
    pub mutant: Mutant,
}

/// The thread has left its critical section, with its object.
const HANDED_OUT: u8 = 5;
/// The driver has stopped the world: the thread stands.
const STOPPED: u8 = 5;
const READ: u8 = 6;

impl State {
    fn drain(&mut self) {
        self.changing |= core::mem::take(&mut self.buffered);
    }
}

impl Births {
    fn run(&self, state: &mut State) -> Option<()> {
        if state.driver >= STOPPED {
            return None;
        }
        let says = u8::from(self.mutant == Mutant::LooksFirst);
        match state.thread {
            at if at == says => state.buffered = true,
            0 | 1 => state.saw_black = state.black,
            // Locked instructions, which empty the buffer.
            2 if state.saw_black => {
                state.drain();
                state.marked = true;
            }
            2 => {}
            3 => {
                state.drain();
                state.allocated = true;
            }
            4 => state.changing = false,
            HANDED_OUT => state.leads = true,
            _ => return None,
        }
        state.thread += 1;
        Some(())
    }

    fn drive(&self, state: &mut State) -> Option<()> {
        match state.driver {
            // The cycle before ends.
            0 => state.black = false,
            1 if self.mutant != Mutant::NoBarrier => state.drain(),
            1 => {}
            2 if state.changing && self.mutant != Mutant::WaitsForNobody => return None,
            2 => {}
            3 => state.marked = false,
            4 if (1..HANDED_OUT).contains(&state.thread) => return None,
            4 => {}
            STOPPED if state.allocated && !state.marked => {
                (state.marked, state.scanned) = (true, true);
            }
            STOPPED => {}
            _ => return None,
        }
        state.driver += 1;
        Some(())
    }
}

impl Model for Births {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            changing: false,
            buffered: false,
            black: true,
            saw_black: false,
            marked: false,
            allocated: false,
            leads: false,
            scanned: false,
            thread: 0,
            driver: 0,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend([Step::Thread, Step::Drive, Step::Drain]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        match step {
            Step::Thread => self.run(&mut next),
            Step::Drive => self.drive(&mut next),
            Step::Drain => next.buffered.then(|| next.drain()),
        }
        .map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| {
                !(state.driver == READ && state.leads && !state.scanned)
            }),
            Property::sometimes("what was born marked is scanned", |_, state: &State| {
                state.saw_black && state.scanned && state.leads
            }),
            Property::sometimes("what is born unmarked is scanned", |_, state: &State| {
                !state.saw_black && state.scanned && state.leads
            }),
        ]
    }
}
