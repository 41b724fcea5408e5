//! Objects that the program is asked about before they are reclaimed: `gc_disclaim.h` of libgc.
//!
//! Invariant: a registered object has one entry, which says whether it was found dead; of those
//! found and not yet asked for the list keeps the object alive, with all that it reaches if the
//! registration
//! says so. An object is found after all finalizers, and not while another one that holds back what
//! it reaches reaches it. It is decided with the world stopped `[refs.why.asked-stopped]`. Who
//! reads a hidden pointer to
//! an object that was found says so by [`keep`]. Registered without a lock, taken under that
//! on what was found, in a critical section, as in `batch`.

use core::sync::atomic::{AtomicBool, Ordering::*};

use super::finalizers::registrations::{Registry, Verdict, kind_of, object_of, void};
use super::finalizers::slab::{Entry, Own};
use super::{Marking, NoMemory, with_own};
use crate::sys::meta_vec::MetaVec;

/// Kinds of entries: nothing happened to the object yet,
const WATCHED: usize = 1;
/// it was found dead,
const FOUND: usize = 2;
/// and asked for since.
const ASKED: usize = 3;

/// An entry's data: what the object reaches stays as it is until it was asked for.
const WITH_CONTENTS: usize = 0;
/// The object alone is kept. Also the lowest bit of its address in the list of those found.
const ALONE: usize = 1;

/// All objects that are asked for.
pub(crate) struct Disclaimers {
    pub(crate) registry: Registry,
    /// Whether there ever was one.
    used: AtomicBool,
}

/// What was found and not yet taken: addresses of objects, and [`ALONE`] in them. Protected by the
/// lock on what was found.
pub(crate) struct Disclaimed(MetaVec<usize>);

impl Disclaimed {
    pub(crate) const fn new() -> Self {
        Self(MetaVec::new())
    }

    /// Marks what waits to be asked for.
    pub(crate) fn trace<M: Marking>(&self, marking: &mut M) {
        self.0.iter().for_each(|&word| mark(word, marking));
    }

    fn take(&mut self) -> Option<usize> {
        let last = self.0.len().checked_sub(1)?;
        Some(object_of(self.0.swap_remove(last)))
    }
}

fn mark<M: Marking>(word: usize, marking: &mut M) {
    if word & ALONE == 0 {
        marking.mark(object_of(word));
    } else {
        marking.mark_alone(object_of(word));
    }
}

/// The object of an entry if it is dead, and was not found before.
fn dead<M: Marking>(entry: &Entry, marking: &M) -> Option<usize> {
    let word = entry.object.load(Acquire);
    let object = object_of(word);
    (kind_of(word) == WATCHED && !marking.is_marked(object)).then_some(object)
}

/// Changes an entry's kind; false if it is another than `from`.
fn change(entry: &Entry, from: usize, to: usize) -> bool {
    let object = object_of(entry.object.load(Acquire));
    entry.object.compare_exchange(object | from, object | to, AcqRel, Relaxed).is_ok()
}

impl Disclaimers {
    pub(crate) const fn new() -> Self {
        Self { registry: Registry::new(), used: AtomicBool::new(false) }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.used.load(SeqCst)
    }

    fn watch(
        &self,
        own: &Own,
        object: usize,
        with_contents: bool,
        tag: usize,
    ) -> Result<(), NoMemory> {
        if !self.is_used() {
            self.used.store(true, SeqCst);
        }
        let data = if with_contents { WITH_CONTENTS } else { ALONE };
        self.registry.add(own, object, WATCHED, tag, data).map(|_| ())
    }

    fn forget(&self, object: usize) -> Option<usize> {
        let mut entries = self.registry.of(object);
        entries
            .find(|entry| void(entry, entry.object.load(Acquire)))
            .map(|entry| entry.function.load(Relaxed))
    }

    fn is_found(&self, object: usize) -> bool {
        let mut entries = self.registry.of(object);
        entries.any(|entry| kind_of(entry.object.load(Acquire)) != WATCHED)
    }

    fn ask(&self, object: usize) -> Option<usize> {
        let mut entries = self.registry.of(object);
        entries.find(|entry| change(entry, FOUND, ASKED)).map(|entry| entry.function.load(Relaxed))
    }

    fn keep(&self, object: usize) {
        self.registry.of(object).for_each(|entry| {
            _ = change(entry, FOUND, WATCHED) || change(entry, ASKED, WATCHED);
        });
    }

    /// Whether an object dies that a thread may have read a hidden pointer to.
    pub(crate) fn any_dies<M: Marking>(&self, marking: &M) -> bool {
        let mut any = false;
        if self.is_used() {
            self.registry.for_each(|entry| any |= dead(entry, marking).is_some());
        }
        any
    }

    /// Marks what dead objects with contents reach, so that those which they reach, and finalizers
    /// there, wait. After marking.
    pub(crate) fn hold_back<M: Marking>(&self, found: &mut Disclaimed, marking: &mut M) {
        if !self.is_used() {
            return;
        }
        // All are looked at before any of it is marked; the list has room for them meanwhile.
        let before = found.0.len();
        let mut complete = true;
        self.registry.for_each(|entry| {
            if let Some(object) = dead(entry, marking)
                && entry.data.load(Relaxed) == WITH_CONTENTS
            {
                complete &= found.0.try_push(object).is_ok();
            }
        });
        found.0[before..].iter().for_each(|&object| marking.mark_contents(object));
        found.0.truncate(before);
        marking.drain();
        if !complete {
            self.keep_all(marking);
        }
    }

    /// There was no memory for a list: all that is registered waits for the next cycle.
    #[cold]
    fn keep_all<M: Marking>(&self, marking: &mut M) {
        self.registry.for_each(|entry| {
            marking.mark(object_of(entry.object.load(Acquire)));
            marking.drain();
        });
    }

    /// Decides which objects are to be asked for, and marks what that keeps. After finalizers.
    pub(crate) fn process_references<M: Marking>(&self, found: &mut Disclaimed, marking: &mut M) {
        if !self.is_used() {
            return;
        }
        let before = found.0.len();
        let mut complete = true;
        for piece in 0..self.registry.pieces() {
            self.registry.walk(piece, |entry| {
                let word = entry.object.load(Acquire);
                let object = object_of(word);
                if marking.is_marked(object) {
                    return Verdict::Keep;
                }
                if kind_of(word) != WATCHED {
                    // It was asked for, and goes now.
                    return Verdict::Drop;
                }
                if found.0.try_push(object | entry.data.load(Relaxed)).is_ok() {
                    entry.object.store(object | FOUND, Release);
                } else {
                    complete = false;
                }
                Verdict::Keep
            });
        }
        found.0[before..].iter().for_each(|&word| mark(word, marking));
        marking.drain();
        if !complete {
            self.keep_all(marking);
        }
    }
}

/// Has the object that starts at `object` asked for before it is reclaimed; `tag` is a number of
/// the caller's. `with_contents`: all that it reaches stays until then; otherwise it alone does.
///
/// # Errors
/// There is no memory for the registration.
pub fn watch(object: usize, with_contents: bool, tag: usize) -> Result<(), NoMemory> {
    with_own(|own| super::DISCLAIMERS.watch(own, object, with_contents, tag))
}

/// The object is not asked for any more: it is freed, or moves. Its tag, if it was to be.
pub fn forget(object: usize) -> Option<usize> {
    with_own(|_| super::DISCLAIMERS.forget(object))
}

/// Whether the object was found dead, and nobody said since that it is to stay.
pub fn is_found(object: usize) -> bool {
    with_own(|_| super::DISCLAIMERS.is_found(object))
}

/// The tag of an object that was found dead, and that nobody has asked for, freed or marked since:
/// the caller is to ask for it.
pub fn ask(object: usize) -> Option<usize> {
    with_own(|_| super::DISCLAIMERS.ask(object))
}

/// An object that was found dead stays: it is asked for when it is found again.
pub fn keep(object: usize) {
    with_own(|_| super::DISCLAIMERS.keep(object));
}

/// Takes an object that was found dead, to be asked for by the caller, who alone keeps it alive
/// from now on.
pub fn take() -> Option<usize> {
    if !super::DISCLAIMERS.is_used() {
        return None;
    }
    super::with_found(|found| found.lock().disclaimed.take())
}

#[cfg(test)]
mod tests {
    use super::super::Refs;
    use super::super::fake_marking::{FakeMarking, finalizer, own};
    use super::super::finalizer::Order;

    fn watch(refs: &Refs, objects: &[(usize, bool)]) {
        for &(object, with_contents) in objects {
            refs.disclaimers.watch(own(), object << 32, with_contents, object).unwrap();
        }
    }

    fn found(refs: &Refs) -> Vec<usize> {
        let mut objects: Vec<usize> = core::iter::from_fn(|| refs.found.lock().disclaimed.take())
            .map(|object| object >> 32)
            .collect();
        objects.sort_unstable();
        objects
    }

    #[test]
    fn with_contents_only_the_outermost_is_found_and_the_rest_in_later_cycles() {
        let refs = Refs::new();
        watch(&refs, &[(1, true), (2, true), (3, true), (5, true)]);
        let edges = [(1, 2), (2, 3), (3, 4), (4, 5)];
        let mut marking = FakeMarking::new(&edges);
        marking.run(&refs, &[]);
        assert!((1..=5).all(|object| marking.is_marked_now(object)));
        assert!(refs.disclaimers.is_found(1 << 32) && !refs.disclaimers.is_found(2 << 32));
        assert_eq!(found(&refs), [1]);
        FakeMarking::new(&edges).run(&refs, &[]);
        assert_eq!(found(&refs), [2]);
        assert!(!refs.disclaimers.is_found(1 << 32), "it is gone");
    }

    #[test]
    fn alone_all_are_found_at_once_and_keep_nothing() {
        let refs = Refs::new();
        watch(&refs, &[(1, false), (2, false), (3, false)]);
        let mut marking = FakeMarking::new(&[(1, 2), (2, 1), (1, 4), (5, 3)]);
        marking.run(&refs, &[5]);
        assert!(marking.is_marked_now(1) && marking.is_marked_now(2) && !marking.is_marked_now(4));
        assert_eq!(found(&refs), [1, 2]);
    }

    #[test]
    fn what_waits_is_kept_and_found_once() {
        let refs = Refs::new();
        watch(&refs, &[(1, true), (2, false)]);
        FakeMarking::new(&[]).run(&refs, &[]);
        let mut marking = FakeMarking::new(&[(1, 3), (2, 4)]);
        marking.run(&refs, &[]);
        let marked = [1, 2, 3, 4].map(|object| marking.is_marked_now(object));
        assert_eq!(marked, [true, true, true, false]);
        assert_eq!(found(&refs), [1, 2]);
    }

    #[test]
    fn an_object_that_is_kept_is_found_again_and_one_that_is_forgotten_is_not() {
        let refs = Refs::new();
        watch(&refs, &[(1, true), (2, true)]);
        FakeMarking::new(&[]).run(&refs, &[]);
        assert_eq!(found(&refs), [1, 2]);
        assert_eq!(
            [1, 1, 2].map(|object| refs.disclaimers.ask(object << 32)),
            [Some(1), None, Some(2)]
        );
        refs.disclaimers.keep(1 << 32);
        assert!(!refs.disclaimers.is_found(1 << 32) && refs.disclaimers.is_found(2 << 32));
        watch(&refs, &[(3, true)]);
        assert_eq!(refs.disclaimers.forget(3 << 32), Some(3));
        assert!(refs.disclaimers.any_dies(&FakeMarking::new(&[])));
        FakeMarking::new(&[]).run(&refs, &[]);
        assert_eq!(found(&refs), [1]);
        assert!(!refs.disclaimers.any_dies(&FakeMarking::new(&[])));
    }

    #[test]
    fn finalizers_come_first_and_wait_for_what_holds_them_back() {
        let refs = Refs::new();
        watch(&refs, &[(1, true), (2, true), (3, false)]);
        for object in [1, 4] {
            refs.finalizers.set(object, Some(finalizer(Order::NoOrder, 0))).unwrap();
        }
        // 1 has both; 2 reaches 4, which has a finalizer.
        FakeMarking::new(&[(2, 4)]).run(&refs, &[]);
        assert_eq!(refs.ready_objects(), [1]);
        assert_eq!(found(&refs), [2, 3]);
        FakeMarking::new(&[]).run(&refs, &[]);
        assert_eq!(refs.ready_objects(), [4]);
        assert_eq!(found(&refs), [1]);
    }
}
