//! `VecDeque<T>`: a queue with two ends whose memory is collected.
//!
//! Invariant: of the slots, a ring, `length` from `head` on hold an element each, and the rest are
//! zero, so that what was taken out keeps nothing. No code of the program runs between a change of
//! the slots and one of the two numbers. Used by any thread.
//!
//! # Safety
//!
//! Takes slots for elements where the invariant says that they are.

#![allow(unsafe_code)]

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Index, IndexMut};

use super::Vec;
use crate::types::trace::Trace;

/// A queue with two ends whose memory is collected: it may be part of a collected object, hold any
/// `Gc`, and be on a cycle. Its elements must need no drop, as those of a [`Vec`].
///
/// ```
/// use neap::{Gc, VecDeque};
///
/// let mut waiting: VecDeque<Gc<str>> = VecDeque::new();
/// waiting.push_back("second".into());
/// waiting.push_front("first".into());
/// assert_eq!(waiting.pop_front().as_deref(), Some("first"));
/// assert_eq!(waiting.len(), 1);
/// ```
///
/// ```compile_fail
/// # // Refused: the strings would never be dropped.
/// let mut names = neap::VecDeque::new();
/// names.push_back(String::new());
/// ```
pub struct VecDeque<T: Trace> {
    pub(super) slots: Vec<MaybeUninit<T>>,
    head: usize,
    length: usize,
}

const FEWEST: usize = 4;

impl<T: Trace> VecDeque<T> {
    const MAY_BE: () = assert!(
        !std::mem::needs_drop::<T>(),
        "elements of a neap::VecDeque must need no drop: use VecDeque<Gc<T>>"
    );

    /// An empty one, without memory.
    ///
    /// ```
    /// assert!(neap::VecDeque::<u8>::new().is_empty());
    /// ```
    pub const fn new() -> Self {
        let () = Self::MAY_BE;
        Self { slots: Vec::new(), head: 0, length: 0 }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The slot of an index below the number of slots.
    fn slot(&self, index: usize) -> usize {
        let slots = self.slots.len();
        let until_end = slots - self.head;
        if index < until_end { self.head + index } else { index - until_end }
    }

    fn make_room(&mut self) {
        let slots = self.slots.len();
        if self.length == slots {
            // Afterwards none of the elements is in front of the first.
            self.slots.rotate_left(self.head);
            self.head = 0;
            let more = slots.max(FEWEST);
            self.slots.extend(std::iter::repeat_with(MaybeUninit::zeroed).take(more));
        }
    }

    /// Puts an element at the end.
    pub fn push_back(&mut self, value: T) {
        self.make_room();
        let slot = self.slot(self.length);
        self.slots.unseen()[slot].write(value);
        self.length += 1;
    }

    /// Puts an element before the first.
    pub fn push_front(&mut self, value: T) {
        self.make_room();
        let slot = self.slot(self.slots.len() - 1);
        self.slots.unseen()[slot].write(value);
        self.head = slot;
        self.length += 1;
    }

    /// Takes the first element.
    pub fn pop_front(&mut self) -> Option<T> {
        if self.length == 0 {
            return None;
        }
        let (first, second) = (self.head, self.slot(1));
        self.head = second;
        self.length -= 1;
        // SAFETY: it was the first.
        Some(unsafe { self.take(first) })
    }

    /// Takes the last element.
    ///
    /// ```
    /// let mut queue: neap::VecDeque<u8> = (1..4).collect();
    /// assert_eq!(queue.pop_back(), Some(3));
    /// ```
    pub fn pop_back(&mut self) -> Option<T> {
        if self.length == 0 {
            return None;
        }
        self.length -= 1;
        // SAFETY: it was the last.
        Some(unsafe { self.take(self.slot(self.length)) })
    }

    /// # Safety
    ///
    /// The slot has an element, which is counted no more.
    unsafe fn take(&mut self, slot: usize) -> T {
        let taken = std::mem::replace(&mut self.slots.unseen()[slot], MaybeUninit::zeroed());
        // SAFETY: the caller's promise.
        unsafe { taken.assume_init() }
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        (self.head, self.length) = (0, 0);
        self.slots.fill_with(MaybeUninit::zeroed);
    }

    /// The element at an index from the front.
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: one of the elements.
        (index < self.length).then(|| unsafe { self.slots[self.slot(index)].assume_init_ref() })
    }

    /// The element at an index from the front, to be changed.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let slot = (index < self.length).then(|| self.slot(index))?;
        // SAFETY: one of the elements.
        Some(unsafe { self.slots[slot].assume_init_mut() })
    }

    /// The first element.
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// The last element.
    pub fn back(&self) -> Option<&T> {
        self.get(self.length.checked_sub(1)?)
    }

    /// All elements, from the front, in two parts.
    ///
    /// ```
    /// let queue: neap::VecDeque<u8> = (1..4).collect();
    /// let (first, second) = queue.as_slices();
    /// assert_eq!([first, second].concat(), [1, 2, 3]);
    /// ```
    pub fn as_slices(&self) -> (&[T], &[T]) {
        let (before, from) = self.slots.split_at(self.head);
        let first = self.length.min(from.len());
        let parts = (&raw const from[..first], &raw const before[..self.length - first]);
        // SAFETY: slots with elements, which have the layout of what they hold.
        unsafe { (&*(parts.0 as *const [T]), &*(parts.1 as *const [T])) }
    }

    /// All elements, from the front.
    ///
    /// ```
    /// let queue: neap::VecDeque<u8> = (1..4).collect();
    /// assert!(queue.iter().rev().eq(&[3, 2, 1]));
    /// ```
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        let (first, second) = self.as_slices();
        first.iter().chain(second)
    }
}

impl<T: Trace> Index<usize> for VecDeque<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.get(index).expect("an index of an element")
    }
}

impl<T: Trace> IndexMut<usize> for VecDeque<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.get_mut(index).expect("an index of an element")
    }
}

impl<T: Trace> Default for VecDeque<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Trace> Extend<T> for VecDeque<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push_back(value));
    }
}

impl<T: Trace> FromIterator<T> for VecDeque<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut queue = Self::new();
        queue.extend(values);
        queue
    }
}

impl<T: Trace + Clone> Clone for VecDeque<T> {
    fn clone(&self) -> Self {
        self.iter().cloned().collect()
    }
}

impl<T: Trace + fmt::Debug> fmt::Debug for VecDeque<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::tests::{LESS, Random};
    use super::*;
    use crate::Gc;

    /// Whether a slot leads nowhere.
    pub fn is_zero<T>(slot: &MaybeUninit<Gc<T>>) -> bool {
        // SAFETY: a word, which was written or zeroed.
        unsafe { slot.as_ptr().cast::<usize>().read() == 0 }
    }

    #[test]
    fn it_does_what_the_standard_librarys_does() {
        let mut random = Random(7);
        let mut queue: VecDeque<Gc<u64>> = VecDeque::new();
        let mut model = std::collections::VecDeque::new();
        for step in 0..40_000 / LESS as u64 {
            // Grows and shrinks by turns.
            let grows = u64::from((step / (4000 / LESS as u64)).is_multiple_of(2));
            match random.below(4 + 2 * grows) {
                0 => assert_eq!(queue.pop_front().as_deref().copied(), model.pop_front()),
                1 => assert_eq!(queue.pop_back().as_deref().copied(), model.pop_back()),
                2 | 4 => {
                    queue.push_back(Gc::new(step));
                    model.push_back(step);
                }
                _ => {
                    queue.push_front(Gc::new(step));
                    model.push_front(step);
                }
            }
            if let Some(any) = step.checked_rem(model.len() as u64) {
                assert_eq!(*queue[any as usize], model[any as usize]);
                queue[any as usize] = Gc::new(step);
                model[any as usize] = step;
            }
            if step % (4000 / LESS as u64) == 0 {
                crate::collect();
            }
            if step % (500 / LESS as u64) == 0 {
                assert!(queue.iter().map(|one| **one).eq(model.iter().copied()), "step {step}");
                assert!(queue.iter().rev().map(|one| **one).eq(model.iter().rev().copied()));
                assert_eq!((queue.front(), queue.back()), (queue.get(0), queue.iter().last()));
                let free = queue.slots.iter().filter(|slot| is_zero(slot)).count();
                assert_eq!(queue.len() + free, queue.slots.len(), "step {step}");
            }
        }
        assert_eq!(queue.get(model.len()), None);
        assert!(queue.clone().iter().eq(queue.iter()) && queue.slots.len() > 100 / LESS);
        queue.clear();
        assert!(queue.pop_back().is_none() && queue.slots.iter().all(is_zero));
        assert!(!std::mem::needs_drop::<VecDeque<Gc<u64>>>());
    }
}
