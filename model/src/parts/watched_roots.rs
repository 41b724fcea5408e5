//! Roots that are watched: protected when a cycle first reads them, then read; later only what was
//! written since. After `cycle/phases/written_roots.rs`.
//!
//! The root is two pages of one word; the first page joins and leaves it, as the end of a stack
//! does. Invariant checked: the last stop leaves nothing reachable unmarked
//! (`cycle.inv.watched-roots`). Called by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;
use crate::heap::{Set, each};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// A root is read first and protected then.
    /// `cycle.inv.watched-roots`
    ReadsThenProtects,
    /// A later reading protects written pages again and does not read them.
    /// `cycle.inv.watched-roots`
    ProtectsUnread,
    /// A full cycle goes on with the protection of the one before.
    /// `cycle.inv.watched-roots`
    FullGoesOn,
    /// A minor cycle takes what was written since the last one for known.
    /// `cycle.inv.watched-roots`
    MinorForgets,
    /// The last stop does not ask what was written.
    /// `cycle.inv.watched-roots`
    StopDoesNotAsk,
    /// What the watch does not answer for counts as unwritten.
    /// `cycle.inv.watched-roots`
    TrustsRemapped,
    /// The last stop leaves out what a stack has grown by.
    /// `cycle.inv.watched-roots`
    LeavesOutGrowth,
}

/// Where the collector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// Protecting, then reading, what is not protected; asking about the rest.
    Reading,
    /// Between readings.
    Marking,
    /// The stop has marked what it found.
    Stopped,
}

/// Root, objects, and what the collector knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What each page's word holds: an object's number and 1.
    words: [u8; 2],
    /// Pages that are a root now.
    part: Set,
    register: u8,
    allocated: Set,
    marked: Set,
    /// The mapping is the one that the watch knows.
    registered: bool,
    /// Pages not written since the kernel protected them.
    clean: Set,
    /// Pages that the collector takes for protected.
    protected: Set,
    at: At,
    full: bool,
    /// Pages still to be looked at in this reading, and words still to be read.
    asks: Set,
    reads: Set,
    rounds: u8,
    cycles: u8,
    operations: u8,
}

/// One step of the program or the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The program's.
    Load(u8),
    /// The register goes to a word.
    Store(u8),
    /// A word becomes null.
    Clear(u8),
    /// The register becomes null.
    Drop,
    /// The register gets a new object.
    Allocate(u8),
    /// The first page becomes part of the root.
    Grow,
    /// It is none any more.
    Shrink,
    /// Another mapping takes the place.
    Remap,
    /// The collector's: a cycle begins.
    Begin {
        /// Marks are cleared.
        full: bool,
    },
    /// The next page is protected, or asked about.
    Ask,
    /// A word is read.
    Read(u8),
    /// All roots are read once more.
    Again,
    /// The last stop.
    Stop,
    /// What is not marked is freed.
    Sweep,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct WatchedRoots {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn mark(&mut self, pointer: u8) {
        if let Some(object) = pointer.checked_sub(1) {
            self.marked |= self.allocated & 1 << object;
        }
    }

    fn reachable(&self) -> Set {
        let words = each(self.part).map(|page| self.words[page as usize]);
        let pointers = words.chain([self.register]).filter_map(|word| word.checked_sub(1));
        pointers.fold(0, |set, object| set | 1 << object)
    }

    fn write(&mut self, page: u8, value: u8) {
        self.words[page as usize] = value;
        self.clean &= !(1 << page);
    }
}

impl WatchedRoots {
    fn program(&self, state: &mut State, step: Step) -> Option<()> {
        state.operations = state.operations.checked_sub(1)?;
        let in_part = |page: u8| state.part & 1 << page != 0;
        match step {
            Step::Load(page) if in_part(page) => state.register = state.words[page as usize],
            Step::Store(page) if in_part(page) => state.write(page, state.register),
            Step::Clear(page) if in_part(page) => state.write(page, 0),
            Step::Drop => state.register = 0,
            Step::Allocate(object) if state.allocated & 1 << object == 0 => {
                state.allocated |= 1 << object;
                state.register = object + 1;
            }
            // What the words of such a page hold then is nobody's.
            Step::Grow if !in_part(0) => {
                state.part |= 1;
                state.words[0] = 0;
            }
            Step::Shrink if in_part(0) => state.part &= !1,
            Step::Remap => {
                (state.words, state.registered, state.clean) = ([0; 2], false, 0);
            }
            _ => return None,
        }
        Some(())
    }

    fn ask(&self, state: &mut State) -> Option<()> {
        let page = each(state.asks).next()?;
        let bit = 1 << page;
        if self.mutant == Mutant::ReadsThenProtects && state.reads != 0 {
            return None;
        }
        state.asks &= !bit;
        let known = state.protected & bit != 0;
        let written = state.clean & bit == 0;
        let answers = state.registered;
        match known && (answers || self.mutant == Mutant::TrustsRemapped) {
            true if !answers => {}
            true => {
                let forgets = self.mutant == Mutant::MinorForgets && state.rounds == 0;
                if written && self.mutant != Mutant::ProtectsUnread && !forgets {
                    state.reads |= bit;
                }
                state.clean |= bit;
            }
            false => {
                // A page of a new mapping is registered with it, and none of the others is clean.
                state.registered = true;
                state.clean |= bit;
                state.protected |= bit;
                if self.mutant != Mutant::ReadsThenProtects {
                    state.reads |= bit;
                }
            }
        }
        Some(())
    }

    fn stop(&self, state: &mut State) {
        state.mark(state.register);
        for page in each(state.part) {
            let protected = state.protected & 1 << page != 0;
            let written = state.clean & 1 << page == 0;
            let reads = match (protected, state.registered) {
                (false, _) => self.mutant != Mutant::LeavesOutGrowth,
                (true, false) => self.mutant != Mutant::TrustsRemapped,
                (true, true) => written && self.mutant != Mutant::StopDoesNotAsk,
            };
            if reads {
                state.mark(state.words[page as usize]);
            }
        }
    }

    fn collector(&self, state: &mut State, step: Step) -> Option<()> {
        match (state.at, step) {
            (At::Idle, Step::Begin { full }) => {
                state.cycles = state.cycles.checked_sub(1)?;
                state.full = full;
                if full {
                    state.marked = 0;
                    if self.mutant != Mutant::FullGoesOn {
                        state.protected = 0;
                    }
                }
                (state.at, state.asks, state.rounds) = (At::Reading, state.part, 0);
                // What a reading is not told of is forgotten.
                state.protected &= state.part;
                if self.mutant == Mutant::ReadsThenProtects {
                    state.reads = state.part & !state.protected;
                }
            }
            (At::Reading, Step::Ask) => self.ask(state)?,
            (At::Reading, Step::Read(page)) if state.reads & 1 << page != 0 => {
                state.reads &= !(1 << page);
                state.mark(state.words[page as usize]);
            }
            (At::Marking, Step::Again) if state.rounds < 2 => {
                (state.at, state.asks) = (At::Reading, state.part);
            }
            (At::Marking, Step::Stop) => {
                self.stop(state);
                state.at = At::Stopped;
            }
            (At::Stopped, Step::Sweep) => {
                state.allocated &= state.marked;
                state.at = At::Idle;
            }
            _ => return None,
        }
        if state.at == At::Reading && state.asks | state.reads == 0 {
            (state.at, state.rounds) = (At::Marking, state.rounds + 1);
        }
        Some(())
    }
}

impl Model for WatchedRoots {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            words: [0, 1],
            part: 0b11,
            register: 0,
            allocated: 0b01,
            marked: 0,
            registered: true,
            clean: 0,
            protected: 0,
            at: At::Idle,
            full: true,
            asks: 0,
            reads: 0,
            rounds: 0,
            cycles: 2,
            operations: 5,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        for one in 0..2 {
            steps.extend([Step::Load(one), Step::Store(one), Step::Clear(one)]);
            steps.extend([Step::Allocate(one), Step::Read(one)]);
        }
        steps.extend([Step::Drop, Step::Grow, Step::Shrink, Step::Remap, Step::Ask]);
        steps.extend([Step::Begin { full: true }, Step::Begin { full: false }]);
        steps.extend([Step::Again, Step::Stop, Step::Sweep]);
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
                state.reachable() & !state.allocated == 0
                    && (state.at != At::Stopped || state.reachable() & !state.marked == 0)
            }),
            Property::sometimes("a minor cycle rests on an old reading", |_, state: &State| {
                state.at == At::Stopped && !state.full && state.protected & state.clean != 0
            }),
            Property::sometimes("something dead is found dead", |_, state: &State| {
                state.at == At::Stopped && state.allocated & !state.marked != 0
            }),
        ]
    }
}
