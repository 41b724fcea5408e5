//! Stopping one thread to read its stack: it copies the stack and goes on, or stands, or is found
//! blocked. After `world/root_copy.rs`.
//!
//! The program moves the only pointer from one word of its stack to the other, which is written
//! first; a reader goes the other way. Invariant checked: what is read has the pointer
//! (`world.inv.copied`). Called by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The stop as it is.
    None,
    /// The stack is read before the thread has answered.
    /// `world.inv.copied`
    ReadsUnanswered,
    /// A thread whose stack has no room goes on all the same.
    /// `world.inv.copied`
    GoesOnUncopied,
    /// A thread leaves its region while it is being read.
    /// `world.inv.copied`
    LeavesWhileRead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thread {
    Runs,
    Blocked,
    Stands,
}

/// The stack, its copy, and who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    stack: [bool; 2],
    copy: Option<[bool; 2]>,
    thread: Thread,
    /// The thread's stack does not fit.
    large: bool,
    asked: bool,
    answered: bool,
    /// Words read, from the first on, and whether the pointer was among them.
    read: u8,
    found: bool,
    over: bool,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The thread writes a word.
    Write(u8),
    /// It clears one, if the other has the pointer.
    Clear(u8),
    /// It begins a region, or leaves it.
    Block,
    /// The same.
    Leave,
    /// Its handler runs.
    Handle,
    /// The reader asks it.
    Ask,
    /// The reader reads the next word.
    Read,
    /// The stop is over.
    End,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// With which mistake.
    pub mutant: Mutant,
}

impl Copied {
    fn take(&self, state: &mut State, step: Step) -> Option<()> {
        let runs = state.thread == Thread::Runs;
        match step {
            Step::Write(word) if runs => state.stack[word as usize] = true,
            Step::Clear(word) if runs => {
                state.stack[1 - word as usize].then_some(())?;
                state.stack[word as usize] = false;
            }
            Step::Block if runs => state.thread = Thread::Blocked,
            Step::Leave if state.thread == Thread::Blocked => {
                let free = !state.asked || state.over || state.answered;
                (free || self.mutant == Mutant::LeavesWhileRead).then_some(())?;
                state.thread = Thread::Runs;
            }
            Step::Handle if state.asked && !state.answered && runs && !state.over => {
                state.answered = true;
                if !state.large {
                    state.copy = Some(state.stack);
                } else if self.mutant != Mutant::GoesOnUncopied {
                    state.thread = Thread::Stands;
                }
            }
            Step::Ask if !state.asked => state.asked = true,
            Step::Read if state.asked && state.read < 2 => {
                let blocked = state.thread == Thread::Blocked && !state.answered;
                let begun = state.read > 0;
                let may = state.answered || blocked || begun;
                (may || self.mutant == Mutant::ReadsUnanswered).then_some(())?;
                // What was offered is taken back where it is found blocked.
                state.answered |= begun && state.copy.is_some();
                let words = state.copy.unwrap_or(state.stack);
                state.found |= words[state.read as usize];
                state.read += 1;
            }
            Step::End if state.read == 2 && !state.over => {
                state.over = true;
                if state.thread == Thread::Stands {
                    state.thread = Thread::Runs;
                }
            }
            _ => return None,
        }
        Some(())
    }
}

impl Model for Copied {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let start = |large| State {
            stack: [false, true],
            copy: None,
            thread: Thread::Runs,
            large,
            asked: false,
            answered: false,
            read: 0,
            found: false,
            over: false,
        };
        vec![start(false), start(true)]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend([Step::Write(0), Step::Write(1), Step::Clear(0), Step::Clear(1)]);
        steps.extend([Step::Block, Step::Leave, Step::Handle, Step::Ask, Step::Read, Step::End]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.take(&mut next, step).filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| state.read < 2 || state.found),
            Property::sometimes("the thread runs on while it is read", |_, state: &State| {
                state.read == 1 && state.copy.is_some_and(|copy| copy != state.stack)
            }),
            Property::sometimes("it stands", |_, state: &State| state.thread == Thread::Stands),
            Property::sometimes("it is read while it is blocked", |_, state: &State| {
                state.over && !state.answered
            }),
        ]
    }
}
