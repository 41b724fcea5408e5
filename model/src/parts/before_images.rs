//! Pages that are kept before the program writes to them, and markers that read beside it. After
//! `watch/snapshot.rs`, `heap/before_images.rs` and `mark/before_image.rs`.
//!
//! A page is an object of one word. Invariant checked: what was reachable in the first stop is
//! marked at the end of marking (`watch.inv.copy-before-write`, `heap.inv.before-images`). Called
//! by the checker.

use stateright::{Model, Property};

use crate::cycles::NOTHING_LOST;
use crate::heap::{Set, each};

/// Mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The collector as it is.
    None,
    /// A page is released before its copy is published.
    /// `watch.inv.copy-before-write`
    ReleasesFirst,
    /// A marker asks for the copy and reads the object then.
    /// `heap.inv.before-images`
    AsksFirst,
    /// What was released while pages were being protected is not protected again in the stop.
    /// `watch.inv.copy-before-write`
    ForgetsTouched,
    /// A marker that finds a copy reads the page alone.
    /// `heap.inv.before-images`
    IgnoresCopies,
}

const OBJECTS: u8 = 3;

/// Where the collector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Protecting beside the program.
    Protecting,
    /// From the first stop to the end of marking.
    Keeping,
    /// A marker has read, or asked about, an object.
    Half(u8),
    Done,
}

/// Objects, pages and copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    words: [u8; OBJECTS as usize],
    register: u8,
    protected: Set,
    /// Released while the pages were being protected.
    touched: Set,
    copies: [Option<u8>; OBJECTS as usize],
    /// Reachable in the first stop.
    snapshot: Set,
    marked: Set,
    grey: Set,
    /// What a marker that is half done has in its hands.
    read: Option<u8>,
    at: At,
    operations: u8,
}

/// One step of the program, the thread that serves writers, or the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The program's.
    Load(u8),
    /// The register, or null, goes to an object's word.
    Store(u8, bool),
    /// The page is protected.
    Protect(u8),
    /// The first stop.
    Stop,
    /// The page's contents are copied, for a writer that waits.
    Keep(u8),
    /// The page may be written.
    Release(u8),
    /// A marker begins with an object.
    Begin(u8),
    /// It goes on.
    End,
    /// Nothing is grey.
    Finish,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct BeforeImages {
    /// With which mistake.
    pub mutant: Mutant,
}

impl State {
    fn reachable(&self) -> Set {
        let mut reached = self.register.checked_sub(1).map_or(0, |object| 1 << object);
        for _ in 0..OBJECTS {
            let words =
                each(reached).filter_map(|object| self.words[object as usize].checked_sub(1));
            reached = words.fold(reached, |set, object| set | 1 << object);
        }
        // The program keeps the first object by another root.
        reached
    }

    fn grey(&mut self, pointer: u8) {
        if let Some(object) = pointer.checked_sub(1) {
            self.grey |= 1 << object & !self.marked;
            self.marked |= 1 << object;
        }
    }
}

impl BeforeImages {
    fn take(&self, state: &mut State, step: Step) -> Option<()> {
        let marks = matches!(state.at, At::Keeping | At::Half(_));
        match step {
            Step::Load(object) if state.reachable() & 1 << object != 0 => {
                state.operations = state.operations.checked_sub(1)?;
                state.register = state.words[object as usize];
            }
            Step::Store(object, null) if state.protected & 1 << object == 0 => {
                state.operations = state.operations.checked_sub(1)?;
                state.words[object as usize] = if null { 0 } else { state.register };
            }
            Step::Protect(page) if state.at == At::Protecting => {
                state.protected |= 1 << page;
            }
            Step::Stop if state.at == At::Protecting => {
                let left_out = match self.mutant {
                    Mutant::ForgetsTouched => state.touched,
                    _ => 0,
                };
                state.protected = !left_out & ((1 << OBJECTS) - 1);
                state.snapshot = state.reachable();
                state.grey(state.register);
                state.at = At::Keeping;
            }
            Step::Keep(page) if marks && state.protected & 1 << page != 0 => {
                state.copies[page as usize].is_none().then_some(())?;
                state.copies[page as usize] = Some(state.words[page as usize]);
            }
            // The mutant's server copies what it has released already.
            Step::Keep(page) if marks && self.mutant == Mutant::ReleasesFirst => {
                (state.touched & 1 << page != 0).then_some(())?;
                state.copies[page as usize].is_none().then_some(())?;
                state.copies[page as usize] = Some(state.words[page as usize]);
            }
            Step::Release(page) if state.protected & 1 << page != 0 => {
                let kept = state.copies[page as usize].is_some();
                match state.at {
                    At::Protecting => {}
                    _ if marks && self.mutant == Mutant::ReleasesFirst && !kept => {}
                    _ if marks && kept => {}
                    _ => return None,
                }
                state.touched |= 1 << page;
                state.protected &= !(1 << page);
            }
            Step::Begin(object) if state.at == At::Keeping && state.grey & 1 << object != 0 => {
                state.read = match self.mutant {
                    Mutant::AsksFirst => state.copies[object as usize],
                    _ => Some(state.words[object as usize]),
                };
                state.at = At::Half(object);
            }
            Step::End => {
                let At::Half(object) = state.at else { return None };
                state.grey &= !(1 << object);
                let other = match self.mutant {
                    Mutant::AsksFirst => Some(state.words[object as usize]),
                    Mutant::IgnoresCopies => None,
                    _ => state.copies[object as usize],
                };
                let both = [core::mem::take(&mut state.read), other];
                both.into_iter().flatten().for_each(|word| state.grey(word));
                state.at = At::Keeping;
            }
            Step::Finish if state.at == At::Keeping && state.grey == 0 => state.at = At::Done,
            _ => return None,
        }
        Some(())
    }
}

impl Model for BeforeImages {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            words: [2, 3, 0],
            register: 1,
            protected: 0,
            touched: 0,
            copies: [None; OBJECTS as usize],
            snapshot: 0,
            marked: 0,
            grey: 0,
            read: None,
            at: At::Protecting,
            operations: 4,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        for one in 0..OBJECTS {
            steps.extend([Step::Load(one), Step::Store(one, true), Step::Store(one, false)]);
            steps.extend([Step::Protect(one), Step::Keep(one), Step::Release(one)]);
            steps.push(Step::Begin(one));
        }
        steps.extend([Step::Stop, Step::End, Step::Finish]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.take(&mut next, step).filter(|()| next != *last).map(|()| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LOST, |_, state: &State| {
                state.at != At::Done || state.snapshot & !state.marked == 0
            }),
            Property::sometimes("a copy is what marks an object", |_, state: &State| {
                let words = state.words.map(|word| word.saturating_sub(1));
                state.at == At::Done && each(state.marked).any(|object| !words.contains(&object))
            }),
            Property::sometimes("something dead by now is marked", |_, state: &State| {
                state.at == At::Done && state.marked & !state.reachable() != 0
            }),
        ]
    }
}
