//! Weak references while a snapshot is marked: what was dead in it may be brought back by reading
//! one. After `refs/handles/retargeted.rs` and `cycle/modes/snapshot_modes.rs`.
//!
//! One thread reads a weak handle, another sets it anew. Marking is one step here, in the first
//! stop; `before_images.rs` has the rest of it. Invariant checked: nothing that a thread or the
//! variable holds is freed (`cycle.inv.snapshot`, `refs.inv.retargeted`). Called by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;
use crate::heap::Set;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// Who reads the handle does not say so.
    /// `cycle.inv.snapshot`
    SaysNothing,
    /// Who reads says so after making sure that the handle still leads there.
    /// `refs.inv.retargeted`
    SaysAfterLooking,
    /// Who changes the handle does not remember what it led to.
    /// `refs.inv.retargeted`
    ForgetsChanged,
    /// Who changes it looks whether somebody read it, and changes it then.
    /// `refs.inv.retargeted`
    LooksBeforeChange,
    /// Objects are born unmarked.
    /// `cycle.inv.snapshot`
    BornUnmarked,
    /// The last stop does not ask whether a handle was read.
    /// `cycle.inv.snapshot`
    IgnoresReads,
}

const OBJECTS: u8 = 3;

/// Objects, the handle, two threads, the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What the handle leads to: an object's number and 1.
    slot: u8,
    variable: u8,
    /// What the reader has, what it has loaded and not made sure of, and how far it is.
    reader: u8,
    loaded: u8,
    read_steps: u8,
    /// What the other thread has; what the handle led to, while it changes it.
    setter: u8,
    former: Option<u8>,
    /// The setter saw that somebody had read, before its change.
    saw: bool,
    allocated: Set,
    marked: Set,
    taken: bool,
    revealed: bool,
    remembered: Set,
    marks_again: bool,
    cycles: u8,
    operations: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The reader's next step of a reading.
    Read,
    /// The reader puts what it has in the variable.
    Put,
    /// The reader forgets what it has.
    Drop,
    /// The variable becomes null.
    Clear,
    /// The setter gets a new object.
    Allocate(u8),
    /// The setter begins to set the handle, to what it has.
    Set,
    /// It ends: in a critical section with the step before.
    SetEnd,
    /// The first stop: the snapshot.
    First,
    /// The last stop, and the sweep.
    Last,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct WeakSnapshots {
    /// With which mistake.
    pub mutant: Mutant,
}

fn set_of(pointers: impl IntoIterator<Item = u8>) -> Set {
    let objects = pointers.into_iter().filter_map(|pointer| pointer.checked_sub(1));
    objects.fold(0, |set, object| set | 1 << object)
}

impl State {
    /// What the program has; what is only loaded is not its own yet.
    fn held(&self) -> Set {
        set_of([self.variable, self.reader, self.setter])
    }

    fn say(&mut self) {
        self.revealed |= self.taken;
    }
}

impl WeakSnapshots {
    fn read(&self, state: &mut State) {
        let last_says = self.mutant == Mutant::SaysAfterLooking;
        match state.read_steps {
            0 => state.loaded = state.slot,
            1 if last_says => state.reader = state.loaded,
            1 if self.mutant == Mutant::SaysNothing => {}
            1 => state.say(),
            _ if last_says => state.say(),
            _ if state.loaded == state.slot => state.reader = state.loaded,
            _ => {}
        }
        // The mutant looks in its second step.
        let changed = last_says && state.read_steps == 1 && state.loaded != state.slot;
        if changed {
            state.reader = 0;
        }
        state.read_steps = if changed { 0 } else { (state.read_steps + 1) % 3 };
        if state.read_steps == 0 {
            state.loaded = 0;
        }
    }

    fn take(&self, state: &mut State, step: Step) -> Option<()> {
        let looks_first = self.mutant == Mutant::LooksBeforeChange;
        match step {
            Step::Read => {
                if state.read_steps == 0 {
                    state.operations = state.operations.checked_sub(1)?;
                }
                self.read(state);
            }
            Step::SetEnd => {
                let former = state.former.take()?;
                if looks_first {
                    state.slot = core::mem::take(&mut state.setter);
                }
                let saw = if looks_first { state.saw } else { state.revealed };
                if saw && self.mutant != Mutant::ForgetsChanged {
                    state.remembered |= set_of([former]);
                }
            }
            Step::Last => {
                (state.taken && state.former.is_none()).then_some(())?;
                let dies = (state.remembered | set_of([state.slot])) & !state.marked != 0;
                state.marks_again = state.revealed && dies && self.mutant != Mutant::IgnoresReads;
                if state.marks_again {
                    state.marked = state.held() | set_of([state.loaded]);
                }
                if set_of([state.slot]) & !state.marked != 0 {
                    state.slot = 0;
                }
                state.allocated &= state.marked;
                state.taken = false;
            }
            Step::First => {
                (!state.taken && state.former.is_none()).then_some(())?;
                state.cycles = state.cycles.checked_sub(1)?;
                state.marked = state.held() | set_of([state.loaded]);
                (state.taken, state.revealed, state.remembered) = (true, false, 0);
                state.marks_again = false;
            }
            _ => {
                state.operations = state.operations.checked_sub(1)?;
                self.program(state, step)?;
            }
        }
        Some(())
    }

    fn program(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Put => state.variable = state.reader,
            Step::Drop => state.reader = 0,
            Step::Clear => state.variable = 0,
            Step::Allocate(object) if state.allocated & 1 << object == 0 => {
                state.allocated |= 1 << object;
                state.setter = object + 1;
                // Before the last stop is over all are.
                if state.taken && self.mutant != Mutant::BornUnmarked {
                    state.marked |= 1 << object;
                }
            }
            Step::Set if state.former.is_none() => {
                (state.former, state.saw) = (Some(state.slot), state.revealed);
                if self.mutant != Mutant::LooksBeforeChange {
                    state.slot = core::mem::take(&mut state.setter);
                }
            }
            _ => return None,
        }
        Some(())
    }
}

impl Model for WeakSnapshots {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            slot: 1,
            variable: 0,
            reader: 0,
            loaded: 0,
            read_steps: 0,
            setter: 0,
            former: None,
            saw: false,
            allocated: 0b001,
            marked: 0,
            taken: false,
            revealed: false,
            remembered: 0,
            marks_again: false,
            cycles: 2,
            operations: 6,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend([Step::Read, Step::Put, Step::Drop, Step::Clear, Step::Set, Step::SetEnd]);
        steps.extend((0..OBJECTS).map(Step::Allocate));
        steps.extend([Step::First, Step::Last]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.take(&mut next, step).filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| state.held() & !state.allocated == 0),
            Property::sometimes("a reading makes the last stop mark", |_, state: &State| {
                state.marks_again && state.held() != 0
            }),
            Property::sometimes("a handle expires", |_, state: &State| {
                state.slot == 0 && state.allocated == 0
            }),
        ]
    }
}
