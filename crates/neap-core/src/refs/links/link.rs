//! Disappearing links: words of the program that become zero when an object dies. Short ones before
//! finalizers, long ones after.
//!
//! Invariant: a link is registered once per table; it is dropped when it was cleared, or when the
//! object that it lies in died, so a cycle never writes into memory that changed hands. The link's
//! contents are the program's business (mostly a hidden pointer): the object is given apart.
//! Registration on any mutator; the table itself is `link_table`, where the cycle clears links.

use core::sync::atomic::{AtomicBool, Ordering::*};

pub use super::link_table::{IMMORTAL, Registration, Relocation};

use super::link_table::Links;
use crate::refs::{NoMemory, Tables};

/// A link was registered since the program began.
static WERE_ANY: AtomicBool = AtomicBool::new(false);

/// Which of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Cleared when nothing but finalizers could still reach the object: finalizers find it zero.
    Short,
    /// Cleared when the object is really gone: an object that a finalizer brought back keeps it.
    Long,
}

impl Tables {
    fn links(&mut self, length: Length) -> &mut Links {
        match length {
            Length::Short => &mut self.short_links,
            Length::Long => &mut self.long_links,
        }
    }
}

/// The word at `address` becomes zero when the object that starts at `object` dies; [`IMMORTAL`]
/// never does.
///
/// # Errors
/// There is no memory for the table.
///
/// # Safety
/// `address` is an aligned, writable word until it is unregistered or, where it lies in an object,
/// until that object dies.
pub unsafe fn register(
    length: Length,
    address: usize,
    object: usize,
) -> Result<Registration, NoMemory> {
    WERE_ANY.store(true, Relaxed);
    crate::refs::with(|tables| tables.links(length).register(address, object))
}

/// Forgets the link at `address`; false if it is not registered.
pub fn unregister(length: Length, address: usize) -> bool {
    crate::refs::with(|tables| tables.links(length).unregister(address))
}

/// Forgets the links that lie in so many bytes from `start`: their words are written no more.
pub fn unregister_within(start: usize, bytes: usize) {
    crate::refs::with(|tables| {
        for length in [Length::Short, Length::Long] {
            tables.links(length).unregister_within(start, bytes);
        }
    });
}

/// Whether a link was ever registered: where the program frees the object that one lies in, it
/// knows of the link.
pub fn were_any() -> bool {
    WERE_ANY.load(Relaxed)
}

/// The link at `from` is now at `to`; its contents are not copied.
///
/// # Errors
/// There is no memory for the table.
///
/// # Safety
/// As for [`register`], for `to`.
pub unsafe fn relocate(length: Length, from: usize, to: usize) -> Result<Relocation, NoMemory> {
    crate::refs::with(|tables| tables.links(length).relocate(from, to))
}

/// How many links are registered.
pub fn registered(length: Length) -> usize {
    crate::refs::with(|tables| tables.links(length).registered())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::Refs;
    use crate::refs::fake_marking::{FakeMarking, finalizer};
    use crate::refs::finalizers::finalizer::Order;

    /// A word that only addresses touch: read and written through the one pointer.
    struct Word(*mut usize);
    impl Word {
        fn new() -> Self {
            Self(Box::into_raw(Box::new(!0)))
        }
        fn address(&self) -> usize {
            self.0.expose_provenance()
        }
        fn is_cleared(&self) -> bool {
            // SAFETY: the box lives as long as `self`.
            unsafe { self.0.read() == 0 }
        }
    }
    impl Drop for Word {
        fn drop(&mut self) {
            // SAFETY: it came from Box::into_raw.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }

    #[test]
    fn clears_links_of_dead_objects_only() {
        let (refs, dead, live) = (Refs::new(), Word::new(), Word::new());
        refs.tables.lock().short_links.register(dead.address(), 1).unwrap();
        refs.tables.lock().short_links.register(live.address(), 2).unwrap();
        FakeMarking::new(&[]).run(&refs, &[2]);
        assert!(dead.is_cleared() && !live.is_cleared());
        assert_eq!(refs.tables.lock().short_links.registered(), 1);
    }

    #[test]
    fn short_before_finalizers_long_after() {
        let (refs, short, long) = (Refs::new(), Word::new(), Word::new());
        refs.finalizers.set(1, Some(finalizer(Order::NoOrder, 0))).unwrap();
        refs.tables.lock().short_links.register(short.address(), 1).unwrap();
        refs.tables.lock().long_links.register(long.address(), 1).unwrap();
        FakeMarking::new(&[]).run(&refs, &[]);
        assert!(short.is_cleared() && !long.is_cleared());
        refs.take_ready().unwrap();
        FakeMarking::new(&[]).run(&refs, &[]);
        assert!(long.is_cleared());
        assert_eq!(refs.tables.lock().long_links.registered(), 0);
    }

    #[test]
    fn links_to_what_a_finalizer_reaches_follow_the_same_rule() {
        let (refs, short, long) = (Refs::new(), Word::new(), Word::new());
        refs.finalizers.set(1, Some(finalizer(Order::Topological, 0))).unwrap();
        refs.tables.lock().short_links.register(short.address(), 2).unwrap();
        refs.tables.lock().long_links.register(long.address(), 2).unwrap();
        FakeMarking::new(&[(1, 2)]).run(&refs, &[]);
        assert!(short.is_cleared() && !long.is_cleared());
    }

    #[test]
    fn links_in_dead_objects_are_forgotten_untouched() {
        let (refs, short, long) = (Refs::new(), Word::new(), Word::new());
        refs.tables.lock().short_links.register(short.address(), 2).unwrap();
        refs.tables.lock().long_links.register(long.address(), 2).unwrap();
        let mut marking = FakeMarking::new(&[]);
        marking.place(short.address(), 1);
        marking.place(long.address(), 1);
        marking.run(&refs, &[2]);
        assert!(!short.is_cleared() && !long.is_cleared());
        let tables = refs.tables.lock();
        assert_eq!((tables.short_links.registered(), tables.long_links.registered()), (0, 0));
    }

    #[test]
    fn links_in_objects_that_a_finalizer_keeps_stay() {
        let (refs, word) = (Refs::new(), Word::new());
        refs.finalizers.set(1, Some(finalizer(Order::NoOrder, 0))).unwrap();
        refs.tables.lock().short_links.register(word.address(), 2).unwrap();
        let mut marking = FakeMarking::new(&[]);
        marking.place(word.address(), 1);
        marking.run(&refs, &[2]);
        assert_eq!(refs.tables.lock().short_links.registered(), 1);
        FakeMarking::new(&[]).run(&refs, &[]);
        assert!(word.is_cleared());
    }

    #[test]
    fn registering_again_updates() {
        let (refs, word) = (Refs::new(), Word::new());
        let register = |object| refs.tables.lock().short_links.register(word.address(), object);
        assert_eq!(register(1), Ok(Registration::New));
        assert_eq!(register(2), Ok(Registration::Updated));
        FakeMarking::new(&[]).run(&refs, &[2]);
        assert!(!word.is_cleared());
        assert!(refs.tables.lock().short_links.unregister(word.address()));
        assert!(!refs.tables.lock().short_links.unregister(word.address()));
        FakeMarking::new(&[]).run(&refs, &[]);
        assert!(!word.is_cleared());
    }

    #[test]
    fn links_to_what_never_dies_stay() {
        let (refs, word) = (Refs::new(), Word::new());
        refs.tables.lock().short_links.register(word.address(), IMMORTAL).unwrap();
        FakeMarking::new(&[]).run(&refs, &[]);
        assert!(!word.is_cleared());
        assert!(refs.tables.lock().short_links.unregister(word.address()));
    }

    #[test]
    fn moving() {
        let (refs, from, to) = (Refs::new(), Word::new(), Word::new());
        let mut tables = refs.tables.lock();
        let links = &mut tables.short_links;
        assert_eq!(links.relocate(from.address(), to.address()), Ok(Relocation::NotFound));
        links.register(from.address(), 1).unwrap();
        assert_eq!(links.relocate(from.address(), from.address()), Ok(Relocation::Moved));
        assert_eq!(links.relocate(from.address(), to.address()), Ok(Relocation::Moved));
        links.register(from.address(), 1).unwrap();
        assert_eq!(links.relocate(from.address(), to.address()), Ok(Relocation::Occupied));
        links.unregister(from.address());
        drop(tables);
        FakeMarking::new(&[]).run(&refs, &[]);
        assert!(to.is_cleared() && !from.is_cleared());
    }
}
