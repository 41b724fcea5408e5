//! Locks of libc's, one of them here, and stops: a thread loads an object, another makes a thread
//! of the library's, a third stops both. After `world/roots.rs` and
//! `runtime/interposed/helpers.rs`.
//!
//! Invariants checked: nothing hangs (`world.inv.maker`, `world.inv.critical`), and the list of
//! loaded objects is whole in a stop (`world.inv.roots`). Called by the checker.

use stateright::{Model, Property};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The library as it is.
    None,
    /// Who makes a thread has its signals blocked.
    /// `world.inv.maker`
    MakerBlocksSignals,
    /// Who makes a thread is in a critical section.
    /// `world.inv.maker`
    MakerIsCritical,
    /// The list is made, and the world stopped after the lock was given back.
    /// `world.inv.roots`
    ListsBefore,
    /// The list is made in the stop, under the lock.
    /// `world.inv.roots`
    ListsInStop,
}

/// What the checker looks for.
pub const NOTHING_HANGS: &str = "whoever waits goes on";
/// The same.
pub const LIST_IS_WHOLE: &str = "a stop knows what is loaded";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thread {
    Begins,
    /// It waits for libc's lock.
    Waits,
    Holds,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stopper {
    Begins,
    Locked,
    Listed,
    /// Both are asked.
    Asks,
    Stopped,
    Over,
}

/// The lock, the loaded objects, three threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Who has the lock: 0 and 1, the two, or 2, the stopper.
    lock: Option<u8>,
    loaded: u8,
    listed: u8,
    /// Who loads, and who makes a thread.
    threads: [Thread; 2],
    stands: [bool; 2],
    stopper: Stopper,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A thread's.
    Go(u8),
    /// A thread's handler answers.
    Handle(u8),
    /// The stopper's.
    Stop,
}

const STEPS: [Step; 5] = [Step::Go(0), Step::Go(1), Step::Handle(0), Step::Handle(1), Step::Stop];

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Loader {
    /// With which mistake.
    pub mutant: Mutant,
}

impl Loader {
    /// Whether a stop reaches the thread where it is.
    fn can_stand(&self, state: &State, index: usize) -> bool {
        let holds_off = matches!(self.mutant, Mutant::MakerBlocksSignals | Mutant::MakerIsCritical);
        let inside = matches!(state.threads[index], Thread::Waits | Thread::Holds);
        !(holds_off && index == 1 && inside)
    }

    fn go(&self, state: &mut State, index: usize) -> Option<()> {
        (!state.stands[index]).then_some(())?;
        state.threads[index] = match state.threads[index] {
            Thread::Begins => Thread::Waits,
            Thread::Waits => {
                state.lock.is_none().then_some(())?;
                state.lock = Some(index as u8);
                Thread::Holds
            }
            Thread::Holds => {
                state.loaded += (index == 0) as u8;
                state.lock = None;
                Thread::Done
            }
            Thread::Done => return None,
        };
        Some(())
    }

    fn stop(&self, state: &mut State) -> Option<()> {
        let in_stop = self.mutant == Mutant::ListsInStop;
        state.stopper = match state.stopper {
            Stopper::Begins if in_stop => Stopper::Asks,
            Stopper::Begins => {
                state.lock.is_none().then_some(())?;
                state.lock = Some(2);
                Stopper::Locked
            }
            Stopper::Locked => {
                state.listed = state.loaded;
                Stopper::Listed
            }
            Stopper::Listed => {
                if self.mutant == Mutant::ListsBefore {
                    state.lock = None;
                }
                Stopper::Asks
            }
            Stopper::Asks => {
                state.stands.iter().all(|stands| *stands).then_some(())?;
                if in_stop {
                    state.lock.is_none().then_some(())?;
                    state.listed = state.loaded;
                }
                if state.lock == Some(2) {
                    state.lock = None;
                }
                Stopper::Stopped
            }
            Stopper::Stopped => {
                state.stands = [false; 2];
                Stopper::Over
            }
            Stopper::Over => return None,
        };
        Some(())
    }
}

impl Model for Loader {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lock: None,
            loaded: 0,
            listed: 0,
            threads: [Thread::Begins; 2],
            stands: [false; 2],
            stopper: Stopper::Begins,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend(STEPS);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        let taken = match step {
            Step::Go(index) => self.go(&mut next, index as usize),
            Step::Handle(index) => {
                let index = index as usize;
                let asked = next.stopper == Stopper::Asks && self.can_stand(&next, index);
                asked.then(|| next.stands[index] = true)
            }
            Step::Stop => self.stop(&mut next),
        };
        taken.filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_HANGS, |model: &Self, state: &State| {
                let done = state.stopper == Stopper::Over && state.threads == [Thread::Done; 2];
                done || STEPS.iter().any(|step| model.next_state(state, *step).is_some())
            }),
            Property::always(LIST_IS_WHOLE, |_, state: &State| {
                state.stopper != Stopper::Stopped || state.listed == state.loaded
            }),
            Property::sometimes("a thread stands and waits for the lock", |_, state: &State| {
                state.stands[1] && state.threads[1] == Thread::Waits
            }),
            Property::sometimes("all is done", |_, state: &State| {
                state.stopper == Stopper::Over && state.threads == [Thread::Done; 2]
            }),
        ]
    }
}
