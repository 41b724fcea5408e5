//! A wait with a time that stops interrupt. After `runtime/interposed/waits`.
//!
//! Time goes by in steps. Invariant checked: the wait is over by the moment at which it was to end
//! when it began, or when the stop is over that this moment lies in (`world.inv.wait-ends`). Called
//! by the checker.

use stateright::{Model, Property};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Waits as they are.
    None,
    /// Each call waits for the whole time.
    /// `world.inv.wait-ends`
    WholeTimeAgain,
    /// The time that the thread stands does not count.
    /// `world.inv.wait-ends`
    StandingIsFree,
}

/// What the checker looks for.
pub const ENDS_IN_TIME: &str = "a wait ends by its moment";

const LENGTH: u8 = 4;

/// A clock and a waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    /// When the kernel's wait ends.
    ends: u8,
    /// Since when the thread stands.
    since: Option<u8>,
    /// When it last went on.
    went_on: u8,
    over: bool,
    stops: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Time goes by.
    Tick,
    /// A stop ends the kernel's wait.
    Stop,
    /// The thread goes on, and calls again.
    Resume,
    /// The wait is over.
    Return,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct TimedWaits {
    /// With which mistake.
    pub mutant: Mutant,
}

impl Model for TimedWaits {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let state = State { now: 0, ends: LENGTH, since: None, went_on: 0, over: false, stops: 3 };
        vec![state]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend([Step::Tick, Step::Stop, Step::Resume, Step::Return]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        let due = last.ends <= last.now;
        match (step, last.since) {
            _ if last.over => return None,
            (Step::Tick, None) if !due => next.now += 1,
            // A stop is short.
            (Step::Tick, Some(since)) if last.now < since + 2 => next.now += 1,
            (Step::Stop, None) if last.stops > 0 => {
                (next.since, next.stops) = (Some(last.now), last.stops - 1);
            }
            (Step::Resume, Some(since)) => {
                (next.since, next.went_on) = (None, last.now);
                next.ends = match self.mutant {
                    Mutant::None => last.ends,
                    Mutant::WholeTimeAgain => last.now + LENGTH,
                    Mutant::StandingIsFree => last.ends + (last.now - since),
                };
            }
            (Step::Return, None) if due => next.over = true,
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ENDS_IN_TIME, |_, state: &State| {
                !state.over || state.now <= LENGTH.max(state.went_on)
            }),
            Property::sometimes("a stop goes on beyond the moment", |_, state: &State| {
                state.over && state.now > LENGTH
            }),
            Property::sometimes("a wait ends in time after stops", |_, state: &State| {
                state.over && state.now == LENGTH && state.stops == 0
            }),
        ]
    }
}
