//! Disabling collections while a cycle begins, marks or ends: what the program hides meanwhile and
//! shows again. After `cycle/driver/disabling.rs`.
//!
//! One object, and one variable that shows it or hides it. Invariant checked: what the program
//! could show again is not freed (`cycle.inv.disabled`), whether the cycle reads roots in its last
//! stop or has a snapshot of its first one. Called by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// A cycle begins while collections are disabled.
    /// `cycle.inv.disabled`
    BeginsDisabled,
    /// The cycle that is under way ends while they are.
    /// `cycle.inv.disabled`
    EndsDisabled,
    /// Who takes a stop looks before it has the lock.
    /// `cycle.inv.disabled`
    LooksUnlocked,
    /// Who disables does not wait for a stop that is being taken.
    /// `cycle.inv.disabled`
    WaitsForNobody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Program {
    Enabled,
    /// It has counted, and wants the lock.
    Counted,
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Collector {
    Away,
    /// It has seen that collections are enabled, without the lock.
    Looked,
    /// It has the lock, and takes the stop that comes next.
    Locked,
}

/// The object and the two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The cycle reads roots in its first stop, in place of its last one.
    snapshot: bool,
    /// The variable leads to the object; what it holds would, if it were shown.
    shown: bool,
    hidden: bool,
    allocated: bool,
    marked: bool,
    /// A cycle marks; it was given up once.
    marks: bool,
    gave_up: bool,
    program: Program,
    collector: Collector,
    operations: u8,
    stops: u8,
}

/// One step of the program or the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The program's.
    Disable,
    /// The call returns.
    Disabled,
    /// Collections again: all is shown then.
    Enable,
    /// The variable hides the object.
    Hide,
    /// It shows the object again.
    Show,
    /// It forgets the object.
    Forget,
    /// The collector's: it takes the lock.
    Lock,
    /// It takes the first stop, or the last one.
    Stop,
    /// It has waited for too long.
    GiveUp,
}

const STEPS: [Step; 9] = [
    Step::Disable,
    Step::Disabled,
    Step::Enable,
    Step::Hide,
    Step::Show,
    Step::Forget,
    Step::Lock,
    Step::Stop,
    Step::GiveUp,
];

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Disabling {
    /// With which mistake.
    pub mutant: Mutant,
}

impl Disabling {
    fn program(&self, state: &mut State, step: Step) -> Option<()> {
        let unlocked = state.collector != Collector::Locked;
        match (state.program, step) {
            (Program::Enabled, Step::Disable) => state.program = Program::Counted,
            (Program::Counted, Step::Disabled)
                if unlocked || self.mutant == Mutant::WaitsForNobody =>
            {
                state.program = Program::Disabled;
                return Some(());
            }
            (Program::Disabled, Step::Enable) if !state.hidden => state.program = Program::Enabled,
            (Program::Disabled, Step::Hide) if state.shown => {
                (state.shown, state.hidden) = (false, true);
            }
            (Program::Disabled, Step::Show) if state.hidden => {
                (state.shown, state.hidden) = (true, false);
            }
            (_, Step::Forget) => (state.shown, state.hidden) = (false, false),
            _ => return None,
        }
        state.operations = state.operations.checked_sub(1)?;
        Some(())
    }

    /// Whether the stop that comes next may be taken, as far as the collector looks.
    fn may_stop(&self, state: &State) -> bool {
        state.program == Program::Enabled
            || self.mutant == Mutant::BeginsDisabled && !state.marks
            || self.mutant == Mutant::EndsDisabled && state.marks
    }

    fn collector(&self, state: &mut State, step: Step) -> Option<()> {
        match (state.collector, step) {
            (Collector::Away, Step::Lock) if self.may_stop(state) => {
                state.collector = match self.mutant {
                    Mutant::LooksUnlocked => Collector::Looked,
                    _ => Collector::Locked,
                };
            }
            (Collector::Looked, Step::Lock) => state.collector = Collector::Locked,
            (Collector::Locked, Step::Stop) => {
                state.stops = state.stops.checked_sub(1)?;
                if state.marks != state.snapshot {
                    state.marked = state.shown;
                }
                state.allocated &= state.marked || !state.marks;
                (state.marks, state.collector) = (!state.marks, Collector::Away);
            }
            (Collector::Away, Step::GiveUp) if state.marks && !self.may_stop(state) => {
                (state.marks, state.gave_up) = (false, true);
            }
            _ => return None,
        }
        Some(())
    }
}

impl Model for Disabling {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let begins = |snapshot| State {
            snapshot,
            shown: true,
            hidden: false,
            allocated: true,
            marked: false,
            marks: false,
            gave_up: false,
            program: Program::Enabled,
            collector: Collector::Away,
            operations: 8,
            stops: 6,
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
            self.program(&mut next, step)
        });
        taken.filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| {
                state.allocated || !(state.shown || state.hidden)
            }),
            Property::sometimes("a cycle is given up", |_, state: &State| state.gave_up),
            Property::sometimes("a cycle is under way while all is hidden", |_, state: &State| {
                state.marks && state.hidden
            }),
            Property::sometimes("something dead is found dead", |_, state: &State| {
                !state.allocated
            }),
        ]
    }
}
