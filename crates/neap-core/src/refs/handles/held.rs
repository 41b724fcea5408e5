//! The objects whose monitors a thread is in.
//!
//! Invariant: who leaves monitors in the order of entering them, or in the opposite one, waits for
//! no search, however many there are. Pure but for its memory. Part of a thread's record; used by
//! the monitors.

use core::ops::Deref;

use crate::sys::meta_vec::{MetaVec, NoMemory};

/// The list. The last object is mostly the one that was entered last.
pub struct Held {
    objects: MetaVec<usize>,
    /// Where the last object was taken out that was not at the end.
    left_at: usize,
}

impl Held {
    /// Of a thread that is in none.
    pub const fn new() -> Self {
        Self { objects: MetaVec::new(), left_at: 0 }
    }

    /// Makes room for `more` further objects.
    #[inline(always)]
    pub fn try_reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        self.objects.try_reserve(more)
    }

    /// The thread is in this one. There is room.
    #[inline(always)]
    pub fn push(&mut self, object: usize) {
        self.objects.push(object);
    }

    /// It is out. False if the object is not on the list.
    #[inline(always)]
    pub fn remove(&mut self, object: usize) -> bool {
        if self.objects.last() == Some(&object) {
            return self.objects.pop().is_some();
        }
        self.remove_before(object)
    }

    /// The last object comes to where one is taken out, so the one that was entered next is still
    /// behind that.
    fn remove_before(&mut self, object: usize) -> bool {
        let position = nearest(&self.objects, self.left_at, |held| held == object);
        if let Some(position) = position {
            self.objects.swap_remove(position);
            self.left_at = position;
        }
        position.is_some()
    }

    /// It is in none any more.
    pub fn clear(&mut self) {
        self.objects.clear();
    }
}

impl Deref for Held {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.objects
    }
}

/// Where the object lies that is meant, looked for from `from` on in both directions; the list's
/// ends are neighbours.
fn nearest(list: &[usize], from: usize, mut is_meant: impl FnMut(usize) -> bool) -> Option<usize> {
    let from = from.min(list.len());
    let (before, behind) = list.split_at(from);
    let onwards = behind.iter().chain(before);
    let back = before.iter().rev().chain(behind.iter().rev());
    for (distance, (next, previous)) in onwards.zip(back).enumerate() {
        if is_meant(*next) {
            return Some((from + distance) % list.len());
        }
        if is_meant(*previous) {
            return Some((from + list.len() - 1 - distance) % list.len());
        }
        if distance > list.len() / 2 {
            break;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_of(objects: impl IntoIterator<Item = usize>) -> Held {
        let mut held = Held::new();
        for object in objects {
            held.try_reserve(1).unwrap();
            held.push(object);
        }
        held
    }

    /// How many objects are looked at until this one is found.
    fn looks(held: &Held, object: usize) -> usize {
        let mut looks = 1;
        if held.last() != Some(&object) {
            let is_meant = |one| {
                looks += 1;
                one == object
            };
            let position = nearest(held, held.left_at, is_meant);
            assert_eq!(position.map(|position| held[position]), Some(object));
        }
        looks
    }

    fn leave(held: &mut Held, object: usize) -> usize {
        let looks = looks(held, object);
        assert!(held.remove(object) && !held.contains(&object));
        looks
    }

    #[test]
    fn all_that_was_entered_is_left_in_any_order() {
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [3, 1, 0, 2, 4]] {
            let mut held = list_of(10..15);
            for (left, object) in (1..).zip(order) {
                assert!(held.remove(10 + object) && held.len() == 5 - left);
                assert!(!held.remove(10 + object) && !held.remove(99));
            }
        }
        let mut held = list_of([7, 8, 7]);
        held.clear();
        assert!(held.is_empty() && !held.remove(7));
    }

    #[test]
    fn who_leaves_in_either_order_searches_little() {
        const COUNT: usize = 1000;
        for length in [COUNT, COUNT + 1] {
            let mut held = list_of(0..length);
            let first_first: usize = (0..length).map(|object| leave(&mut held, object)).sum();
            let mut held = list_of(0..length);
            let last_first: usize = (0..length).rev().map(|object| leave(&mut held, object)).sum();
            assert!(first_first <= 5 * length && last_first == length, "{first_first}");
        }
    }

    /// Always in as many, among which some are left at once.
    #[test]
    fn who_goes_from_one_to_the_next_searches_little() {
        const COUNT: usize = 100;
        let mut held = list_of(0..COUNT);
        let mut looks = 0;
        for object in 0..COUNT * 20 {
            held.try_reserve(2).unwrap();
            held.push(object + COUNT);
            held.push(usize::MAX);
            looks += leave(&mut held, usize::MAX) + leave(&mut held, object);
        }
        assert!(looks <= COUNT * 20 * 6, "{looks}");
    }
}
