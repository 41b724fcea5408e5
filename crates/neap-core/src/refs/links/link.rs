//! Disappearing links: words of the program that become zero when an object dies. Short ones before
//! finalizers, long ones after.
//!
//! Invariant: a link is registered once per table; it is dropped when it was cleared, or when the
//! object that it lies in died, so a cycle never writes into memory that changed hands. The link's
//! contents are the program's business (mostly a hidden pointer): the object is given apart.
//! Registration on any mutator; clearing by the cycle, world stopped.

use super::held_slots::HeldSlots;
use crate::refs::handles::handle::Handle;
use crate::refs::handles::slot::Kind;
use crate::refs::{Marking, NoMemory, Refs};
use crate::sys::table::{Entry, Table};

/// Which of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Cleared when nothing but finalizers could still reach the object: finalizers find it zero.
    Short,
    /// Cleared when the object is really gone: an object that a finalizer brought back keeps it.
    Long,
}

/// Outcome of [`register`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// The link is new.
    New,
    /// The link was registered; it follows the given object now.
    Updated,
}

/// Outcome of [`relocate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relocation {
    /// The new address is registered in place of the old one.
    Moved,
    /// The new address was registered already; nothing changed.
    Occupied,
    /// The old address is not registered; nothing changed.
    NotFound,
}

/// In place of a handle: the link follows nothing that dies.
const NO_HANDLE: Handle = Handle(0);

/// As the object of a link: something outside the heap, which never dies. The link is registered
/// all the same.
pub const IMMORTAL: usize = 0;

#[derive(Clone, Copy)]
struct Link {
    address: usize,
    /// Weak handle to the object.
    handle: Handle,
    next: u32,
}

impl Entry for Link {
    fn key(&self) -> usize {
        self.address
    }
    fn next(&self) -> u32 {
        self.next
    }
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

/// One table of links.
pub(crate) struct Links {
    table: Table<Link>,
    /// The kind of its handles.
    kind: Kind,
}

impl Links {
    /// Empty; `kind` is that of a handle that becomes null when the links do.
    pub(crate) const fn new(kind: Kind) -> Self {
        Self { table: Table::new(), kind }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    fn handle(&self, slots: &HeldSlots, object: usize) -> Result<Handle, NoMemory> {
        if object == IMMORTAL { Ok(NO_HANDLE) } else { slots.allocate(self.kind, object) }
    }

    pub(crate) fn register(
        &mut self,
        slots: &HeldSlots,
        address: usize,
        object: usize,
    ) -> Result<Registration, NoMemory> {
        if let Some(&Link { handle, .. }) = self.table.get(address) {
            if handle != NO_HANDLE && object != IMMORTAL {
                slots.set(handle, object);
                return Ok(Registration::Updated);
            }
            let new = self.handle(slots, object)?;
            release(slots, handle);
            if let Some(link) = self.table.get_mut(address) {
                link.handle = new;
            }
            return Ok(Registration::Updated);
        }
        let handle = self.handle(slots, object)?;
        let inserted = self.table.insert(Link { address, handle, next: 0 });
        if inserted.is_err() {
            release(slots, handle);
        }
        inserted.map(|()| Registration::New)
    }

    pub(crate) fn unregister(&mut self, slots: &HeldSlots, address: usize) -> bool {
        let removed = self.table.remove(address);
        removed.inspect(|link| release(slots, link.handle)).is_some()
    }

    pub(crate) fn relocate(&mut self, from: usize, to: usize) -> Result<Relocation, NoMemory> {
        let Some(&link) = self.table.get(from) else { return Ok(Relocation::NotFound) };
        if from == to {
            return Ok(Relocation::Moved);
        }
        if self.table.get(to).is_some() {
            return Ok(Relocation::Occupied);
        }
        self.table.insert(Link { address: to, ..link })?;
        self.table.remove(from);
        Ok(Relocation::Moved)
    }

    /// Zeroes the links whose handles have expired.
    pub(crate) fn clear_dead(&mut self, slots: &HeldSlots) {
        self.table.retain(|link| {
            let alive = link.handle == NO_HANDLE || slots.object(link.handle) != 0;
            if !alive {
                release(slots, link.handle);
                // SAFETY: the registration promised a writable word at this address until it is
                // unregistered or the object it lies in dies; dead objects' memory is still there
                // in this cycle. Nobody runs who could write it too.
                unsafe { (link.address as *mut usize).write(0) };
            }
            alive
        });
    }

    /// Forgets links that lie in dead objects: `[refs.rule.dangling]`.
    pub(crate) fn drop_dangling<M: Marking>(&mut self, slots: &HeldSlots, marking: &M) {
        self.table.retain(|link| {
            let lies_in_dead =
                marking.container(link.address).is_some_and(|object| !marking.is_marked(object));
            if lies_in_dead {
                release(slots, link.handle);
            }
            !lies_in_dead
        });
    }
}

fn release(slots: &HeldSlots, handle: Handle) {
    if handle != NO_HANDLE {
        slots.free(handle);
    }
}

impl Refs {
    fn links(&mut self, length: Length) -> (&mut Links, &HeldSlots) {
        match length {
            Length::Short => (&mut self.short_links, &self.slots),
            Length::Long => (&mut self.long_links, &self.slots),
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
    crate::refs::with(|refs| {
        let (links, slots) = refs.links(length);
        links.register(slots, address, object)
    })
}

/// Forgets the link at `address`; false if it is not registered.
pub fn unregister(length: Length, address: usize) -> bool {
    crate::refs::with(|refs| {
        let (links, slots) = refs.links(length);
        links.unregister(slots, address)
    })
}

/// The link at `from` is now at `to`; its contents are not copied.
///
/// # Errors
/// There is no memory for the table.
///
/// # Safety
/// As for [`register`], for `to`.
pub unsafe fn relocate(length: Length, from: usize, to: usize) -> Result<Relocation, NoMemory> {
    crate::refs::with(|refs| refs.links(length).0.relocate(from, to))
}

/// How many links are registered.
pub fn registered(length: Length) -> usize {
    crate::refs::with(|refs| refs.links(length).0.table.len())
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let (mut refs, dead, live) = (Refs::new(), Word::new(), Word::new());
        refs.short_links.register(&refs.slots, dead.address(), 1).unwrap();
        refs.short_links.register(&refs.slots, live.address(), 2).unwrap();
        FakeMarking::new(&[]).run(&mut refs, &[2]);
        assert!(dead.is_cleared() && !live.is_cleared());
        assert_eq!(refs.short_links.table.len(), 1);
    }

    #[test]
    fn short_before_finalizers_long_after() {
        let (mut refs, short, long) = (Refs::new(), Word::new(), Word::new());
        refs.finalizers.set(1, Some(finalizer(Order::NoOrder, 0))).unwrap();
        refs.short_links.register(&refs.slots, short.address(), 1).unwrap();
        refs.long_links.register(&refs.slots, long.address(), 1).unwrap();
        FakeMarking::new(&[]).run(&mut refs, &[]);
        assert!(short.is_cleared() && !long.is_cleared());
        refs.take_ready().unwrap();
        FakeMarking::new(&[]).run(&mut refs, &[]);
        assert!(long.is_cleared());
        assert_eq!(refs.long_links.table.len(), 0);
    }

    #[test]
    fn links_to_what_a_finalizer_reaches_follow_the_same_rule() {
        let (mut refs, short, long) = (Refs::new(), Word::new(), Word::new());
        refs.finalizers.set(1, Some(finalizer(Order::Topological, 0))).unwrap();
        refs.short_links.register(&refs.slots, short.address(), 2).unwrap();
        refs.long_links.register(&refs.slots, long.address(), 2).unwrap();
        FakeMarking::new(&[(1, 2)]).run(&mut refs, &[]);
        assert!(short.is_cleared() && !long.is_cleared());
    }

    #[test]
    fn links_in_dead_objects_are_forgotten_untouched() {
        let (mut refs, short, long) = (Refs::new(), Word::new(), Word::new());
        refs.short_links.register(&refs.slots, short.address(), 2).unwrap();
        refs.long_links.register(&refs.slots, long.address(), 2).unwrap();
        let mut marking = FakeMarking::new(&[]);
        marking.place(short.address(), 1);
        marking.place(long.address(), 1);
        marking.run(&mut refs, &[2]);
        assert!(!short.is_cleared() && !long.is_cleared());
        assert_eq!((refs.short_links.table.len(), refs.long_links.table.len()), (0, 0));
    }

    #[test]
    fn links_in_objects_that_a_finalizer_keeps_stay() {
        let (mut refs, word) = (Refs::new(), Word::new());
        refs.finalizers.set(1, Some(finalizer(Order::NoOrder, 0))).unwrap();
        refs.short_links.register(&refs.slots, word.address(), 2).unwrap();
        let mut marking = FakeMarking::new(&[]);
        marking.place(word.address(), 1);
        marking.run(&mut refs, &[2]);
        assert_eq!(refs.short_links.table.len(), 1);
        FakeMarking::new(&[]).run(&mut refs, &[]);
        assert!(word.is_cleared());
    }

    #[test]
    fn registering_again_updates() {
        let (mut refs, word) = (Refs::new(), Word::new());
        let (links, slots) = (&mut refs.short_links, &refs.slots);
        assert_eq!(links.register(slots, word.address(), 1), Ok(Registration::New));
        assert_eq!(links.register(slots, word.address(), 2), Ok(Registration::Updated));
        FakeMarking::new(&[]).run(&mut refs, &[2]);
        assert!(!word.is_cleared());
        assert!(refs.short_links.unregister(&refs.slots, word.address()));
        assert!(!refs.short_links.unregister(&refs.slots, word.address()));
        FakeMarking::new(&[]).run(&mut refs, &[]);
        assert!(!word.is_cleared());
    }

    #[test]
    fn links_to_what_never_dies_stay() {
        let (mut refs, word) = (Refs::new(), Word::new());
        refs.short_links.register(&refs.slots, word.address(), IMMORTAL).unwrap();
        FakeMarking::new(&[]).run(&mut refs, &[]);
        assert!(!word.is_cleared());
        assert!(refs.short_links.unregister(&refs.slots, word.address()));
    }

    #[test]
    fn moving() {
        let (mut refs, from, to) = (Refs::new(), Word::new(), Word::new());
        let (links, slots) = (&mut refs.short_links, &refs.slots);
        assert_eq!(links.relocate(from.address(), to.address()), Ok(Relocation::NotFound));
        links.register(slots, from.address(), 1).unwrap();
        assert_eq!(links.relocate(from.address(), from.address()), Ok(Relocation::Moved));
        assert_eq!(links.relocate(from.address(), to.address()), Ok(Relocation::Moved));
        links.register(slots, from.address(), 1).unwrap();
        assert_eq!(links.relocate(from.address(), to.address()), Ok(Relocation::Occupied));
        links.unregister(slots, from.address());
        FakeMarking::new(&[]).run(&mut refs, &[]);
        assert!(to.is_cleared() && !from.is_cleared());
    }
}
