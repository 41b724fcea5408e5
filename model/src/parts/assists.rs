//! A marker that stays to the end and a thread that assists it for a while: sharing, leaving early,
//! sleeping, the end. After `mark/sharing`, `mark/done.rs` and `cycle/workers`.
//!
//! Work is counted, not named. Invariants checked: when marking is over there is no work left and
//! nobody inside (`mark.inv.done`, `mark.inv.leftover`, `cycle.inv.gate`), and it comes to an end
//! (`mark.inv.idle`). Called by the checker.

use stateright::{Model, Property};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The markers as they are.
    None,
    /// Who leaves work for others takes itself off the count in any case.
    /// `mark.inv.leftover`
    LeavesUncounted,
    /// Who takes the last of what was left does not take the list's count off.
    /// `mark.inv.leftover`
    KeepsListCount,
    /// A marker steals before it counts as active.
    /// `mark.inv.done`
    StealsInactive,
    /// The driver does not wait for those inside the gate.
    /// `cycle.inv.gate`
    GateUnwaited,
    /// Who has no work looks for some, and says that it sleeps then.
    /// `mark.inv.idle`
    SleepsUnseen,
}

/// What the checker looks for.
pub const ALL_IS_MARKED: &str = "when marking is over there is no work and nobody inside";
/// The same.
pub const MARKING_ENDS: &str = "marking comes to an end";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Outside,
    /// No work, and not active.
    Idle,
    /// Active, and looking for some.
    Trying,
    /// The mutant has stolen, and is not active.
    Stole,
    Working,
    /// It has found nothing, and says next that it sleeps: the mutant.
    Looked,
    /// It has said that it sleeps.
    Said,
    Asleep,
    /// The driver waits for those inside.
    Shutting,
    Done,
}

/// Where work is, and who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    places: [Place; 2],
    /// Work that each marker has in hand.
    stacks: [u8; 2],
    /// Who has shared work, and is to look for sleepers.
    owes: [bool; 2],
    deque: u8,
    list: u8,
    /// The mutant takes off more than there are.
    active: u8,
    open: bool,
    inside: u8,
    /// What may still be found.
    finds: u8,
    entries: u8,
}

/// One step of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Whatever comes next for it.
    Go(u8),
    /// Something is done, and something new was found.
    Find(u8),
    /// The driver shares something.
    Share,
    /// The assisting thread takes what was left, not what is shared.
    TakeLeft,
    /// Its time is up.
    Leave,
}

const STEPS: [Step; 7] = [
    Step::Go(0),
    Step::Go(1),
    Step::Find(0),
    Step::Find(1),
    Step::Share,
    Step::TakeLeft,
    Step::Leave,
];

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Assists {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn has_work(&self) -> bool {
        self.deque > 0 || self.list > 0 || self.active == 0
    }

    fn wake(&mut self) {
        if matches!(self.places[0], Place::Said | Place::Asleep) {
            self.places[0] = Place::Idle;
        }
    }
}

impl Assists {
    fn become_idle(&self, state: &mut State, index: usize) {
        state.active = state.active.wrapping_sub(1);
        state.places[index] = Place::Idle;
        if state.active == 0 {
            state.wake();
        }
    }

    fn take_left(&self, state: &mut State, index: usize) -> Option<()> {
        state.list = state.list.checked_sub(1)?;
        if state.list == 0 && self.mutant != Mutant::KeepsListCount {
            state.active = state.active.wrapping_sub(1);
        }
        (state.stacks[index], state.places[index]) = (1, Place::Working);
        Some(())
    }

    fn steal(&self, state: &mut State, index: usize, then: Place) -> bool {
        let stolen = state.deque > 0;
        if stolen {
            state.deque -= 1;
            (state.stacks[index], state.places[index]) = (1, then);
        }
        stolen
    }

    fn go(&self, state: &mut State, index: usize) -> Option<()> {
        if core::mem::take(&mut state.owes[index]) {
            state.wake();
            return Some(());
        }
        match state.places[index] {
            Place::Outside => {
                state.entries = state.entries.checked_sub(1)?;
                state.open.then_some(())?;
                (state.inside, state.places[1]) = (state.inside + 1, Place::Idle);
            }
            Place::Idle if index == 0 && state.active == 0 => {
                (state.open, state.places[0]) = (false, Place::Shutting);
            }
            Place::Idle if index == 1 && self.mutant == Mutant::StealsInactive => {
                self.steal(state, 1, Place::Stole).then_some(())?;
            }
            Place::Idle if index == 0 && !state.has_work() => {
                let unseen = self.mutant == Mutant::SleepsUnseen;
                state.places[0] = if unseen { Place::Looked } else { Place::Said };
            }
            Place::Idle => {
                state.active = state.active.wrapping_add(1);
                state.places[index] = Place::Trying;
            }
            Place::Trying => {
                if !self.steal(state, index, Place::Working)
                    && self.take_left(state, index).is_none()
                {
                    self.become_idle(state, index);
                }
            }
            Place::Stole => {
                state.active = state.active.wrapping_add(1);
                state.places[index] = Place::Working;
            }
            Place::Working if state.stacks[index] > 0 => state.stacks[index] -= 1,
            Place::Working => {
                // The driver has its own deque to go on with.
                if index == 1 || !self.steal(state, 0, Place::Working) {
                    self.become_idle(state, index);
                }
            }
            Place::Looked => state.places[0] = Place::Asleep,
            Place::Said => {
                state.places[0] = if state.has_work() { Place::Idle } else { Place::Asleep };
            }
            Place::Shutting => {
                let waits = self.mutant != Mutant::GateUnwaited;
                (state.inside == 0 || !waits).then_some(())?;
                state.places[0] = Place::Done;
            }
            Place::Asleep | Place::Done => return None,
        }
        Some(())
    }

    fn leave(&self, state: &mut State) -> Option<()> {
        match state.places[1] {
            Place::Idle => {}
            Place::Working => {
                let was_empty = state.list == 0;
                state.list += core::mem::take(&mut state.stacks[1]);
                let counted = !was_empty || state.list == 0;
                if counted || self.mutant == Mutant::LeavesUncounted {
                    state.active = state.active.wrapping_sub(1);
                }
                state.owes[1] = true;
            }
            _ => return None,
        }
        (state.inside, state.places[1]) = (state.inside - 1, Place::Outside);
        Some(())
    }

    fn take(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Go(index) => self.go(state, index as usize),
            Step::Find(index) => {
                let index = index as usize;
                let works = state.places[index] == Place::Working && state.stacks[index] > 0;
                works.then_some(())?;
                state.finds = state.finds.checked_sub(1)?;
                state.stacks[index] += 1;
                Some(())
            }
            Step::Share => {
                let works = state.places[0] == Place::Working && state.stacks[0] > 1;
                (works && !state.owes[0]).then_some(())?;
                state.stacks[0] -= 1;
                state.owes[0] = true;
                state.deque += 1;
                Some(())
            }
            Step::TakeLeft => {
                (state.places[1] == Place::Trying).then_some(())?;
                self.take_left(state, 1)
            }
            Step::Leave => self.leave(state),
        }
    }
}

impl Model for Assists {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            places: [Place::Working, Place::Outside],
            stacks: [2, 0],
            owes: [false; 2],
            deque: 0,
            list: 0,
            active: 1,
            open: true,
            inside: 0,
            finds: 2,
            entries: 3,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend(STEPS);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.take(&mut next, step).filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ALL_IS_MARKED, |_, state: &State| {
                let work = state.stacks[0] + state.stacks[1] + state.deque + state.list;
                state.places[0] != Place::Done || (work == 0 && state.inside == 0)
            }),
            Property::always(MARKING_ENDS, |model: &Self, state: &State| {
                let moves = |step: &Step| model.next_state(state, *step).is_some();
                state.places[0] == Place::Done || STEPS.iter().any(moves)
            }),
            Property::sometimes("work is left for the driver", |_, state: &State| {
                state.list > 1 && state.places[1] == Place::Outside
            }),
            Property::sometimes("the driver sleeps", |_, state: &State| {
                state.places[0] == Place::Asleep
            }),
            Property::sometimes("it is over", |_, state: &State| state.places[0] == Place::Done),
        ]
    }
}
