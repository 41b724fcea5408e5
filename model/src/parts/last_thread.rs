//! Threads that end when the first one has ended already: the last of them ends the process. After
//! `world/last_thread.rs`.
//!
//! Who ends lists itself, then looks at all threads one after the other, while others end, list
//! themselves and vanish. Invariants checked: the process ends with its last thread, and not before
//! (`world.rule.last-thread`). Called by the checker.

use stateright::{Model, Property};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The library as it is.
    None,
    /// Who ends looks at the others before it lists itself.
    /// `world.rule.last-thread`
    LooksFirst,
    /// Who ends takes all off the list that it has not seen, not only those that were on it before
    /// it looked.
    /// `world.rule.last-thread`
    ForgetsUnseen,
    /// Whoever is on the list counts as gone, also where it looks at a thread that runs.
    /// `world.rule.last-thread`
    TrustsListAlone,
}

/// What the checker looks for.
pub const ENDS_WITH_LAST: &str = "a process without threads has ended";
/// The same.
pub const NOT_BEFORE: &str = "no thread runs when a process ends";

const THREADS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thread {
    Runs,
    /// It looks at the threads from this one on.
    Looks(usize),
    Gone,
}

/// The list, and the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    listed: [bool; THREADS],
    threads: [Thread; THREADS],
    /// What each has seen: which were listed before it looked, which of the listed were there, and
    /// whether one was that is not listed.
    before: [[bool; THREADS]; THREADS],
    seen: [[bool; THREADS]; THREADS],
    others: [bool; THREADS],
    exits: bool,
}

/// The model. A step is one of the thread with that number.
#[derive(Clone, Copy, Debug)]
pub struct LastThread {
    /// With which mistake.
    pub mutant: Mutant,
}

impl LastThread {
    fn look(&self, state: &mut State, own: usize, at: usize) {
        // Before it lists itself it cannot find itself there.
        let skips_itself = self.mutant == Mutant::LooksFirst && at == own;
        if state.threads[at] == Thread::Gone || skips_itself {
            return;
        }
        if state.listed[at] {
            state.seen[own][at] = true;
        } else if self.mutant != Mutant::TrustsListAlone {
            state.others[own] = true;
        }
    }

    fn decide(&self, state: &mut State, own: usize) {
        state.listed[own] |= self.mutant == Mutant::LooksFirst;
        state.exits |= !state.others[own];
        for at in 0..THREADS {
            let was_there = state.before[own][at] || self.mutant == Mutant::ForgetsUnseen;
            state.listed[at] &= state.seen[own][at] || !was_there;
        }
        state.threads[own] = Thread::Gone;
    }
}

impl Model for LastThread {
    type State = State;
    type Action = usize;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            listed: [false; THREADS],
            threads: [Thread::Runs; THREADS],
            before: [[false; THREADS]; THREADS],
            seen: [[false; THREADS]; THREADS],
            others: [false; THREADS],
            exits: false,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<usize>) {
        steps.extend(0..THREADS);
    }

    fn next_state(&self, last: &State, own: usize) -> Option<State> {
        let mut next = *last;
        match last.threads[own] {
            Thread::Runs => {
                next.listed[own] = self.mutant != Mutant::LooksFirst;
                next.before[own] = next.listed;
                next.threads[own] = Thread::Looks(0);
            }
            Thread::Looks(THREADS) => self.decide(&mut next, own),
            Thread::Looks(at) => {
                self.look(&mut next, own, at);
                next.threads[own] = Thread::Looks(at + 1);
            }
            Thread::Gone => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ENDS_WITH_LAST, |_, state: &State| {
                state.exits || state.threads != [Thread::Gone; THREADS]
            }),
            Property::always(NOT_BEFORE, |_, state: &State| {
                !(state.exits && state.threads.contains(&Thread::Runs))
            }),
            Property::sometimes("two look at a time", |_, state: &State| {
                let looks = |thread: &&Thread| matches!(thread, Thread::Looks(_));
                state.threads.iter().filter(looks).count() > 1
            }),
            Property::sometimes("one is taken off the list", |_, state: &State| {
                (0..THREADS).any(|at| state.threads[at] == Thread::Gone && !state.listed[at])
            }),
        ]
    }
}
