//! Objects that the program's own functions trace: put aside beside the program, traced for a start
//! in the middle stop, and again in the last one. After `mark/aside.rs` and
//! `cycle/modes/incremental_update.rs`.
//!
//! A traced object leads to what two words name that no watch sees. Invariant checked: the last
//! stop leaves nothing reachable unmarked, also in minor cycles (`mark.inv.traced`). Called by the
//! checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;
use crate::heap::Set;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// The last stop does not trace what the middle one traced.
    TracesOnce,
    /// A minor cycle does not trace what the last cycle did.
    /// `mark.inv.traced`
    MinorForgetsTraced,
    /// Functions are called beside the program, and not again.
    TracesBesideProgram,
    /// The middle stop ends the cycle: its roots are not read again.
    MiddleIsLast,
}

/// Where the collector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    Marking,
    /// The function has read the second word and not the first, beside the program.
    HalfTraced,
    Stopped,
}

/// The traced object is number 0, the others are leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What the traced object's function follows: an object's number and 1.
    hidden: [u8; 2],
    /// The variable leads to the traced object.
    held: bool,
    register: u8,
    allocated: Set,
    marked: Set,
    at: At,
    full: bool,
    /// The traced object was put aside; it was traced in a stop of this cycle; in the last cycle.
    aside: bool,
    traced: bool,
    known: bool,
    middle: bool,
    cycles: u8,
    operations: u8,
}

/// One step of the program or the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The program's.
    Load(u8),
    /// The register goes to a hidden word.
    Store(u8),
    /// A hidden word becomes null.
    Clear(u8),
    /// The register becomes null.
    Drop,
    /// The register gets a new leaf.
    Allocate(u8),
    /// The variable forgets the traced object.
    Forget,
    /// The collector's: a cycle begins, and reads the variable.
    Begin {
        /// Marks are cleared.
        full: bool,
    },
    /// A function called beside the program, by the mutant.
    Trace,
    /// Its second half.
    TraceOn,
    /// The middle stop.
    Middle,
    /// The last stop.
    Stop,
    /// What is not marked is freed.
    Sweep,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct MiddleStop {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn mark(&mut self, pointer: u8) {
        if let Some(object) = pointer.checked_sub(1)
            && self.allocated & !self.marked & 1 << object != 0
        {
            self.marked |= 1 << object;
            // The marker does not scan it.
            self.aside |= object == 0;
        }
    }

    fn trace(&mut self) {
        if self.aside {
            self.hidden.into_iter().for_each(|word| self.mark(word));
            self.traced = true;
        }
    }

    fn reachable(&self) -> Set {
        let hidden = if self.held { self.hidden } else { [0; 2] };
        let pointers = hidden.into_iter().chain([self.register]);
        let objects = pointers.filter_map(|word| word.checked_sub(1));
        objects.fold(self.held as Set, |set, object| set | 1 << object)
    }
}

impl MiddleStop {
    fn program(&self, state: &mut State, step: Step) -> Option<()> {
        state.operations = state.operations.checked_sub(1)?;
        match step {
            Step::Load(word) if state.held => state.register = state.hidden[word as usize],
            Step::Store(word) if state.held => state.hidden[word as usize] = state.register,
            Step::Clear(word) if state.held => state.hidden[word as usize] = 0,
            Step::Drop => state.register = 0,
            Step::Allocate(leaf) if state.allocated & 1 << leaf == 0 => {
                state.allocated |= 1 << leaf;
                state.register = leaf + 1;
            }
            Step::Forget => state.held = false,
            _ => return None,
        }
        Some(())
    }

    fn collector(&self, state: &mut State, step: Step) -> Option<()> {
        let beside = self.mutant == Mutant::TracesBesideProgram;
        match (state.at, step) {
            (At::Idle, Step::Begin { full }) => {
                state.cycles = state.cycles.checked_sub(1)?;
                (state.at, state.full) = (At::Marking, full);
                (state.aside, state.traced, state.middle) = (false, false, false);
                if full {
                    state.marked = 0;
                } else if self.mutant != Mutant::MinorForgetsTraced {
                    state.aside = state.known && state.marked & 1 != 0;
                }
                state.mark(state.held as u8);
            }
            (At::Marking, Step::Trace) if beside && state.aside => {
                state.mark(state.hidden[1]);
                state.at = At::HalfTraced;
            }
            (At::HalfTraced, Step::TraceOn) => {
                state.mark(state.hidden[0]);
                (state.aside, state.traced, state.at) = (false, true, At::Marking);
            }
            (At::Marking, Step::Middle) if state.aside && !state.middle && !beside => {
                state.mark(state.register);
                state.trace();
                state.middle = true;
            }
            (At::Marking, Step::Stop) => {
                let once = matches!(self.mutant, Mutant::TracesOnce | Mutant::MiddleIsLast);
                if !(self.mutant == Mutant::MiddleIsLast && state.middle) {
                    state.mark(state.register);
                    state.mark(state.held as u8);
                }
                if !(once && state.traced) {
                    state.trace();
                }
                (state.at, state.known) = (At::Stopped, state.traced);
            }
            (At::Stopped, Step::Sweep) => {
                state.allocated &= state.marked;
                state.at = At::Idle;
            }
            _ => return None,
        }
        Some(())
    }
}

impl Model for MiddleStop {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            hidden: [2, 0],
            held: true,
            register: 0,
            allocated: 0b011,
            marked: 0,
            at: At::Idle,
            full: true,
            aside: false,
            traced: false,
            known: false,
            middle: false,
            cycles: 3,
            operations: 6,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        for word in 0..2 {
            steps.extend([Step::Load(word), Step::Store(word), Step::Clear(word)]);
            steps.push(Step::Allocate(word + 1));
        }
        steps.extend([Step::Drop, Step::Forget, Step::Trace, Step::TraceOn, Step::Middle]);
        steps.extend([Step::Begin { full: true }, Step::Begin { full: false }]);
        steps.extend([Step::Stop, Step::Sweep]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        let taken = self.collector(&mut next, step).or_else(|| {
            next = *last;
            (next.at != At::Stopped).then_some(())?;
            self.program(&mut next, step)
        });
        taken.filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| {
                state.reachable() & !state.allocated == 0
                    && (state.at != At::Stopped || state.reachable() & !state.marked == 0)
            }),
            Property::sometimes("the middle stop finds something", |_, state: &State| {
                state.at == At::Marking && state.middle && state.marked & 0b110 != 0
            }),
            Property::sometimes("something dead is found dead", |_, state: &State| {
                state.at == At::Stopped && state.allocated & !state.marked != 0
            }),
        ]
    }
}
