//! Cleaners: any number of functions for an object, each run once with its argument after the
//! object is gone. They do not get the object and cannot bring it back, so its memory is free in
//! the same cycle.
//!
//! Invariant: a cleaner is registered, or in a batch, or run. Its argument is kept alive until it
//! has run. References that are put on a queue (`queue`) are cleaners that call nothing.
//! Registration takes no lock. Processed after finalizers, so a cleaner of a finalizable object
//! waits for the finalizer.

use core::sync::atomic::Ordering::*;

use super::batch::{Call, Filling};
use super::queue::{self, REFERENCE};
use super::registrations::{Registry, Verdict, kind_of, object_of, void};
use super::slab::{Entry, Own};
use super::{marked_at_registration, pool, site};
use crate::refs::{Marking, NoMemory, with_own};

/// An entry whose function is a cleaner's. Others are [`REFERENCE`]s.
pub(crate) const CLEANER: usize = 1;

/// A cleaner's function.
pub type Clean = unsafe extern "C" fn(argument: *mut core::ffi::c_void);

/// All registered cleaners and references on queues.
pub(crate) struct Cleaners {
    pub(crate) registry: Registry,
}

impl Cleaners {
    pub(crate) const fn new() -> Self {
        Self { registry: Registry::new() }
    }

    /// Registers `function` with its kind and argument.
    pub(crate) fn add(
        &self,
        own: &Own,
        object: usize,
        kind: usize,
        function: usize,
        argument: usize,
    ) -> Result<(), NoMemory> {
        self.registry.add(own, object, kind, function, argument)?;
        marked_at_registration::note(own, argument);
        Ok(())
    }

    /// Takes one registration back; false if there is none of that kind, function and argument.
    pub(crate) fn remove(
        &self,
        object: usize,
        kind: usize,
        function: usize,
        argument: usize,
    ) -> bool {
        self.registry.of(object).any(|entry| {
            let word = entry.object.load(Acquire);
            kind_of(word) == kind
                && site::without(entry.function.load(Relaxed)) == site::without(function)
                && entry.data.load(Relaxed) == argument
                && void(entry, word)
        })
    }

    /// Makes all cleaners ready, and puts all references on their queues.
    pub(crate) fn take_all(&self, own: &Own, filling: &mut Filling) -> usize {
        let mut count = 0;
        self.registry.for_each(|entry| {
            let word = entry.object.load(Acquire);
            let call = call_of(entry);
            if kind_of(word) == CLEANER && filling.reserve().is_ok() && void(entry, word) {
                marked_at_registration::note(own, call.data);
                filling.push(call);
                count += 1;
            }
        });
        filling.publish();
        count
    }

    /// Marks the arguments of registered cleaners and the values of registered references.
    pub(crate) fn trace<M: Marking>(&self, marking: &mut M) {
        self.registry.for_each_with_data(|entry| marking.mark_word(entry.data.load(Relaxed)));
    }

    /// Hands over the cleaners of objects that are not marked. After marking is complete,
    /// finalizers included.
    pub(crate) fn process_references<M: Marking>(&self, filling: &mut Filling, marking: &mut M) {
        let mut complete = true;
        for piece in 0..self.registry.pieces() {
            self.registry.walk(piece, |entry| {
                let word = entry.object.load(Acquire);
                if marking.is_marked(object_of(word)) {
                    return Verdict::Keep;
                }
                if kind_of(word) == REFERENCE {
                    return if void(entry, word) { queue::put(entry) } else { Verdict::Drop };
                }
                if filling.reserve().is_err() {
                    complete = false;
                    return Verdict::Keep;
                }
                // Its object is dead: nobody can be taking it back meanwhile.
                filling.push(call_of(entry));
                Verdict::Drop
            });
            // Each piece is handed over at once: running the first overlaps with finding the
            // others.
            filling.publish();
        }
        if !complete {
            self.registry.for_each(|entry| {
                marking.mark(object_of(entry.object.load(Acquire)));
                marking.drain();
            });
        }
    }
}

fn call_of(entry: &Entry) -> Call {
    Call {
        function: site::without(entry.function.load(Relaxed)),
        object: 0,
        data: entry.data.load(Relaxed),
    }
}

/// Registers `function` to be run with `argument` after the object that starts at `object` is gone.
/// `place` says where in the program this is, as a text that lives for ever, for the check of
/// `NEAP_CHECK`.
///
/// # Errors
/// There is no memory for the registration.
#[inline]
pub fn add(
    object: usize,
    function: Clean,
    argument: usize,
    place: Option<&'static core::ffi::CStr>,
) -> Result<(), NoMemory> {
    pool::before_registration();
    let function = site::with(function as usize, place);
    with_own(|own| crate::refs::CLEANERS.add(own, object, CLEANER, function, argument))
}

/// Takes back what [`add`] registered; false if nothing is registered so (any more). Of several the
/// newest is meant.
pub fn remove(object: usize, function: Clean, argument: usize) -> bool {
    with_own(|_| crate::refs::CLEANERS.remove(object, CLEANER, function as usize, argument))
}

/// A cleaner or reference that was taken off its object, which is about to move.
#[derive(Clone, Copy)]
pub struct Taken {
    kind: usize,
    function: usize,
    /// Only these words keep the argument alive now.
    argument: usize,
}

impl Taken {
    /// Nothing, to fill room with.
    pub const NONE: Self = Self { kind: 0, function: 0, argument: 0 };
}

/// How many cleaners and references the object that starts at `object` has.
pub fn count(object: usize) -> usize {
    with_own(|_| crate::refs::CLEANERS.registry.of(object).count())
}

/// Takes cleaners and references off an object until `room` is full; gives how many.
pub fn take(object: usize, room: &mut [Taken]) -> usize {
    with_own(|_| {
        let mut taken = 0;
        for entry in crate::refs::CLEANERS.registry.of(object) {
            let Some(place) = room.get_mut(taken) else { break };
            let word = entry.object.load(Acquire);
            let (function, argument) = (entry.function.load(Relaxed), entry.data.load(Relaxed));
            if void(entry, word) {
                *place = Taken { kind: kind_of(word), function, argument };
                taken += 1;
            }
        }
        taken
    })
}

/// Gives an object what [`take`] took off another.
///
/// # Errors
/// There is no memory for the registrations; some are lost.
pub fn put_back(object: usize, taken: &[Taken]) -> Result<(), NoMemory> {
    taken.iter().rev().filter(|taken| taken.kind != 0).try_for_each(|taken| {
        with_own(|own| {
            crate::refs::CLEANERS.add(own, object, taken.kind, taken.function, taken.argument)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::finalizer::Order;
    use super::*;
    use crate::refs::Refs;
    use crate::refs::fake_marking::{FakeMarking, finalizer, own};

    fn add(refs: &Refs, object: usize, function: usize, argument: usize) {
        refs.cleaners.add(own(), object << 32, CLEANER, function, argument).unwrap();
    }

    /// Arguments of the cleaners that are ready, in order.
    fn ready(refs: &Refs) -> Vec<usize> {
        let mut arguments: Vec<usize> = core::iter::from_fn(|| refs.take_ready())
            .filter(|(object, _)| *object == 0)
            .map(|(_, call)| call.data)
            .collect();
        arguments.sort_unstable();
        arguments
    }

    #[test]
    fn all_cleaners_of_dead_objects_are_ready_and_their_objects_stay_dead() {
        let refs = Refs::new();
        for argument in 1..=3 {
            add(&refs, 1, 8, 100 + argument);
            add(&refs, 2, 8, 200 + argument);
        }
        let mut marking = FakeMarking::new(&[(1, 3)]);
        marking.run(&refs, &[2]);
        assert!(!marking.is_marked_now(1) && !marking.is_marked_now(3));
        assert_eq!(ready(&refs), [101, 102, 103]);
        FakeMarking::new(&[]).run(&refs, &[]);
        assert_eq!(ready(&refs), [201, 202, 203]);
        FakeMarking::new(&[]).run(&refs, &[]);
        assert_eq!(ready(&refs), []);
    }

    #[test]
    fn arguments_are_kept_until_they_were_used() {
        let refs = Refs::new();
        add(&refs, 1, 8, 7);
        let edges = [(7, 9)];
        for roots in [&[1][..], &[], &[]] {
            let mut marking = FakeMarking::new(&edges);
            marking.run(&refs, roots);
            assert!(marking.is_marked_now(7) && marking.is_marked_now(9));
        }
        assert_eq!(ready(&refs), [7]);
        let mut marking = FakeMarking::new(&edges);
        marking.run(&refs, &[]);
        assert!(!marking.is_marked_now(7));
    }

    #[test]
    fn a_cleaner_waits_for_the_finalizer_and_what_it_brings_back() {
        let refs = Refs::new();
        refs.finalizers.set(1, Some(finalizer(Order::NoOrder, 0))).unwrap();
        add(&refs, 1, 8, 101);
        add(&refs, 2, 8, 102);
        FakeMarking::new(&[(1, 2)]).run(&refs, &[]);
        assert_eq!(refs.take_ready().map(|(object, _)| object), Some(1));
        assert!(refs.take_ready().is_none());
        // The finalizer stored its object somewhere.
        FakeMarking::new(&[(1, 2)]).run(&refs, &[1]);
        assert_eq!(ready(&refs), []);
        FakeMarking::new(&[(1, 2)]).run(&refs, &[]);
        assert_eq!(ready(&refs), [101, 102]);
    }

    #[test]
    fn one_is_taken_back_by_its_function_and_argument() {
        let refs = Refs::new();
        for (function, argument) in [(8, 101), (8, 102), (16, 101), (8, 101)] {
            add(&refs, 1, function, argument);
        }
        let remove =
            |function, argument| refs.cleaners.remove(1 << 32, CLEANER, function, argument);
        assert!(!remove(16, 102) && !refs.cleaners.remove(2 << 32, CLEANER, 8, 101));
        assert!(remove(8, 101) && remove(8, 101) && !remove(8, 101));
        FakeMarking::new(&[]).run(&refs, &[]);
        assert_eq!(ready(&refs), [101, 102]);
    }
}
