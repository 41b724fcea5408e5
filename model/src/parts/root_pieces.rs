//! A piece of a root that is read in parts, between which the program has the locks and may change
//! what is a root. After `cycle/phases/written_roots.rs`, `read_part_running`.
//!
//! The root is two pages of one word each, one piece together; it may be two roots for a while, and
//! each page may be none. Each page is a part, read under one hold of the locks. Invariant
//! checked: the last stop leaves nothing reachable unmarked (`cycle.inv.watched-roots`). Called by
//! the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;
use crate::heap::{Set, each};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// A piece that begins in one that was left is asked about anew, and no more is read of it.
    /// `cycle.inv.watched-roots`
    ForgetsAbandoned,
    /// A piece is noted as protected with its last part, whatever the first was of.
    /// `cycle.inv.watched-roots`
    NotesAnother,
    /// It is noted with its first part.
    /// `cycle.inv.watched-roots`
    NotesAtOnce,
}

/// Where the collector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// Before the part that begins with this page.
    Reading(u8),
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
    register: u8,
    allocated: Set,
    marked: Set,
    /// Pages that are a root now.
    part: Set,
    /// Each is a root of its own.
    is_split: bool,
    /// Pages not written since they were protected.
    clean: Set,
    /// Pages noted as protected, in this reading and in the one before.
    noted: Set,
    before: Set,
    /// The piece that was begun, what of it has to be read, and pages of pieces that were left.
    piece: Set,
    unread: Set,
    abandoned: Set,
    at: At,
    full: bool,
    readings: u8,
    cycles: u8,
    operations: u8,
}

/// One step of the program or the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The program's: the register gets a word.
    Load(u8),
    /// The register goes to a word.
    Store(u8),
    /// The register becomes null.
    Drop,
    /// The register gets a new object.
    Allocate(u8),
    /// The root becomes two, or one again.
    Split(bool),
    /// A page is none any more.
    TakeOut(u8),
    /// It is one again.
    PutBack(u8),
    /// The collector's: a cycle begins.
    Begin {
        /// Marks are cleared.
        full: bool,
    },
    /// The next part is read.
    Part,
    /// All roots are read once more.
    Again,
    /// The last stop.
    Stop,
    /// What is not marked is freed.
    Sweep,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct RootPieces {
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

    /// The piece that a page is of.
    fn piece_of(&self, page: u8) -> Set {
        if self.is_split { 1 << page } else { self.part }
    }

    fn begin_reading(&mut self) {
        (self.before, self.noted) = (self.noted, 0);
        (self.piece, self.unread, self.abandoned) = (0, 0, 0);
        (self.at, self.readings) = (At::Reading(0), self.readings + 1);
    }
}

impl RootPieces {
    fn program(&self, state: &mut State, step: Step) -> Option<()> {
        state.operations = state.operations.checked_sub(1)?;
        let in_part = |page: u8| state.part & 1 << page != 0;
        match step {
            Step::Load(page) if in_part(page) => state.register = state.words[page as usize],
            Step::Store(page) if in_part(page) => {
                state.words[page as usize] = state.register;
                state.clean &= !(1 << page);
            }
            Step::Drop => state.register = 0,
            Step::Allocate(object) if state.allocated & 1 << object == 0 => {
                state.allocated |= 1 << object;
                state.register = object + 1;
            }
            Step::Split(split) => state.is_split = split,
            Step::TakeOut(page) => state.part &= !(1 << page),
            Step::PutBack(page) if !in_part(page) => {
                // What nothing else has held meanwhile is nobody's.
                let word = state.words[page as usize];
                if word != 0 && state.reachable() & 1 << (word - 1) == 0 {
                    state.words[page as usize] = 0;
                    state.clean &= !(1 << page);
                }
                state.part |= 1 << page;
            }
            _ => return None,
        }
        Some(())
    }

    fn read_part(&self, state: &mut State, page: u8) {
        let (piece, bit) = (state.piece_of(page), 1 << page);
        if piece.trailing_zeros() == u32::from(page) {
            state.abandoned |= state.piece;
            let asked = each(piece).map(|page| 1 << page);
            state.unread = asked
                .filter(|page| state.before & page == 0 || state.clean & page == 0)
                .fold(0, |set, page| set | page);
            state.clean |= piece;
            if piece & state.abandoned != 0 && self.mutant != Mutant::ForgetsAbandoned {
                state.unread = piece;
            }
            state.piece = piece;
            if self.mutant == Mutant::NotesAtOnce {
                state.noted |= piece;
            }
        }
        let is_begun = state.piece == piece;
        if !is_begun || state.unread & bit != 0 {
            state.mark(state.words[page as usize]);
        }
        if piece & !(bit | (bit - 1)) == 0 {
            if is_begun || self.mutant == Mutant::NotesAnother {
                state.noted |= piece;
            }
            if is_begun {
                state.piece = 0;
            }
        }
    }

    fn collector(&self, state: &mut State, step: Step) -> Option<()> {
        match (state.at, step) {
            (At::Idle, Step::Begin { full }) => {
                state.cycles = state.cycles.checked_sub(1)?;
                (state.full, state.readings) = (full, 0);
                if full {
                    (state.marked, state.noted) = (0, 0);
                }
                state.begin_reading();
            }
            (At::Reading(page), Step::Part) => {
                if state.part & 1 << page != 0 {
                    self.read_part(state, page);
                }
                state.at = if page == 0 { At::Reading(1) } else { At::Marking };
            }
            (At::Marking, Step::Again) if state.readings < 2 => state.begin_reading(),
            (At::Marking, Step::Stop) => {
                state.mark(state.register);
                for page in each(state.part & !(state.noted & state.clean)) {
                    state.mark(state.words[page as usize]);
                }
                state.at = At::Stopped;
            }
            (At::Stopped, Step::Sweep) => {
                state.allocated &= state.marked;
                state.at = At::Idle;
            }
            _ => return None,
        }
        Some(())
    }
}

impl Model for RootPieces {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            words: [1, 0],
            register: 0,
            allocated: 0b01,
            marked: 0,
            part: 0b11,
            is_split: false,
            clean: 0,
            noted: 0,
            before: 0,
            piece: 0,
            unread: 0,
            abandoned: 0,
            at: At::Idle,
            full: true,
            readings: 0,
            cycles: 2,
            operations: 6,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        for one in 0..2 {
            steps.extend([Step::Load(one), Step::Store(one), Step::Allocate(one)]);
            steps.extend([Step::TakeOut(one), Step::PutBack(one)]);
        }
        for yes in [false, true] {
            steps.extend([Step::Split(yes), Step::Begin { full: yes }]);
        }
        steps.extend([Step::Drop, Step::Part, Step::Again, Step::Stop, Step::Sweep]);
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
            Property::sometimes("a stop leaves out what was read in parts", |_, state: &State| {
                state.at == At::Stopped && state.noted & state.clean == 0b11
            }),
            Property::sometimes("a piece is left in the middle", |_, state: &State| {
                state.abandoned != 0
            }),
        ]
    }
}
