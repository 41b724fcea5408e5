//! A step of a cycle that is offered to the program's threads, and taken back where nobody comes.
//! After `cycle/driver/handshake.rs`.
//!
//! Invariant checked: the step is taken once, and by nobody while the collector's thread is at work
//! itself (`cycle.inv.offer`, `cycle.inv.one`). Called by the checker.

use stateright::{Model, Property};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The driver as it is.
    None,
    /// Who saw the offer takes it without another look under the lock.
    /// `cycle.inv.offer`
    LooksOnce,
    /// The collector's thread takes the offer back without the lock.
    /// `cycle.inv.offer`
    TakesBackUnlocked,
    /// What was done stays on offer.
    /// `cycle.inv.offer`
    StaysOnOffer,
}

const THREADS: usize = 2;
/// What the checker looks for.
pub const TAKEN_ONCE: &str = "a step is taken once, by one at a time";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thread {
    Runs,
    /// It has seen the offer, and wants the lock.
    Saw,
    Locked,
    /// It takes the step.
    Works,
    Worked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Collector {
    Offers,
    Waits,
    /// It has the lock, and looks whether the offer is still there.
    Locked,
    /// The offer is taken back, and it is at work.
    Works,
    Goes,
}

/// The offer, the lock, the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    offered: bool,
    /// Who has the lock; the collector's thread is the last.
    lock: Option<u8>,
    threads: [Thread; THREADS],
    collector: Collector,
    taken: u8,
    offers: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A thread's.
    Go(u8),
    /// The collector's thread's.
    Collect,
    /// The same, which sees that the offer was taken.
    See,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Offers {
    /// With which mistake.
    pub mutant: Mutant,
}

impl Offers {
    fn go(&self, state: &mut State, index: u8) -> Option<()> {
        let thread = &mut state.threads[index as usize];
        *thread = match *thread {
            Thread::Runs if state.offered => Thread::Saw,
            Thread::Saw => {
                state.lock.is_none().then_some(())?;
                state.lock = Some(index);
                Thread::Locked
            }
            Thread::Locked if state.offered || self.mutant == Mutant::LooksOnce => {
                state.taken += 1;
                Thread::Works
            }
            Thread::Works => {
                state.offered &= self.mutant == Mutant::StaysOnOffer;
                Thread::Worked
            }
            Thread::Locked | Thread::Worked => {
                state.lock = None;
                Thread::Runs
            }
            Thread::Runs => return None,
        };
        Some(())
    }

    fn collect(&self, state: &mut State) -> Option<()> {
        let own = THREADS as u8;
        let unlocked = self.mutant == Mutant::TakesBackUnlocked;
        state.collector = match state.collector {
            Collector::Offers => {
                state.offers = state.offers.checked_sub(1)?;
                (state.offered, state.taken) = (true, 0);
                Collector::Waits
            }
            Collector::Waits if unlocked => {
                state.offered.then_some(())?;
                state.offered = false;
                Collector::Works
            }
            Collector::Waits => {
                state.lock.is_none().then_some(())?;
                state.lock = Some(own);
                Collector::Locked
            }
            Collector::Locked => {
                state.lock = None;
                match core::mem::take(&mut state.offered) {
                    true => Collector::Works,
                    false => Collector::Goes,
                }
            }
            Collector::Works => Collector::Offers,
            Collector::Goes => return None,
        };
        Some(())
    }
}

impl Model for Offers {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            offered: false,
            lock: None,
            threads: [Thread::Runs; THREADS],
            collector: Collector::Offers,
            taken: 0,
            offers: 2,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend((0..THREADS as u8).map(Step::Go));
        steps.extend([Step::Collect, Step::See]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        let taken = match step {
            Step::Go(index) => self.go(&mut next, index),
            Step::Collect => self.collect(&mut next),
            Step::See => (next.collector == Collector::Waits && !next.offered)
                .then(|| next.collector = Collector::Goes),
        };
        taken.filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(TAKEN_ONCE, |_, state: &State| {
                let at_work = |thread: &&Thread| **thread == Thread::Works;
                let working = state.threads.iter().filter(at_work).count();
                let collector = matches!(state.collector, Collector::Works | Collector::Goes);
                state.taken <= 1 && working + collector as usize <= 1
            }),
            Property::sometimes("the collector takes it back", |_, state: &State| {
                state.collector == Collector::Works
            }),
            Property::sometimes("a thread takes it", |_, state: &State| {
                state.taken == 1 && state.collector == Collector::Goes
            }),
        ]
    }
}
