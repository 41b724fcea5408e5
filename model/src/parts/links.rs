//! Links that are settled beside the program, and cleared in the stop. After
//! `refs/links/link_table.rs`.
//!
//! Link 0 lies in object 2, link 1 outside the heap; both lead to objects 0 or 1. Invariant
//! checked: no link leads to what was freed, none is cleared whose object lives, and none is
//! written that is another object's memory by now (`refs.inv.settled`, `refs.rule.dangling`).
//! Called by the checker.

use stateright::{Model, Property};

use crate::heap::{Set, each};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// A link settles when its object is marked, wherever it lies.
    /// `refs.inv.settled`
    SettlesByObjectAlone,
    /// A link settles when the object that it lies in is marked.
    /// `refs.inv.settled`
    SettlesByContainerAlone,
    /// A link that gets another object stays settled.
    /// `refs.inv.settled`
    ChangedStaysSettled,
    /// A full cycle begins with what was settled.
    /// `refs.inv.settled`
    FullKeepsSettled,
    /// A link that lies in a dead object is kept.
    /// `refs.rule.dangling`
    KeepsDangling,
    /// A link is cleared when it is looked at beside the program.
    ClearsBesideProgram,
}

/// What the checker looks for.
pub const LINKS_HOLD: &str = "links lead to what lives, and are written while they are there";

const CONTAINER: u8 = 2;

/// A registered link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Link {
    /// The object's number and 1.
    object: u8,
    settled: bool,
    /// It was cleared.
    dead: bool,
    /// Which of the objects that had the container's cell it lies in.
    lies_in: u8,
}

/// Links, objects, the thread, the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    table: [Option<Link>; 2],
    register: u8,
    holds_container: bool,
    /// How many objects had the container's cell.
    containers: u8,
    allocated: Set,
    marked: Set,
    marking: bool,
    stopped: bool,
    wrong: bool,
    cycles: u8,
    operations: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The program's: the register gets a new object.
    Allocate(u8),
    /// A link is registered for what the register holds.
    Register(u8),
    /// The register gets what a link leads to, with the collector held off.
    Read(u8),
    /// The register becomes null.
    Drop,
    /// A new container, or none.
    Container(bool),
    /// The collector's: a cycle begins.
    Begin {
        /// Marks are cleared.
        full: bool,
    },
    /// An object that is reachable is marked.
    Mark(u8),
    /// A link is looked at.
    Look(u8),
    /// The last stop, with what follows it.
    Stop,
    /// What is not marked is freed.
    Sweep,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn reachable(&self) -> Set {
        let held = self.register.checked_sub(1).map_or(0, |object| 1 << object);
        held | (self.holds_container as Set) << CONTAINER
    }

    /// A link's word is written: it must be where it was registered.
    fn clear(&mut self, index: usize) {
        if let Some(link) = &mut self.table[index] {
            link.dead = true;
            let is_there = self.allocated & 1 << CONTAINER != 0 && link.lies_in == self.containers;
            self.wrong |= index == 0 && !is_there;
        }
    }

    fn is_marked(&self, pointer: u8) -> bool {
        pointer.checked_sub(1).is_some_and(|object| self.marked & 1 << object != 0)
    }

    fn lies_in_dead(&self, index: usize) -> bool {
        index == 0 && self.marked & 1 << CONTAINER == 0
    }
}

impl Links {
    fn program(&self, state: &mut State, step: Step) -> Option<()> {
        state.operations = state.operations.checked_sub(1)?;
        match step {
            Step::Allocate(object) if state.allocated & 1 << object == 0 => {
                state.allocated |= 1 << object;
                state.register = object + 1;
            }
            Step::Register(index) if state.register != 0 => {
                (index == 1 || state.holds_container).then_some(())?;
                let kept = self.mutant == Mutant::ChangedStaysSettled;
                let former = state.table[index as usize];
                let settled = kept && former.is_some_and(|link| link.settled);
                let (object, lies_in) = (state.register, state.containers);
                let link = Link { object, settled, dead: false, lies_in };
                state.table[index as usize] = Some(link);
            }
            Step::Read(index) => {
                (index == 1 || state.holds_container).then_some(())?;
                let link = state.table[index as usize]?;
                let is_there = index == 1 || link.lies_in == state.containers;
                (!link.dead && is_there).then_some(())?;
                state.register = link.object;
            }
            Step::Drop => state.register = 0,
            Step::Container(false) => state.holds_container = false,
            Step::Container(true) if state.allocated & 1 << CONTAINER == 0 => {
                state.allocated |= 1 << CONTAINER;
                state.containers += 1;
                state.holds_container = true;
            }
            _ => return None,
        }
        Some(())
    }

    fn stop(&self, state: &mut State) {
        state.marked |= state.reachable();
        for index in 0..2 {
            let Some(link) = state.table[index] else { continue };
            if !link.settled && !link.dead && !state.is_marked(link.object) {
                state.clear(index);
            }
        }
        for index in 0..2 {
            let Some(link) = state.table[index] else { continue };
            // What was cleared and lives after all.
            state.wrong |= link.dead && state.is_marked(link.object);
            let forgets = state.lies_in_dead(index) && self.mutant != Mutant::KeepsDangling;
            match link.settled {
                false if link.dead || forgets => state.table[index] = None,
                _ => state.table[index] = Some(Link { settled: true, ..link }),
            }
        }
    }

    fn collector(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Begin { full } if !state.marking && !state.stopped => {
                state.cycles = state.cycles.checked_sub(1)?;
                state.marking = true;
                if full {
                    state.marked = 0;
                    if self.mutant != Mutant::FullKeepsSettled {
                        state.table.iter_mut().flatten().for_each(|link| link.settled = false);
                    }
                }
            }
            Step::Mark(object) if state.marking => state.marked |= state.reachable() & 1 << object,
            Step::Look(index) if state.marking => {
                let index = index as usize;
                let link = state.table[index]?;
                let object = link.dead || state.is_marked(link.object);
                let settles = match self.mutant {
                    Mutant::SettlesByObjectAlone => object,
                    Mutant::SettlesByContainerAlone => !state.lies_in_dead(index),
                    _ => object && !state.lies_in_dead(index),
                };
                if settles && !link.dead {
                    state.table[index] = Some(Link { settled: true, ..link });
                } else if self.mutant == Mutant::ClearsBesideProgram && !object {
                    state.clear(index);
                }
            }
            Step::Stop if state.marking => {
                self.stop(state);
                (state.marking, state.stopped) = (false, true);
            }
            Step::Sweep if state.stopped => {
                state.allocated &= state.marked;
                state.stopped = false;
            }
            _ => return None,
        }
        Some(())
    }
}

impl Model for Links {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            table: [None; 2],
            register: 0,
            holds_container: true,
            containers: 0,
            allocated: 1 << CONTAINER,
            marked: 0,
            marking: false,
            stopped: false,
            wrong: false,
            cycles: 3,
            operations: 6,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        for one in 0..2 {
            steps.extend([Step::Allocate(one), Step::Register(one), Step::Read(one)]);
            steps.extend([Step::Look(one), Step::Container(one == 1)]);
            steps.push(Step::Begin { full: one == 1 });
        }
        steps.extend((0..3).map(Step::Mark));
        steps.extend([Step::Drop, Step::Stop, Step::Sweep]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        let taken = self.collector(&mut next, step).or_else(|| {
            next = *last;
            (!next.stopped).then_some(())?;
            self.program(&mut next, step)
        });
        taken.filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(LINKS_HOLD, |_, state: &State| {
                let table = state.table.iter().enumerate();
                let leads = table.filter_map(|(index, link)| {
                    let link = (*link)?;
                    let is_there = index == 1 || link.lies_in == state.containers;
                    let is_read = index == 1 || state.holds_container;
                    (!link.dead && is_there && is_read).then_some(link.object - 1)
                });
                let led_to: Set = leads.fold(0, |set, object| set | 1 << object);
                !state.wrong && led_to & !state.allocated == 0
            }),
            Property::sometimes("a settled link's object dies", |_, state: &State| {
                let settled = state.table.iter().flatten().filter(|link| link.settled);
                settled.clone().any(|link| !state.is_marked(link.object) && state.marking)
                    || settled.count() == 2
            }),
            Property::sometimes("a link is cleared", |_, state: &State| {
                state.stopped && each(state.allocated & !state.marked).count() == 1
            }),
        ]
    }
}
