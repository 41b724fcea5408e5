//! Stopping the world by signals that may be refused, with threads that come, go, wait in blocked
//! regions, and are in critical sections. After `world/stop.rs` and `world/blocked.rs`.
//!
//! Invariants checked: in a stop every thread of the program stands or is blocked
//! (`world.inv.stopped`, `world.inv.blocked`, `world.rule.gone`, `world.rule.waiting`), nobody
//! stands in a critical section (`world.inv.critical`), and a stop that is asked for comes about.
//! Called by the checker.

use stateright::{Model, Property};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The world as it is.
    None,
    /// A thread that could not be sent the signal is taken off the list.
    /// `world.rule.gone`
    DropsUnsent,
    /// A thread that could not be sent the signal counts as standing.
    /// `world.inv.stopped`
    UnsentStands,
    /// Who leaves a region looks for a stop, and says that it runs then.
    /// `world.inv.blocked`
    LooksFirst,
    /// Answers are counted, and nobody looks who stands.
    /// `world.inv.stopped`
    CountsOnly,
    /// The same, and who was not asked in this stop answers too.
    /// `world.inv.stopped`
    CountsStale,
    /// The handler answers in critical sections.
    /// `world.inv.critical`
    ObeysInCritical,
    /// The end of a critical section asks whether a stop was put off, and ends it then.
    /// `world.inv.critical`
    ForgetsPutOff,
    /// A thread is attached while the world is stopped.
    /// `world.inv.stopped`
    AttachesInStop,
    /// A handler of the program's runs in the region that it interrupts.
    /// `world.rule.waiting`
    HandlerInRegion,
}

const THREADS: usize = 2;
/// What the checker looks for.
pub const WORLD_STANDS: &str = "in a stop every thread stands or is blocked";
/// The same.
pub const NOBODY_IN_CRITICAL: &str = "nobody stands in a critical section";
/// The same.
pub const STOPS_END: &str = "a stop that was asked for comes about";

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// There is none, or it is no mutator.
    Away,
    /// It has ended, and is on the list.
    Vanished,
    Code,
    Critical,
    /// The counter is zero; whether a stop was put off is to be asked.
    CriticalEnds,
    /// The mutant has asked, and the counter is not zero.
    CriticalAsked,
    Region,
    /// It says that it runs, and has not looked.
    Leaving,
    /// The mutant has looked, and says that it is blocked.
    Looked,
    /// It says that it is blocked, and waits for the stop to end.
    Waiting,
    /// It has answered, and was at one of those places.
    Standing(Back),
}

/// Where it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Back {
    Code,
    Critical,
    Region,
    Leaving,
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Thread {
    place: Place,
    listed: bool,
    blocked: bool,
    pending: bool,
    put_off: bool,
    unsent: bool,
    asked: u8,
    obeyed: u8,
    /// The stop that it waits for the end of.
    waits_for: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stopper {
    Idle,
    /// Stores the threads' `asked`, before the first signal.
    Telling(u8),
    Asking(u8),
    /// The thread's `asked` is stored, the signal to be sent.
    Sending(u8),
    Counting,
    Looking(u8),
    Stopped,
}

/// The epoch, the threads, and who stops them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    threads: [Thread; THREADS],
    stopper: Stopper,
    epoch: u8,
    answers: u8,
    wanted: u8,
    refusals: u8,
    stops: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A thread's next step on the way that it is on, or into a critical section.
    Go(u8),
    /// A thread in the program's code begins a region.
    Block(u8),
    /// A thread comes by an allocation.
    Poll(u8),
    /// The stop signal's handler runs.
    Handle(u8),
    /// The world goes on, for a thread that stands.
    Wake(u8),
    /// A handler of the program's runs in a region.
    Handler(u8),
    /// A thread ends without a word, or is detached, or comes.
    Vanish(u8),
    /// The same.
    Detach(u8),
    /// The same.
    Attach(u8),
    /// The stopper's next step.
    Stop,
    /// The same, where the system refuses to send the signal.
    Refused,
    /// An answer is late: numbers count no more.
    Late,
    /// A thread that could not be sent the signal is asked again.
    Again,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Stopping {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn is_under_way(&self) -> bool {
        self.epoch % 2 == 1
    }

    fn stands(&self, index: usize) -> bool {
        let thread = &self.threads[index];
        !thread.listed || thread.obeyed == self.epoch || thread.blocked
    }
}

impl Stopping {
    /// Answers, if the thread is asked and has not.
    fn obey(&self, state: &mut State, index: usize, back: Back) {
        let (epoch, under_way) = (state.epoch, state.is_under_way());
        let thread = &mut state.threads[index];
        let asked = thread.asked == epoch || self.mutant == Mutant::CountsStale;
        if under_way && asked && thread.obeyed != epoch {
            thread.obeyed = epoch;
            thread.place = Place::Standing(back);
            state.answers += 1;
        }
    }

    fn handle(&self, state: &mut State, index: usize) -> Option<()> {
        let thread = &mut state.threads[index];
        core::mem::take(&mut thread.pending).then_some(())?;
        let back = match thread.place {
            Place::Code | Place::CriticalEnds => Back::Code,
            Place::Critical | Place::CriticalAsked if self.mutant != Mutant::ObeysInCritical => {
                thread.put_off = true;
                return Some(());
            }
            Place::Critical | Place::CriticalAsked => Back::Critical,
            Place::Region => Back::Region,
            Place::Leaving | Place::Looked => Back::Leaving,
            Place::Waiting => Back::Waiting,
            Place::Standing(_) | Place::Vanished | Place::Away => return None,
        };
        self.obey(state, index, back);
        Some(())
    }

    fn go(&self, state: &mut State, index: usize) -> Option<()> {
        let (epoch, under_way) = (state.epoch, state.is_under_way());
        let forgets = self.mutant == Mutant::ForgetsPutOff;
        let looks_first = self.mutant == Mutant::LooksFirst;
        let thread = &mut state.threads[index];
        match thread.place {
            Place::Code => thread.place = Place::Critical,
            Place::Critical if forgets && !thread.put_off => thread.place = Place::CriticalAsked,
            Place::Critical => thread.place = Place::CriticalEnds,
            Place::CriticalAsked => thread.place = Place::Code,
            Place::CriticalEnds => {
                thread.place = Place::Code;
                if core::mem::take(&mut thread.put_off) {
                    self.obey(state, index, Back::Code);
                }
            }
            Place::Region if looks_first => {
                (!under_way).then_some(())?;
                thread.place = Place::Looked;
            }
            Place::Region => (thread.blocked, thread.place) = (false, Place::Leaving),
            Place::Looked => (thread.blocked, thread.place) = (false, Place::Code),
            Place::Leaving if under_way && thread.obeyed != epoch => {
                (thread.blocked, thread.place) = (true, Place::Waiting);
                thread.waits_for = epoch;
            }
            Place::Leaving => thread.place = Place::Code,
            Place::Waiting => {
                (thread.waits_for != epoch).then_some(())?;
                (thread.blocked, thread.place) = (false, Place::Leaving);
            }
            _ => return None,
        }
        Some(())
    }

    fn thread(&self, state: &mut State, step: Step) -> Option<()> {
        let free = state.stopper == Stopper::Idle;
        let (epoch, in_stop) = (state.epoch, state.stopper == Stopper::Stopped);
        match step {
            Step::Go(index) => self.go(state, index as usize)?,
            Step::Handle(index) => self.handle(state, index as usize)?,
            Step::Poll(index) => {
                let thread = &state.threads[index as usize];
                (thread.place == Place::Code).then_some(())?;
                self.obey(state, index as usize, Back::Code);
            }
            Step::Wake(index) => {
                let thread = &mut state.threads[index as usize];
                let Place::Standing(back) = thread.place else { return None };
                (thread.obeyed != epoch).then_some(())?;
                thread.place = match back {
                    Back::Code => Place::Code,
                    Back::Critical => Place::Critical,
                    Back::Region => Place::Region,
                    Back::Leaving => Place::Leaving,
                    Back::Waiting => Place::Waiting,
                };
            }
            Step::Block(index) => {
                let thread = &mut state.threads[index as usize];
                (thread.place == Place::Code).then_some(())?;
                (thread.blocked, thread.place) = (true, Place::Region);
            }
            // In order it leaves the region first, which is the way out of one anyway.
            Step::Handler(index) if self.mutant == Mutant::HandlerInRegion => {
                let thread = &mut state.threads[index as usize];
                (thread.place == Place::Region).then_some(())?;
                thread.place = Place::Code;
            }
            Step::Vanish(index) => {
                let thread = &mut state.threads[index as usize];
                (thread.place == Place::Code).then_some(())?;
                (thread.place, thread.pending) = (Place::Vanished, false);
            }
            Step::Detach(index) if free => {
                let thread = &mut state.threads[index as usize];
                (thread.place == Place::Code).then_some(())?;
                *thread = AWAY;
            }
            Step::Attach(index) if free || (in_stop && self.mutant == Mutant::AttachesInStop) => {
                let thread = &mut state.threads[index as usize];
                (thread.place == Place::Away).then_some(())?;
                *thread = Thread { place: Place::Code, listed: true, ..AWAY };
            }
            _ => return None,
        }
        Some(())
    }

    /// Sends the signal to a thread, or finds that it is gone, or is refused.
    fn send(&self, state: &mut State, index: usize, refused: bool) -> Option<()> {
        if refused {
            state.refusals = state.refusals.checked_sub(1)?;
        }
        let thread = &mut state.threads[index];
        thread.unsent = refused && thread.place != Place::Vanished;
        if thread.place == Place::Vanished {
            *thread = AWAY;
        } else if !refused {
            (thread.pending, state.wanted) = (true, state.wanted + 1);
        } else if self.mutant == Mutant::DropsUnsent {
            thread.listed = false;
        }
        Some(())
    }

    fn stop(&self, state: &mut State, refused: bool) -> Option<()> {
        let next = |index: u8| match index as usize + 1 < THREADS {
            true => Stopper::Asking(index + 1),
            false => Stopper::Counting,
        };
        let counts = matches!(self.mutant, Mutant::CountsOnly | Mutant::CountsStale);
        match state.stopper {
            Stopper::Idle if !refused => {
                state.stops = state.stops.checked_sub(1)?;
                (state.epoch, state.answers, state.wanted) = (state.epoch + 1, 0, 0);
                state.stopper = Stopper::Telling(0);
            }
            Stopper::Telling(index) if !refused => {
                let thread = &mut state.threads[index as usize];
                if thread.listed && !thread.blocked {
                    thread.asked = state.epoch;
                }
                state.stopper = match index as usize + 1 < THREADS {
                    true => Stopper::Telling(index + 1),
                    false => Stopper::Asking(0),
                };
            }
            Stopper::Asking(index) if !refused => {
                let epoch = state.epoch;
                let thread = &mut state.threads[index as usize];
                thread.unsent = false;
                if thread.listed && thread.obeyed == epoch {
                    // It came by.
                    state.wanted += 1;
                    state.stopper = next(index);
                } else if !thread.listed || thread.blocked {
                    state.stopper = next(index);
                } else {
                    thread.asked = epoch;
                    state.stopper = Stopper::Sending(index);
                }
            }
            Stopper::Sending(index) => {
                self.send(state, index as usize, refused)?;
                state.stopper = next(index);
            }
            Stopper::Counting if !refused && state.answers >= state.wanted => {
                state.stopper = if counts { Stopper::Stopped } else { Stopper::Looking(0) };
            }
            Stopper::Looking(index) if !refused => {
                let unsent = state.threads[index as usize].unsent;
                let passes = self.mutant == Mutant::UnsentStands && unsent;
                (passes || state.stands(index as usize)).then_some(())?;
                state.stopper = match index as usize + 1 < THREADS {
                    true => Stopper::Looking(index + 1),
                    false => Stopper::Stopped,
                };
            }
            Stopper::Stopped if !refused => {
                (state.epoch, state.stopper) = (state.epoch + 1, Stopper::Idle);
            }
            _ => return None,
        }
        Some(())
    }

    fn take(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Stop => self.stop(state, false),
            Step::Refused => self.stop(state, true),
            Step::Late => {
                let missing = |thread: &Thread| {
                    thread.listed && (thread.unsent || thread.place == Place::Vanished)
                };
                let late = state.stopper == Stopper::Counting;
                (late && state.threads.iter().any(missing)).then_some(())?;
                state.stopper = Stopper::Looking(0);
                Some(())
            }
            Step::Again => {
                let Stopper::Looking(index) = state.stopper else { return None };
                let index = index as usize;
                let thread = &state.threads[index];
                let gone = thread.listed && thread.place == Place::Vanished;
                ((thread.unsent || gone) && !state.stands(index)).then_some(())?;
                self.send(state, index, false)
            }
            _ => self.thread(state, step),
        }
    }

    fn steps() -> Vec<Step> {
        let mut steps = vec![Step::Stop, Step::Refused, Step::Late, Step::Again];
        for index in 0..THREADS as u8 {
            steps.extend([Step::Go(index), Step::Block(index), Step::Poll(index)]);
            steps.extend([Step::Handle(index), Step::Wake(index), Step::Handler(index)]);
            steps.extend([Step::Vanish(index), Step::Detach(index), Step::Attach(index)]);
        }
        steps
    }
}

const AWAY: Thread = Thread {
    place: Place::Away,
    listed: false,
    blocked: false,
    pending: false,
    put_off: false,
    unsent: false,
    asked: 0,
    obeyed: 0,
    waits_for: 0,
};

impl Model for Stopping {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let runs = Thread { place: Place::Code, listed: true, ..AWAY };
        let start = |refusals| State {
            threads: [runs, AWAY],
            stopper: Stopper::Idle,
            epoch: 0,
            answers: 0,
            wanted: 0,
            refusals,
            stops: 2,
        };
        vec![start(0), start(1)]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        steps.extend(Self::steps());
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.take(&mut next, step).filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(WORLD_STANDS, |_, state: &State| {
                let still = |thread: &Thread| {
                    let at_rest = matches!(thread.place, Place::Away | Place::Vanished);
                    let blocked = matches!(thread.place, Place::Region | Place::Waiting);
                    let between = matches!(thread.place, Place::Leaving | Place::Looked);
                    // Who stands since an earlier stop, and goes back to a region, waits there.
                    let stands = match thread.place {
                        Place::Standing(Back::Code | Back::Critical) => {
                            thread.obeyed == state.epoch
                        }
                        Place::Standing(_) => true,
                        _ => false,
                    };
                    at_rest || blocked || between || stands
                };
                state.stopper != Stopper::Stopped || state.threads.iter().all(still)
            }),
            Property::always(NOBODY_IN_CRITICAL, |_, state: &State| {
                let stands = |thread: &Thread| thread.place == Place::Standing(Back::Critical);
                !state.threads.iter().any(stands)
            }),
            Property::always(STOPS_END, |model: &Self, state: &State| {
                let waits = !matches!(state.stopper, Stopper::Idle | Stopper::Stopped);
                // A thread in the program's code may go on for ever and not come by.
                let answers = |step: &Step| !matches!(step, Step::Poll(_) | Step::Vanish(_));
                let goes_in = |step: &Step| match step {
                    Step::Go(index) => state.threads[*index as usize].place == Place::Code,
                    Step::Block(_) | Step::Handler(_) => true,
                    _ => false,
                };
                let steps = Self::steps();
                let mut steps = steps.iter().filter(|step| answers(step) && !goes_in(step));
                let moves = steps.any(|step| model.next_state(state, *step).is_some());
                !waits || moves
            }),
            Property::sometimes("a refused signal is made good", |_, state: &State| {
                let unsent = |thread: &Thread| thread.unsent && thread.obeyed == state.epoch;
                state.stopper == Stopper::Stopped && state.threads.iter().any(unsent)
            }),
            Property::sometimes("two threads stand, one in a region", |_, state: &State| {
                let stands = |thread: &Thread| thread.obeyed == state.epoch;
                let [a, b] = &state.threads;
                state.stopper == Stopper::Stopped
                    && (stands(a) && b.place == Place::Waiting && b.blocked)
            }),
        ]
    }
}
