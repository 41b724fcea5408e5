//! Threads that end, the first one by `pthread_exit`: the last of them ends the process. After
//! `world/last_thread.rs`.
//!
//! Who ends lists itself, asks whether the first thread has ended, and if so looks at all threads
//! one after the other, while others end, vanish, and begin with the number of one that is gone.
//! Invariants checked: the process ends with its last thread, and not before
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
    /// Who ends asks whether the first thread has ended before it lists itself.
    /// `world.rule.last-thread`
    AsksFirst,
    /// A thread that begins is not taken off the list.
    /// `world.rule.last-thread`
    KeepsNumbers,
    /// Who has looked at all does not look again where another one ended meanwhile.
    /// `world.rule.last-thread`
    LooksOnce,
}

/// What the checker looks for.
pub const ENDS_WITH_LAST: &str = "a process without threads has ended";
/// The same.
pub const NOT_BEFORE: &str = "no thread runs when a process ends";

const THREADS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thread {
    Runs,
    /// It has listed itself, or by a mutant asked; the other one of the two comes next.
    Asks,
    /// It looks at the threads from this one on.
    Looks(usize),
    /// It is done, and there still.
    Vanishes,
    Gone,
}

/// The list, and the threads, of which number 0 is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    listed: [bool; THREADS],
    threads: [Thread; THREADS],
    /// Whether each has seen one that is not listed.
    others: [bool; THREADS],
    first_ended: bool,
    /// How many have listed themselves, and how many had when each began to look.
    ends: u8,
    since: [u8; THREADS],
    /// Threads that may begin.
    births: u8,
    exits: bool,
}

/// A step of the thread with that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It goes on towards its end.
    End(usize),
    /// Another one that runs has made one of that number.
    Begin(usize),
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct LastThread {
    /// With which mistake.
    pub mutant: Mutant,
}

impl LastThread {
    fn end(&self, state: &mut State, own: usize) -> Option<()> {
        let lists_first = !matches!(self.mutant, Mutant::LooksFirst | Mutant::AsksFirst);
        let before = *state;
        state.threads[own] = match state.threads[own] {
            Thread::Runs => {
                state.listed[own] |= lists_first;
                state.first_ended |= own == 0 && self.mutant == Mutant::AsksFirst;
                match self.mutant {
                    Mutant::AsksFirst if !state.first_ended => Thread::Vanishes,
                    _ => Thread::Asks,
                }
            }
            Thread::Asks => {
                state.listed[own] |= self.mutant != Mutant::LooksFirst;
                state.first_ended |= own == 0;
                state.others[own] = false;
                if state.first_ended { Thread::Looks(0) } else { Thread::Vanishes }
            }
            Thread::Looks(THREADS) => {
                state.listed[own] = true;
                if state.ends != state.since[own] && self.mutant != Mutant::LooksOnce {
                    state.others[own] = false;
                    Thread::Looks(0)
                } else {
                    state.exits |= !state.others[own];
                    Thread::Vanishes
                }
            }
            Thread::Looks(at) => {
                // Before it lists itself it cannot find itself there.
                let is_itself = self.mutant == Mutant::LooksFirst && at == own;
                let is_there = state.threads[at] != Thread::Gone;
                state.others[own] |= is_there && !state.listed[at] && !is_itself;
                Thread::Looks(at + 1)
            }
            Thread::Vanishes => Thread::Gone,
            Thread::Gone => return None,
        };
        state.ends += (state.listed[own] && !before.listed[own]) as u8;
        if state.threads[own] == Thread::Looks(0) {
            state.since[own] = state.ends;
        }
        Some(())
    }

    fn begin(&self, state: &mut State, number: usize) -> Option<()> {
        let can_begin = state.threads[number] == Thread::Gone && number != 0;
        (can_begin && state.threads.contains(&Thread::Runs)).then_some(())?;
        state.births = state.births.checked_sub(1)?;
        state.threads[number] = Thread::Runs;
        state.listed[number] &= self.mutant == Mutant::KeepsNumbers;
        Some(())
    }
}

impl Model for LastThread {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            listed: [false; THREADS],
            threads: [Thread::Runs; THREADS],
            others: [false; THREADS],
            first_ended: false,
            ends: 0,
            since: [0; THREADS],
            births: 2,
            exits: false,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend((0..THREADS).flat_map(|number| [Step::End(number), Step::Begin(number)]));
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        // The process is over.
        (!last.exits).then_some(())?;
        match step {
            Step::End(number) => self.end(&mut next, number),
            Step::Begin(number) => self.begin(&mut next, number),
        }
        .map(|()| next)
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
            Property::sometimes("a number comes again", |_, state: &State| {
                state.births == 0 && state.first_ended
            }),
        ]
    }
}
