//! Holding collections off while the last pause left references to process, and threads that wait
//! for them. After `cycle/driver/holding.rs` and `cycle/driver/handshake.rs`.
//!
//! One thread wants memory, of which there is none before the references are processed, and waits
//! for that in a critical section; another holds collections off, and then stops the first or wants
//! memory itself; the collector's thread processes what a pause has left. Invariant checked: nobody
//! waits for ever (`cycle.inv.held`). Called by the checker.

use stateright::{Model, Property};

use super::loader::NOTHING_HANGS;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// Who holds off leaves them to the collector's thread.
    /// `cycle.inv.held`
    LeavesThem,
    /// A pause says that it leaves some when it has given the lock back.
    /// `cycle.inv.held`
    TellsUnlocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pause {
    ToCome,
    Locked,
    /// Over, and not yet said what is left; by the mutant.
    Untold,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Allocator {
    Runs,
    /// In a critical section: it cannot be stopped.
    Waits,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Begins,
    Holds,
    /// It waits for memory.
    Waits,
    /// It waits for the other to stand.
    Stops,
    Done,
}

/// The lock and the three threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The collector's lock is taken.
    locked: bool,
    /// References are left to process.
    left: bool,
    /// They were processed: there is memory.
    room: bool,
    pause: Pause,
    allocator: Allocator,
    holder: Holder,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The collector's thread goes on with its pause.
    Pause,
    /// It processes what is left.
    Process,
    /// The thread that wants memory goes on.
    Allocate,
    /// The holder goes on.
    Hold,
    /// It stops the other while it holds.
    Stop,
}

const STEPS: [Step; 5] = [Step::Pause, Step::Process, Step::Allocate, Step::Hold, Step::Stop];

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Holding {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn lock(&mut self) -> Option<()> {
        (!core::mem::replace(&mut self.locked, true)).then_some(())
    }

    fn process(&mut self) {
        self.room |= core::mem::take(&mut self.left);
    }

    fn is_done(&self) -> bool {
        (self.allocator, self.holder) == (Allocator::Done, Holder::Done)
    }
}

impl Holding {
    fn pause(&self, state: &mut State) -> Option<()> {
        state.pause = match state.pause {
            Pause::ToCome => {
                state.lock()?;
                Pause::Locked
            }
            Pause::Locked => {
                state.locked = false;
                if self.mutant == Mutant::TellsUnlocked {
                    Pause::Untold
                } else {
                    state.left = true;
                    Pause::Over
                }
            }
            Pause::Untold => {
                state.left = true;
                Pause::Over
            }
            Pause::Over => return None,
        };
        Some(())
    }

    /// While the holder stops it, it goes on only to leave its critical section.
    fn allocate(&self, state: &mut State) -> Option<()> {
        state.allocator = match state.allocator {
            Allocator::Runs if state.holder != Holder::Stops => Allocator::Waits,
            Allocator::Waits if state.room => Allocator::Done,
            _ => return None,
        };
        Some(())
    }

    fn hold(&self, state: &mut State) -> Option<()> {
        state.holder = match state.holder {
            // Before a pause that is to come there would be nothing to wait for.
            Holder::Begins if state.pause != Pause::ToCome => {
                state.lock()?;
                if self.mutant != Mutant::LeavesThem {
                    state.process();
                }
                Holder::Holds
            }
            Holder::Holds => Holder::Waits,
            Holder::Waits if state.room => {
                state.locked = false;
                Holder::Done
            }
            Holder::Stops if state.allocator != Allocator::Waits => {
                state.locked = false;
                Holder::Done
            }
            _ => return None,
        };
        Some(())
    }
}

impl Model for Holding {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            locked: false,
            left: false,
            room: false,
            pause: Pause::ToCome,
            allocator: Allocator::Runs,
            holder: Holder::Begins,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend(STEPS);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        let taken = match step {
            Step::Pause => self.pause(&mut next),
            Step::Process if next.left => next.lock().map(|()| {
                next.process();
                next.locked = false;
            }),
            Step::Process => None,
            Step::Allocate => self.allocate(&mut next),
            Step::Hold => self.hold(&mut next),
            Step::Stop => (next.holder == Holder::Holds).then(|| next.holder = Holder::Stops),
        };
        taken.filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_HANGS, |model: &Self, state: &State| {
                let goes_on = STEPS.iter().any(|step| model.next_state(state, *step).is_some());
                state.is_done() || goes_on
            }),
            Property::sometimes("who is stopped waits for memory", |_, state: &State| {
                state.holder == Holder::Stops && state.allocator == Allocator::Waits
            }),
            Property::sometimes("all is done", |_, state: &State| state.is_done()),
        ]
    }
}
