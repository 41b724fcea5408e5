//! Weak handles that are read while references are processed beside the program. After
//! `refs/handles/process.rs` and `cycle/phases/reference_processing.rs`.
//!
//! Object 0 has a weak handle and leads to object 1; an ephemeron with a live key may keep it, or a
//! finalizer.
//! Invariant checked: nothing that the thread can reach is freed (`refs.inv.read`,
//! `refs.inv.followed`, `cycle.rule.conclude`). Called by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;
use crate::heap::Set;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// Who reads does not look at the handle again.
    /// `refs.inv.read`
    LooksOnce,
    /// Who reads asks for the phase before it has the address.
    /// `refs.inv.read`
    PhaseFirst,
    /// While ephemerons are followed who reads gets what is not marked.
    /// `refs.inv.followed`
    GivesUnmarked,
    /// Who reads gets what is marked and not scanned yet.
    /// `refs.inv.followed`
    GivesUnscanned,
    /// Who reads does not look again how far the cycle is after looking at the mark.
    /// `refs.inv.followed`
    PhaseOnce,
    /// Who reads by a handle that tracks resurrection gets what a finalizer is keeping.
    /// `refs.inv.followed`
    GivesResurrected,
    /// Objects are born unmarked after the last stop.
    /// `cycle.rule.conclude`
    BornUnmarked,
    /// What is not marked is freed before references are processed.
    /// `cycle.rule.conclude`
    SweepsEarly,
}

/// How far the cycle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Marking,
    /// Ephemerons are looked at.
    Ephemerons,
    /// Values of some are being marked.
    Following,
    /// One led to object 0, which is to be scanned.
    Followed,
    /// Handles expire.
    Short,
    /// What finalizers keep is being marked.
    Resurrecting,
    /// That was object 0, which is to be scanned.
    Resurrected,
    /// Handles that track resurrection expire.
    Long,
    Concluded,
}

/// What is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    No,
    Ephemerons,
    Following,
    Short,
    Finalizers,
    Long,
}

impl At {
    fn told(self) -> Phase {
        match self {
            Self::Marking | Self::Concluded => Phase::No,
            Self::Ephemerons => Phase::Ephemerons,
            Self::Following | Self::Followed => Phase::Following,
            Self::Short => Phase::Short,
            Self::Resurrecting | Self::Resurrected => Phase::Finalizers,
            Self::Long => Phase::Long,
        }
    }
}

/// Objects, the handle, the thread, the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    handle: bool,
    /// Object 0 leads to object 1.
    leads: bool,
    /// An ephemeron keeps object 0.
    kept: bool,
    /// Object 0 has a finalizer, which has not run.
    finalizer: bool,
    /// The handle tracks resurrection.
    long: bool,
    /// The thread's registers: objects that it has.
    holds: Set,
    /// It has loaded the handle, and not made sure.
    loaded: bool,
    /// How far it was told that the cycle is, and whether the mark was there.
    phase: Phase,
    saw_mark: bool,
    read_steps: u8,
    allocated: Set,
    marked: Set,
    at: At,
    swept: bool,
    waited: bool,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The next step of a reading.
    Read,
    /// The thread loads what object 0 leads to.
    Load,
    /// It stores null there.
    Clear,
    /// It forgets an object.
    Drop(u8),
    /// It gets a new object.
    Allocate(u8),
    /// The collector's next step.
    Collect,
    /// What is not marked is freed.
    Sweep,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct WeakReads {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn reachable_from(&self, mut set: Set) -> Set {
        if set & 1 != 0 && self.leads {
            set |= 0b10;
        }
        set
    }
}

impl WeakReads {
    /// What a reader makes of it: whether it is given the object, or None where it has to begin
    /// anew. The handle was looked at again.
    fn verdict_after(&self, state: &State) -> Option<bool> {
        let (marked, phase) = (state.saw_mark, state.phase);
        if phase == Phase::No {
            return Some(true);
        }
        if state.at.told() != phase && self.mutant != Mutant::PhaseOnce {
            return None;
        }
        match phase {
            Phase::Following if self.mutant != Mutant::GivesUnscanned => None,
            Phase::Finalizers if state.long && self.mutant != Mutant::GivesResurrected => None,
            _ if marked => Some(true),
            Phase::Ephemerons | Phase::Following => {
                (self.mutant == Mutant::GivesUnmarked).then_some(true)
            }
            Phase::Short | Phase::Finalizers if state.long => None,
            _ => Some(false),
        }
    }

    fn read(&self, state: &mut State) {
        match (state.read_steps, self.mutant == Mutant::PhaseFirst) {
            (0, true) | (1, false) => state.phase = state.at.told(),
            (0, false) | (1, true) => state.loaded = state.handle,
            // The handle is looked at again before the mark is.
            (2, _) => {
                let changed = state.handle != state.loaded && self.mutant != Mutant::LooksOnce;
                state.saw_mark = state.marked & 1 != 0;
                if changed {
                    (state.loaded, state.saw_mark) = (false, false);
                }
            }
            _ => {
                let verdict = self.verdict_after(state);
                state.waited |= state.loaded && verdict.is_none();
                if state.loaded && verdict == Some(true) {
                    state.holds |= 1;
                }
                (state.loaded, state.saw_mark, state.phase) = (false, false, Phase::No);
            }
        }
        state.read_steps = (state.read_steps + 1) % 4;
    }

    fn collect(&self, state: &mut State) -> Option<()> {
        let unmarked = state.marked & 1 == 0;
        state.at = match state.at {
            // The last stop: what is loaded is in a register.
            At::Marking => {
                state.marked = state.reachable_from(state.holds | state.loaded as Set);
                At::Ephemerons
            }
            At::Ephemerons if state.kept && unmarked => At::Following,
            At::Following => {
                state.marked |= 1;
                At::Followed
            }
            At::Followed | At::Resurrected => {
                state.marked = state.reachable_from(state.marked);
                if state.at == At::Followed { At::Ephemerons } else { At::Long }
            }
            At::Ephemerons => At::Short,
            At::Short => {
                state.handle &= state.long || !unmarked;
                At::Resurrecting
            }
            At::Resurrecting if state.finalizer && unmarked => {
                (state.marked, state.finalizer) = (state.marked | 1, false);
                At::Resurrected
            }
            At::Resurrecting => At::Long,
            At::Long => {
                state.handle &= !unmarked;
                At::Concluded
            }
            At::Concluded => return None,
        };
        Some(())
    }

    fn take(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Read => self.read(state),
            Step::Load if state.holds & 1 != 0 && state.leads => state.holds |= 0b10,
            Step::Clear if state.holds & 1 != 0 => state.leads = false,
            Step::Drop(object) => state.holds &= !(1 << object),
            Step::Allocate(object) if state.allocated & 1 << object == 0 => {
                let born_marked = !matches!(state.at, At::Marking | At::Concluded);
                (object != 0).then_some(())?;
                (born_marked && !state.swept).then_some(())?;
                state.allocated |= 1 << object;
                state.holds |= 1 << object;
                if self.mutant != Mutant::BornUnmarked {
                    state.marked |= 1 << object;
                }
            }
            Step::Collect => self.collect(state)?,
            Step::Sweep => {
                let may = state.at == At::Concluded
                    || (self.mutant == Mutant::SweepsEarly && state.at == At::Ephemerons);
                (may && !state.swept).then_some(())?;
                (state.allocated, state.swept) = (state.allocated & state.marked, true);
            }
            _ => return None,
        }
        Some(())
    }
}

impl Model for WeakReads {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let start = |kept, finalizer, long| State {
            handle: true,
            leads: true,
            kept,
            finalizer,
            long,
            holds: 0,
            loaded: false,
            phase: Phase::No,
            saw_mark: false,
            read_steps: 0,
            allocated: 0b011,
            marked: 0,
            at: At::Marking,
            swept: false,
            waited: false,
        };
        let kinds = [(false, false, false), (true, false, false), (false, true, true)];
        kinds.map(|(kept, finalizer, long)| start(kept, finalizer, long)).to_vec()
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend([Step::Read, Step::Load, Step::Clear, Step::Collect, Step::Sweep]);
        steps.extend((0..3).flat_map(|object| [Step::Drop(object), Step::Allocate(object)]));
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.take(&mut next, step).filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| {
                state.reachable_from(state.holds) & !state.allocated == 0
            }),
            Property::sometimes("a reader waits for ephemerons", |_, state: &State| state.waited),
            Property::sometimes("an ephemeron's value is given", |_, state: &State| {
                state.swept && state.kept && state.holds & 1 != 0
            }),
            Property::sometimes("what a finalizer keeps is given", |_, state: &State| {
                state.swept && state.long && state.holds & 1 != 0
            }),
            Property::sometimes("the handle expires", |_, state: &State| {
                state.swept && !state.handle
            }),
        ]
    }
}
