//! A table of links, and what a cycle does with it: looks at them beside the program, zeroes those
//! of dead objects in the stop, and forgets what is left over afterwards.
//!
//! Invariant `[refs.inv.settled]`: the objects of the first `settled` links, and the objects that
//! these links lie in, are marked in this cycle, or were at the end of the last one where the marks
//! are kept. So the stop looks at the others only. All of it under the lock of rank `Refs`; the
//! program reads its links without a call, so they are zeroed with the world stopped.
//!
//! # Safety
//!
//! Writes the word of a link whose object died. The registration promised that it is writable until
//! it is unregistered or the object it lies in dies; a dead object's memory is still there in the
//! cycle that finds it dead. Nobody runs who could write it too.

#![allow(unsafe_code)]

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use crate::addr::WORD_BYTES;
use crate::refs::handles::retargeted;
use crate::refs::{Marking, NoMemory};
use crate::sys::table::{Entry, Table};

/// Outcome of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// The link is new.
    New,
    /// The link was registered; it follows the given object now.
    Updated,
}

/// Outcome of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relocation {
    /// The new address is registered in place of the old one.
    Moved,
    /// The new address was registered already; nothing changed.
    Occupied,
    /// The old address is not registered; nothing changed.
    NotFound,
}

/// As the object of a link: something outside the heap, which never dies. The link is registered
/// all the same.
pub const IMMORTAL: usize = 0;

/// As a link's object: it died, and the link is zero and as good as forgotten. No object is there.
const DEAD: usize = usize::MAX;

/// How far ahead the headers of what is looked at are fetched, and the marks. Larger: more of them
/// wait in the cache; smaller: marks are waited for.
const HEADERS_AHEAD: usize = 24;
const MARKS_AHEAD: usize = 12;

#[derive(Clone, Copy)]
struct Link {
    address: usize,
    /// Or [`IMMORTAL`], or [`DEAD`].
    object: usize,
    next: u32,
}

impl Link {
    /// Whether it has an object that is not marked.
    fn dies<M: Marking>(&self, marking: &M) -> bool {
        !matches!(self.object, IMMORTAL | DEAD) && !marking.is_marked(self.object)
    }

    /// Whether it lies in an object that is not marked.
    fn lies_in_dead<M: Marking>(&self, marking: &M) -> bool {
        marking.container(self.address).is_some_and(|object| !marking.is_marked(object))
    }
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

/// One table of links: those that are settled, those that were not looked at yet, those that were
/// looked at in vain (something was not marked yet), and those that came meanwhile.
pub(crate) struct Links {
    table: Table<Link>,
    settled: usize,
    /// Where those begin that were looked at in vain; at least `settled`.
    vain: usize,
    /// Where those begin that came meanwhile; at least `vain`.
    new: usize,
}

impl Links {
    pub(crate) const fn new() -> Self {
        Self { table: Table::new(), settled: 0, vain: 0, new: 0 }
    }

    /// How many there are.
    pub(crate) fn registered(&self) -> usize {
        self.table.entries().iter().filter(|link| link.object != DEAD).count()
    }

    /// How many are not settled.
    pub(crate) fn unsettled(&self) -> usize {
        self.table.len() - self.settled
    }

    fn all_but_settled(&self) -> &[Link] {
        &self.table.entries()[self.settled..]
    }

    /// Makes the link at an index one that is not settled; gives its new index.
    fn unsettle(&mut self, index: usize) -> usize {
        if index >= self.settled {
            return index;
        }
        self.settled -= 1;
        self.table.exchange(index, self.settled);
        self.settled
    }

    fn remove(&mut self, index: usize) -> Link {
        let index = self.unsettle(index);
        // The last link takes its place, in whatever part that is: none of those is settled.
        let link = self.table.remove_at(index);
        self.new = self.new.min(self.table.len());
        self.vain = self.vain.min(self.new);
        note_lost(link.object);
        link
    }

    pub(crate) fn register(
        &mut self,
        address: usize,
        object: usize,
    ) -> Result<Registration, NoMemory> {
        let Some(index) = self.table.find(address) else {
            self.table.insert(Link { address, object, next: 0 })?;
            return Ok(Registration::New);
        };
        let index = self.unsettle(index);
        let former = core::mem::replace(&mut self.table.at_mut(index).object, object);
        note_lost(former);
        Ok(if former == DEAD { Registration::New } else { Registration::Updated })
    }

    pub(crate) fn unregister(&mut self, address: usize) -> bool {
        let index = self.table.find(address);
        index.is_some_and(|index| self.remove(index).object != DEAD)
    }

    /// Forgets the links that lie in so many bytes from `start`.
    pub(crate) fn unregister_within(&mut self, start: usize, bytes: usize) {
        let range = start..start + bytes;
        if self.table.len() >= bytes / WORD_BYTES {
            range.step_by(WORD_BYTES).for_each(|address| {
                self.unregister(address);
            });
            return;
        }
        for index in (0..self.table.len()).rev() {
            if range.contains(&self.table.entries()[index].address) {
                // What takes its place comes from behind, and was looked at.
                self.remove(index);
            }
        }
    }

    pub(crate) fn relocate(&mut self, from: usize, to: usize) -> Result<Relocation, NoMemory> {
        let Some(index) = self.table.find(from) else { return Ok(Relocation::NotFound) };
        let object = self.table.entries()[index].object;
        if object == DEAD {
            return Ok(Relocation::NotFound);
        }
        if from == to {
            return Ok(Relocation::Moved);
        }
        match self.table.find(to) {
            Some(other) if self.table.entries()[other].object != DEAD => {
                return Ok(Relocation::Occupied);
            }
            Some(_) => {
                self.register(to, object)?;
                self.unregister(from);
            }
            // Its object stays the same, and is not lost.
            None => {
                let index = self.unsettle(index);
                self.table.change_key(index, |link| link.address = to);
            }
        }
        Ok(Relocation::Moved)
    }

    /// A cycle begins, in which nothing was looked at; a `full` one makes all marks anew.
    pub(crate) fn begin_cycle(&mut self, full: bool) {
        if full {
            self.settled = 0;
        }
        (self.vain, self.new) = (self.table.len(), self.table.len());
    }

    /// Looks at the next links, `most` of them at most, and settles those that need no other look;
    /// false if that was all. World running, while a cycle marks.
    pub(crate) fn look<M: Marking>(&mut self, most: usize, marking: &M) -> bool {
        for _ in 0..most {
            let all_are_new = self.settled == self.vain;
            let index = if all_are_new { self.new } else { self.settled };
            if index == self.table.len() {
                return false;
            }
            self.fetch_ahead(index, marking);
            let link = self.table.entries()[index];
            let settles = link.object != DEAD && !link.dies(marking) && !link.lies_in_dead(marking);
            // What stays where it is costs nothing more, and most links settle.
            if !all_are_new {
                if settles {
                    self.settled += 1;
                } else {
                    self.vain -= 1;
                    self.table.exchange(index, self.vain);
                }
                continue;
            }
            if settles {
                self.table.exchange(index, self.vain);
                self.vain += 1;
                self.settled += 1;
            }
            self.new += 1;
        }
        self.settled < self.vain || self.new < self.table.len()
    }

    /// Whether any link's object is not marked. After marking, world stopped.
    pub(crate) fn any_dies<M: Marking>(&self, marking: &M) -> bool {
        self.all_but_settled().iter().any(|link| link.dies(marking))
    }

    /// Zeroes the links whose objects are not marked. World stopped.
    pub(crate) fn clear_dead<M: Marking>(&mut self, marking: &M) {
        for index in self.settled..self.table.len() {
            self.fetch_ahead(index, marking);
            let link = self.table.at_mut(index);
            if link.dies(marking) {
                note_lost(core::mem::replace(&mut link.object, DEAD));
                // SAFETY: as the file says.
                unsafe { (link.address as *mut usize).write(0) };
            }
        }
    }

    /// Forgets of the next links, `most` of them at most, those that are dead or lie in dead
    /// objects, `[refs.rule.dangling]`; the others need no look in minor cycles. False if that was
    /// all. When all that is to stay is marked, world stopped or running.
    pub(crate) fn settle<M: Marking>(&mut self, most: usize, marking: &M) -> bool {
        for _ in 0..most {
            if self.settled == self.table.len() {
                break;
            }
            self.fetch_ahead(self.settled, marking);
            let link = self.table.entries()[self.settled];
            if link.object == DEAD || link.lies_in_dead(marking) {
                self.remove(self.settled);
            } else {
                self.settled += 1;
            }
        }
        self.vain = self.vain.max(self.settled);
        self.new = self.new.max(self.vain);
        self.settled < self.table.len()
    }

    /// Has what will be asked for some places behind `index` fetched.
    fn fetch_ahead<M: Marking>(&self, index: usize, marking: &M) {
        let links = self.table.entries();
        if let Some(link) = links.get(index + HEADERS_AHEAD) {
            marking.prefetch_header(link.object);
            marking.prefetch_header(link.address);
        }
        if let Some(link) = links.get(index + MARKS_AHEAD) {
            marking.prefetch_marks(link.object);
            marking.prefetch_marks(link.address);
            // SAFETY: prefetching any address is harmless.
            unsafe { _mm_prefetch(link.address as *const i8, _MM_HINT_T0) };
        }
    }
}

/// A link does not lead to this object any more.
fn note_lost(object: usize) {
    retargeted::note(Some(object).filter(|object| !matches!(*object, IMMORTAL | DEAD)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::fake_marking::FakeMarking;
    use std::collections::HashMap;

    /// Links at words of the test's own, one for each object.
    fn links(objects: &[usize], words: &[usize]) -> Links {
        let mut links = Links::new();
        for (&object, word) in objects.iter().zip(words) {
            let address = core::ptr::from_ref(word).expose_provenance();
            links.register(address, object).unwrap();
        }
        links
    }

    fn marked(objects: &[usize]) -> FakeMarking {
        let mut marking = FakeMarking::new(&[]);
        objects.iter().for_each(|&object| marking.mark(object));
        marking.drain();
        marking
    }

    #[test]
    fn what_was_marked_at_a_look_is_not_looked_at_in_the_stop() {
        let words = [7; 4];
        let mut links = links(&[10, 20, 30, IMMORTAL], &words);
        links.begin_cycle(false);
        assert!(links.look(2, &marked(&[20])));
        assert!(!links.look(9, &marked(&[20])));
        // What was settled counts as marked, whatever is said now.
        assert!(links.any_dies(&marked(&[10])) && !links.any_dies(&marked(&[10, 30])));
        assert_eq!(links.all_but_settled().len(), 2);
        links.settle(usize::MAX, &marked(&[]));
        assert_eq!((links.all_but_settled().len(), links.registered()), (0, 4));
        links.begin_cycle(true);
        assert!(links.any_dies(&marked(&[10, 30])));
    }

    /// Random changes and looks while more and more is marked, beside a map.
    #[test]
    fn what_a_stop_leaves_out_needs_no_look() {
        let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
        for round in 0..200 {
            let (mut links, mut known) = (Links::new(), HashMap::new());
            let mut marking = FakeMarking::new(&[]);
            for step in 0..400 {
                seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(round + 1);
                let [address, other, object] =
                    [33, 41, 49].map(|shift| (seed >> shift) as usize % 60 + 1);
                match seed >> 60 {
                    0..6 => {
                        links.register(address, object).unwrap();
                        known.insert(address, object);
                    }
                    6..8 => {
                        let was_known = known.remove(&address).is_some();
                        assert_eq!(links.unregister(address), was_known);
                    }
                    8..11 => {
                        let wanted = match known.get(&address) {
                            None => Relocation::NotFound,
                            Some(_) if address == other => Relocation::Moved,
                            Some(_) if known.contains_key(&other) => Relocation::Occupied,
                            Some(_) => Relocation::Moved,
                        };
                        assert_eq!(links.relocate(address, other), Ok(wanted));
                        if wanted == Relocation::Moved {
                            let object = known.remove(&address).expect("it was found");
                            known.insert(other, object);
                        }
                    }
                    11 => {
                        marking.mark(object);
                        marking.drain();
                    }
                    12 if step < 200 => {
                        links.begin_cycle(true);
                        marking = FakeMarking::new(&[]);
                    }
                    _ => _ = links.look(address, &marking),
                }
                let dies = known.values().any(|object| !marking.is_marked(*object));
                assert_eq!(links.any_dies(&marking), dies);
            }
            while links.look(7, &marking) {}
            let left = known.values().filter(|object| !marking.is_marked(**object)).count();
            assert!(links.all_but_settled().len() >= left);
            links.begin_cycle(false);
            while links.look(7, &marking) {}
            assert_eq!(links.all_but_settled().len(), left, "all that can be settled is");
        }
    }

    #[test]
    fn links_within_an_object_are_forgotten() {
        let words = [7; 4];
        let mut links = links(&[10, 20, 30, 40], &words);
        let at = |place: usize| core::ptr::from_ref(&words[place]).expose_provenance();
        links.unregister_within(at(1), 2 * WORD_BYTES);
        assert_eq!(
            [0, 1, 2, 3].map(|place| links.unregister(at(place))),
            [true, false, false, true]
        );
    }

    #[test]
    fn a_link_that_changed_since_is_looked_at_again() {
        let words = [7; 3];
        let mut links = links(&[10, 20, 30], &words);
        let at = |place: usize| core::ptr::from_ref(&words[place]).expose_provenance();
        links.settle(usize::MAX, &marked(&[]));
        assert_eq!(links.register(at(0), 40), Ok(Registration::Updated));
        assert!(links.any_dies(&marked(&[10])) && !links.any_dies(&marked(&[40])));
        links.settle(usize::MAX, &marked(&[]));
        assert!(links.unregister(at(1)) && !links.unregister(at(1)));
        links.register(at(1), 50).unwrap();
        assert!(links.any_dies(&marked(&[20])) && !links.any_dies(&marked(&[50])));
    }

    #[test]
    fn a_dead_link_is_as_good_as_forgotten() {
        let word = Box::into_raw(Box::new(7_usize));
        let (address, other) = (word.expose_provenance(), 0x1000);
        let mut links = Links::new();
        let dies = |links: &mut Links| {
            links.register(address, 10).unwrap();
            links.clear_dead(&marked(&[]));
            // SAFETY: the box lives.
            assert_eq!(unsafe { word.read() }, 0);
            assert_eq!(links.registered(), 0);
        };
        dies(&mut links);
        assert!(!links.unregister(address));
        dies(&mut links);
        assert_eq!(links.relocate(address, other), Ok(Relocation::NotFound));
        links.register(other, 20).unwrap();
        assert_eq!(links.relocate(other, address), Ok(Relocation::Moved));
        assert_eq!(links.registered(), 1);
        links.settle(usize::MAX, &marked(&[20]));
        assert_eq!((links.registered(), links.table.len()), (1, 1));
        assert!(links.unregister(address));
        dies(&mut links);
        assert_eq!(links.register(address, 30), Ok(Registration::New));
        links.settle(usize::MAX, &marked(&[30]));
        assert_eq!(links.registered(), 1);
        // SAFETY: it came from Box::into_raw.
        drop(unsafe { Box::from_raw(word) });
    }
}
