//! Objects that local functions of the program trace: put aside beside the program, called for in
//! one of many short stops, and again where they were written since. After `mark/aside.rs` and
//! `cycle/modes/incremental_update.rs`.
//!
//! The traced object leads to what two of its own words name, on a page that is watched. Invariant
//! checked: the last stop leaves nothing reachable unmarked, also in minor cycles
//! (`mark.inv.traced`). Called by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;
use crate::heap::Set;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// The last stop does not call for what was written since it was called for.
    /// `mark.inv.traced`
    StopIgnoresWritten,
    /// A round protects the page again, and does not put aside what lies on it.
    /// `mark.inv.traced`
    RoundForgetsWritten,
    /// A minor cycle does not call for what was written since the last one.
    /// `mark.inv.traced`
    MinorForgetsWritten,
}

/// Where the collector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    Marking,
    Stopped,
}

/// The traced object is number 0, the others are leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The words of the traced object: an object's number and 1.
    words: [u8; 2],
    /// The variable leads to the traced object.
    held: bool,
    register: u8,
    allocated: Set,
    marked: Set,
    at: At,
    /// The page was written since it was protected.
    written: bool,
    /// The traced object was put aside; it was called for in a short stop of this cycle.
    aside: bool,
    called: bool,
    cycles: u8,
    operations: u8,
}

/// One step of the program or the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The program's.
    Load(u8),
    /// The register goes to a word of the traced object.
    Store(u8),
    /// Such a word becomes null.
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
    /// It asks for written pages, and protects them again.
    Round,
    /// A short stop.
    Middle,
    /// The last stop.
    Stop,
    /// What is not marked is freed.
    Sweep,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct LocalFunctions {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn mark(&mut self, pointer: u8) {
        if let Some(object) = pointer.checked_sub(1)
            && self.allocated & !self.marked & 1 << object != 0
        {
            self.marked |= 1 << object;
            self.aside |= object == 0;
        }
    }

    /// The page is asked about and protected again; what is marked on it is put aside.
    fn ask(&mut self, forgets: bool) {
        self.aside |= self.written && self.marked & 1 != 0 && !forgets;
        self.written = false;
    }

    fn call(&mut self) {
        if core::mem::take(&mut self.aside) {
            self.words.into_iter().for_each(|word| self.mark(word));
            self.called = true;
        }
    }

    fn reachable(&self) -> Set {
        let words = if self.held { self.words } else { [0; 2] };
        let pointers = words.into_iter().chain([self.register]);
        let objects = pointers.filter_map(|word| word.checked_sub(1));
        objects.fold(self.held as Set, |set, object| set | 1 << object)
    }

    fn write(&mut self, word: u8, pointer: u8) {
        self.words[word as usize] = pointer;
        self.written = true;
    }

    fn program(&mut self, step: Step) -> Option<()> {
        self.operations = self.operations.checked_sub(1)?;
        match step {
            Step::Load(word) if self.held => self.register = self.words[word as usize],
            Step::Store(word) if self.held => self.write(word, self.register),
            Step::Clear(word) if self.held => self.write(word, 0),
            Step::Drop => self.register = 0,
            Step::Allocate(leaf) if self.allocated & 1 << leaf == 0 => {
                self.allocated |= 1 << leaf;
                self.register = leaf + 1;
            }
            Step::Forget => self.held = false,
            _ => return None,
        }
        Some(())
    }
}

impl LocalFunctions {
    fn collector(&self, state: &mut State, step: Step) -> Option<()> {
        match (state.at, step) {
            (At::Idle, Step::Begin { full }) => {
                state.cycles = state.cycles.checked_sub(1)?;
                (state.at, state.called) = (At::Marking, false);
                if full {
                    (state.marked, state.aside) = (0, false);
                }
                state.ask(self.mutant == Mutant::MinorForgetsWritten);
                state.mark(state.held as u8);
            }
            (At::Marking, Step::Round) => state.ask(self.mutant == Mutant::RoundForgetsWritten),
            (At::Marking, Step::Middle) if state.aside => state.call(),
            (At::Marking, Step::Stop) => {
                state.mark(state.register);
                state.mark(state.held as u8);
                state.ask(self.mutant == Mutant::StopIgnoresWritten);
                state.call();
                state.at = At::Stopped;
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

impl Model for LocalFunctions {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            words: [2, 0],
            held: true,
            register: 0,
            allocated: 0b011,
            marked: 0,
            at: At::Idle,
            written: true,
            aside: false,
            called: false,
            cycles: 3,
            operations: 6,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        for word in 0..2 {
            steps.extend([Step::Load(word), Step::Store(word), Step::Clear(word)]);
            steps.push(Step::Allocate(word + 1));
        }
        steps.extend([Step::Drop, Step::Forget, Step::Round, Step::Middle, Step::Stop]);
        steps.extend([Step::Begin { full: true }, Step::Begin { full: false }, Step::Sweep]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        let taken = self.collector(&mut next, step).or_else(|| {
            next = *last;
            (next.at != At::Stopped).then_some(())?;
            next.program(step)
        });
        taken.filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| {
                state.reachable() & !state.allocated == 0
                    && (state.at != At::Stopped || state.reachable() & !state.marked == 0)
            }),
            Property::sometimes("the last stop calls for nothing", |_, state: &State| {
                state.at == At::Marking && state.called && !state.aside && !state.written
            }),
            Property::sometimes("something dead is found dead", |_, state: &State| {
                state.at == At::Stopped && state.allocated & !state.marked != 0
            }),
        ]
    }
}
