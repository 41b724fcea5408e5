//! Records of what threads returned, for two threads that have the same number one after the other.
//! After `runtime/interposed/thread_results.rs`.
//!
//! Invariant checked: a result is in its thread's record until it is joined, a record is freed once
//! and not used after that (`world.inv.thread-results`). Called by the checker.

use stateright::{Model, Property};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The records as they are.
    None,
    /// Who joined takes out the newest record of a number.
    /// `world.inv.thread-results`
    TakesNewest,
    /// A thread that ends writes to the oldest.
    /// `world.inv.thread-results`
    WritesOldest,
    /// A record is freed by who joins, without waiting for the others.
    /// `world.inv.thread-results`
    FreedByJoin,
    /// A thread does not list its record before it runs.
    /// `world.inv.thread-results`
    ListedByMakerOnly,
}

/// What the checker looks for.
pub const RESULTS_HOLD: &str = "results are where they belong, and records are freed once";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Record {
    exists: bool,
    made: bool,
    begun: bool,
    released: bool,
    freed: bool,
    /// Whose result it has: the thread's number in the model and 1.
    result: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Thread {
    #[default]
    Unmade,
    Made,
    Runs,
    Ended,
    /// libc has joined it: its number is free.
    Joined,
    /// And the record was taken out.
    Released,
}

/// Two threads, their records, the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    threads: [Thread; 2],
    records: [Record; 2],
    /// Records in the table, the newest last.
    table: [Option<u8>; 2],
    wrong: bool,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A thread is made.
    Make(u8),
    /// `pthread_create` returns to who made it.
    Return(u8),
    /// The thread's next step.
    Go(u8),
    /// libc joins it.
    Join(u8),
    /// Who joined it takes the record out.
    Release(u8),
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct ThreadResults {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn list(&mut self, index: u8) {
        let record = &self.records[index as usize];
        let listed = self.table.contains(&Some(index));
        if !record.released && !listed {
            let place = self.table.iter().position(Option::is_none);
            place.into_iter().for_each(|place| self.table[place] = Some(index));
        }
    }

    fn of_table(&self, newest: bool) -> Option<u8> {
        let mut listed = self.table.iter().flatten();
        if newest { listed.next_back().copied() } else { listed.next().copied() }
    }

    fn take_out(&mut self, index: u8) {
        let left = self.table.into_iter().flatten().find(|other| *other != index);
        self.table = [left, None];
    }

    /// Something has happened to a record; who notes the last of three things frees it.
    fn happened(&mut self, index: u8, what: impl FnOnce(&mut Record)) {
        let record = &mut self.records[index as usize];
        self.wrong |= record.freed;
        what(record);
        record.freed |= record.made && record.begun && record.released;
    }
}

impl ThreadResults {
    fn take(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Make(index) if state.threads[index as usize] == Thread::Unmade => {
                let first = state.threads[0];
                let free = matches!(first, Thread::Joined | Thread::Released);
                (index == 0 || free).then_some(())?;
                state.threads[index as usize] = Thread::Made;
                state.records[index as usize].exists = true;
            }
            Step::Return(index) => {
                let record = state.records[index as usize];
                (record.exists && !record.made).then_some(())?;
                state.list(index);
                state.happened(index, |record| record.made = true);
            }
            Step::Go(index) => match state.threads[index as usize] {
                Thread::Made => {
                    if self.mutant != Mutant::ListedByMakerOnly {
                        state.list(index);
                    }
                    state.happened(index, |record| record.begun = true);
                    state.threads[index as usize] = Thread::Runs;
                }
                Thread::Runs => {
                    let newest = self.mutant != Mutant::WritesOldest;
                    if let Some(record) = state.of_table(newest) {
                        state.wrong |= record != index;
                        state.records[record as usize].result = index + 1;
                    }
                    state.threads[index as usize] = Thread::Ended;
                }
                _ => return None,
            },
            Step::Join(index) if state.threads[index as usize] == Thread::Ended => {
                // Its result has to be somewhere until now.
                let record = state.records[index as usize];
                state.wrong |= record.freed || record.result != index + 1;
                state.threads[index as usize] = Thread::Joined;
            }
            Step::Release(index) if state.threads[index as usize] == Thread::Joined => {
                let taken = state.of_table(self.mutant == Mutant::TakesNewest);
                if let Some(record) = taken {
                    state.take_out(record);
                    state.happened(record, |record| record.released = true);
                    if self.mutant == Mutant::FreedByJoin {
                        state.records[record as usize].freed = true;
                    }
                }
                state.threads[index as usize] = Thread::Released;
            }
            _ => return None,
        }
        Some(())
    }
}

impl Model for ThreadResults {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let state = State {
            threads: [Thread::Unmade; 2],
            records: [Record::default(); 2],
            table: [None; 2],
            wrong: false,
        };
        vec![state]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        for index in 0..2 {
            steps.extend([Step::Make(index), Step::Return(index), Step::Go(index)]);
            steps.extend([Step::Join(index), Step::Release(index)]);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.take(&mut next, step).filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RESULTS_HOLD, |_, state: &State| {
                let over = state.threads == [Thread::Released; 2];
                let returned = state.records.iter().all(|record| record.made);
                let freed = state.records.iter().all(|record| record.freed);
                !state.wrong && (!(over && returned) || freed)
            }),
            Property::sometimes("two records have the number", |_, state: &State| {
                state.table.iter().flatten().count() == 2
            }),
            Property::sometimes("all is over", |_, state: &State| {
                state.records.iter().all(|record| record.freed)
            }),
        ]
    }
}
