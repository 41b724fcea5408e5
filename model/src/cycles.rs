//! The whole model: states, what may happen next, what must hold.
//!
//! Invariant: every step of a thread and every step of the collector is tried in every state,
//! within the bounds. Called by the checker.

use stateright::{Model, Property};

use crate::collector::{At, Kind, Move};
use crate::heap::{Heap, Set, THREADS};
use crate::mutator::{Operation, Told};
use crate::phase::Phase;

/// How far the checker goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Cycles, one after another.
    pub cycles: u8,
    /// Steps of the program, of all threads together.
    pub operations: u8,
    /// Rounds of precleaning in a cycle, at most.
    pub rounds: u8,
}

/// A mistake that the model can be made with; the checker has to find what it loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// None: the collector as it is.
    None,
    /// Precleaning reads a page and then protects it.
    /// `watch.inv.protect-before-scan`
    ArmsAfterScan,
    /// The last stop does not read the threads' registers again.
    NoStacksInRemark,
    /// The last stop does not ask for written pages.
    NoPagesInRemark,
    /// A minor cycle drops what was written since the last one.
    ForgetsRemembered,
    /// Blocks that are not protected do not count as written.
    /// `watch.rule.unprotected-written`
    UnarmedNotWritten,
    /// A new block of several frames is protected where its frames were.
    /// `heap.inv.protected`
    HalfProtected,
    /// A cycle begins before the last sweep is finished.
    /// `cycle.inv.phases`
    SweepsWhileMarking,
    /// The last stop knows which blocks had marked objects when pages were protected last.
    /// `heap.inv.marked-blocks`
    StaleMarkedBlocks,
}

/// The collector and the program, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What both see.
    pub heap: Heap,
    /// What the collector tells those who allocate and free.
    pub told: Told,
    /// The phase of the cycle.
    pub phase: Phase,
    /// Where in it the collector is.
    pub at: At,
    /// The kind of the cycle.
    pub kind: Kind,
    /// Frames whose pages are still to be asked for.
    pub rows: Set,
    /// Roots still to be read.
    pub roots: Set,
    /// Grey words: cells that are to be looked up.
    pub grey: Set,
    /// Fields that are to be read.
    pub reads: Set,
    /// Rounds of precleaning done in this cycle.
    pub rounds: u8,
    /// Blocks that had marked objects when pages were protected last; for a mutant.
    pub seen: Set,
    /// Free frames were unprotected since the last sweep.
    pub unprotected: bool,
    /// The last stop marked something.
    pub found_late: bool,
    /// Cycles still to begin.
    pub cycles: u8,
    /// Steps of the program still to come.
    pub operations: u8,
}

impl State {
    /// Marking is over, and the sweep is about to begin.
    fn settles(&self) -> bool {
        self.phase == Phase::References
    }
}

/// Who does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A thread of the program.
    Program(usize, Operation),
    /// The collector.
    Collector(Move),
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Cycles {
    /// How far to go.
    pub bounds: Bounds,
    /// With which mistake.
    pub mutant: Mutant,
    /// From one of the starts only.
    pub start: Option<usize>,
}

/// Whether everything reachable is marked when marking is over.
pub const NOTHING_LOST: &str = "no reachable object is unmarked when the sweep begins";

impl Cycles {
    /// A program with the objects given, each as its cell's field or fields, and what the first
    /// thread holds.
    fn start(&self, allocated: Set, large: bool, fields: [u8; 4], registers: [u8; 2]) -> State {
        let formed = if large { 0b111 } else { 1 | (allocated >> 1 & 0b110) };
        State {
            heap: Heap {
                fields,
                allocated,
                formed,
                large,
                registers: [registers, [0, 0]],
                ..Heap::default()
            },
            told: Told::default(),
            phase: Phase::Idle,
            at: At::Rest,
            kind: Kind::Full,
            rows: 0,
            roots: 0,
            grey: 0,
            reads: 0,
            rounds: 0,
            seen: 0,
            unprotected: true,
            found_late: false,
            cycles: self.bounds.cycles,
            operations: self.bounds.operations,
        }
    }
}

impl Cycles {
    /// One small object, after a cycle that protected the block beside it and a sweep that
    /// dissolved that one: what was free then is protected still. It needs a cycle and three steps
    /// of the program to get there.
    fn after_a_sweep(&self) -> State {
        let mut state = self.start(0b0001, false, [0; 4], [1, 0]);
        state.heap.marked = 0b0001;
        state.heap.protected = 0b011;
        state.unprotected = false;
        state
    }
}

impl Model for Cycles {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let starts = vec![
            // A list of two.
            self.start(0b0011, false, [2, 0, 0, 0], [1, 0]),
            // Three objects that know nothing of each other, on two pages; one can be freed.
            self.start(0b0111, false, [2, 0, 0, 0], [1, 3]),
            // A large object that leads to a small one from its second page.
            self.start(0b0101, true, [0, 0, 0, 1], [3, 0]),
            self.after_a_sweep(),
        ];
        match self.start {
            Some(start) => vec![starts[start]],
            None => starts,
        }
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        state.moves(self.bounds.rounds, self.mutant, |step| actions.push(Action::Collector(step)));
        let stopped = state.phase == Phase::References && state.at == At::Rest;
        if state.operations > 0 && !stopped {
            for thread in 0..THREADS {
                state.heap.operations(thread, state.told, |operation| {
                    actions.push(Action::Program(thread, operation));
                });
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = *last;
        match action {
            Action::Program(thread, operation) => {
                next.operations -= 1;
                let half_protected = self.mutant == Mutant::HalfProtected;
                next.heap.operate(thread, operation, next.told, half_protected);
                // What changes nothing is no step.
                if next.heap == last.heap {
                    return None;
                }
            }
            Action::Collector(step) => next.advance(step, self.mutant),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| {
                !state.settles() || state.heap.reachable() & !state.heap.marked == 0
            }),
            Property::always("a reachable object is allocated", |_, state: &State| {
                state.heap.reachable() & !state.heap.allocated == 0
            }),
            Property::always("only allocated cells are marked", |_, state: &State| {
                state.heap.marked & !state.heap.allocated == 0
            }),
            Property::sometimes("something reachable is found", |_, state: &State| {
                state.settles() && state.heap.reachable().count_ones() > 2
            }),
            Property::sometimes("something dead is found dead", |_, state: &State| {
                state.settles() && state.heap.allocated & !state.heap.marked != 0
            }),
            Property::sometimes("the last stop marks something", |_, state: &State| {
                state.found_late
            }),
            Property::sometimes("a minor cycle keeps a dead old object", |_, state: &State| {
                state.settles()
                    && state.kind == Kind::Minor
                    && state.heap.marked & !state.heap.reachable() != 0
            }),
            Property::sometimes("an object is born marked", |_, state: &State| {
                state.told.black && state.found_late
            }),
            Property::sometimes("the world runs on to the end of marking", |_, state: &State| {
                state.phase == Phase::Mark && state.at == At::Rest && state.rounds > 0
            }),
        ]
    }
}
