//! A large object that grows while a cycle protects it, into a chunk that the watch may not know.
//! After `heap/frames/watched.rs` (`Heap::reaches_beyond`) and `alloc/resize.rs`.
//!
//! The object has a word in the first chunk, and when it has grown another in the second; a leaf
//! moves between them and the register. Invariant checked: the last stop leaves the leaf marked if
//! it can be reached (`heap.inv.protected`). Called by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// Of an object that reaches into a chunk that the watch does not know, the rest is protected.
    /// `heap.inv.protected`
    ProtectsInPart,
    /// Whether it does is asked when chunks are made known, before it is protected.
    /// `heap.inv.protected`
    AsksBefore,
    /// A protected object grows, and what it had stays protected.
    /// `heap.inv.protected`
    GrowsInPart,
}

/// Where the collector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// Chunks are known to the watch.
    Known,
    /// The object is protected, or left out.
    Protected,
    Scanned,
    Stopped,
}

/// The object, the leaf and the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Whether each leads to the leaf.
    words: [bool; 2],
    register: bool,
    grown: bool,
    /// The system lets the watch know the second chunk.
    allows: bool,
    known: [bool; 2],
    /// As it was asked before, by the mutant.
    reached_beyond: bool,
    /// Pages whose writes are reported, and what is reported.
    protected: [bool; 2],
    written: [bool; 2],
    /// The object counts as protected: its pages are asked for one by one.
    counts: bool,
    allocated: bool,
    marked: bool,
    at: At,
    cycles: u8,
    operations: u8,
}

/// One step of the program or the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The program's: the register gets what a word has.
    Load(usize),
    /// The word gets what the register has.
    Store(usize),
    /// The word becomes null.
    Clear(usize),
    /// The register becomes null.
    Drop,
    /// The object grows.
    Grow,
    /// The collector's: chunks are made known.
    Begin,
    /// The object is protected.
    Protect,
    /// It is scanned.
    Scan,
    /// The last stop.
    Stop,
    /// What is not marked is freed.
    Sweep,
}

const STEPS: [Step; 13] = [
    Step::Load(0),
    Step::Load(1),
    Step::Store(0),
    Step::Store(1),
    Step::Clear(0),
    Step::Clear(1),
    Step::Drop,
    Step::Grow,
    Step::Begin,
    Step::Protect,
    Step::Scan,
    Step::Stop,
    Step::Sweep,
];

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Growing {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn write(&mut self, word: usize, leads: bool) {
        self.words[word] = leads;
        self.written[word] |= self.protected[word];
        self.protected[word] = false;
    }

    fn reaches_beyond(&self) -> bool {
        self.grown && !self.known[1]
    }

    fn is_reachable(&self) -> bool {
        self.register || self.words[0] || self.words[1]
    }
}

impl Growing {
    fn program(&self, state: &mut State, step: Step) -> Option<()> {
        state.operations = state.operations.checked_sub(1)?;
        let has = |word: usize| word == 0 || state.grown;
        match step {
            Step::Load(word) if has(word) => state.register = state.words[word],
            Step::Store(word) if has(word) => state.write(word, state.register),
            Step::Clear(word) if has(word) => state.write(word, false),
            Step::Drop => state.register = false,
            Step::Grow if !state.grown => {
                state.grown = true;
                if self.mutant != Mutant::GrowsInPart {
                    (state.counts, state.protected) = (false, [false; 2]);
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn protect(&self, state: &mut State) {
        let left_out = match self.mutant {
            Mutant::ProtectsInPart => false,
            Mutant::AsksBefore => state.reached_beyond,
            _ => state.reaches_beyond(),
        };
        state.counts = !left_out;
        state.protected = [!left_out, !left_out && state.grown && state.known[1]];
        state.written = [false; 2];
    }

    fn collector(&self, state: &mut State, step: Step) -> Option<()> {
        state.at = match (state.at, step) {
            (At::Idle, Step::Begin) => {
                state.cycles = state.cycles.checked_sub(1)?;
                state.known = [true, state.known[1] || state.grown && state.allows];
                state.reached_beyond = state.reaches_beyond();
                state.marked = false;
                At::Known
            }
            (At::Known, Step::Protect) => {
                self.protect(state);
                At::Protected
            }
            (At::Protected, Step::Scan) => {
                state.marked = state.words[0] || state.words[1];
                At::Scanned
            }
            (At::Scanned, Step::Stop) => {
                let is_read = |word: &usize| !state.counts || state.written[*word];
                state.marked |= (0..2).filter(is_read).any(|word| state.words[word]);
                state.marked |= state.register;
                At::Stopped
            }
            (At::Stopped, Step::Sweep) => {
                state.allocated &= state.marked;
                At::Idle
            }
            _ => return None,
        };
        Some(())
    }
}

impl Model for Growing {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let begins = |allows| State {
            words: [true, false],
            register: false,
            grown: false,
            allows,
            known: [false; 2],
            reached_beyond: false,
            protected: [false; 2],
            written: [false; 2],
            counts: false,
            allocated: true,
            marked: false,
            at: At::Idle,
            cycles: 2,
            operations: 8,
        };
        vec![begins(false), begins(true)]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend(STEPS);
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
                !state.is_reachable()
                    || state.allocated && (state.at != At::Stopped || state.marked)
            }),
            Property::sometimes("all of a grown object is protected", |_, state: &State| {
                state.at == At::Scanned && state.protected == [true; 2]
            }),
            Property::sometimes("one is left out", |_, state: &State| {
                state.at == At::Scanned && state.known[0] && state.grown && !state.counts
            }),
            Property::sometimes("something dead is found dead", |_, state: &State| {
                state.at == At::Stopped && !state.marked
            }),
        ]
    }
}
