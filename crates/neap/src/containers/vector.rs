//! `Vec<T>`: a growing array whose memory is collected.
//!
//! Invariant: its elements need no drop, so it needs none, and an object with a vector has no
//! destructor for its sake. Where there is no element any more, none is left for a marker to find.
//! What is made of it, as the queue and the map in order, cannot be packed, as it cannot. Used by
//! any thread.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit, needs_drop};
use std::ops::{Deref, DerefMut};

use crate::memory::buffer::ArrayOf;
use crate::memory::seen::seen;
use crate::types::aligned::Aligned;
use crate::types::trace::Trace;

/// A growing array whose memory is collected: it may be part of a collected object, hold any `Gc`,
/// and be on a cycle.
///
/// Its elements must need no drop; that is checked when the program is built. For others there is
/// `Vec<Gc<T>>`.
///
/// ```
/// use neap::{Gc, Trace};
/// use std::cell::RefCell;
///
/// #[derive(Trace)]
/// struct Node {
///     neighbours: RefCell<neap::Vec<Gc<Node>>>,
/// }
///
/// let node = Gc::new(Node { neighbours: RefCell::default() });
/// node.neighbours.borrow_mut().push(node);
/// assert_eq!(node.neighbours.borrow().len(), 1);
/// ```
///
/// ```compile_fail
/// # // Refused: the strings would never be dropped.
/// let mut names = neap::Vec::new();
/// names.push(String::new());
/// ```
pub struct Vec<T: Trace>(ManuallyDrop<Inner<T>>, Aligned);

type Inner<T> = allocator_api2::vec::Vec<T, ArrayOf<T>>;

impl<T: Trace> Vec<T> {
    const MAY_BE: () =
        assert!(!needs_drop::<T>(), "elements of a neap::Vec must need no drop: use Vec<Gc<T>>");

    /// An empty one, without memory.
    ///
    /// ```
    /// assert!(neap::Vec::<u8>::new().is_empty());
    /// ```
    pub const fn new() -> Self {
        let () = Self::MAY_BE;
        Self(ManuallyDrop::new(Inner::new_in(ArrayOf::NEW)), Aligned)
    }

    /// An empty one with room for so many elements.
    ///
    /// ```
    /// assert!(neap::Vec::<u8>::with_capacity(10).capacity() >= 10);
    /// ```
    pub fn with_capacity(count: usize) -> Self {
        let mut vector = Self::new();
        vector.0.reserve(count);
        vector
    }

    /// Elements that there is room for.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// How many elements there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The elements, for who gives out no reference to them: what that needs, which `deref_mut`
    /// says to the compiler, is not said.
    #[inline]
    pub(super) fn unseen(&mut self) -> &mut [T] {
        &mut self.0
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, more: usize) {
        self.0.reserve(more);
    }

    /// Puts an element at the end.
    #[inline]
    pub fn push(&mut self, value: T) {
        self.0.push(value);
    }

    /// Takes the last element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.shrinking(|vector| vector.pop())
    }

    /// Puts an element at an index; panics beyond the end.
    pub fn insert(&mut self, index: usize, value: T) {
        self.0.insert(index, value);
    }

    /// Takes the element at an index; panics if there is none.
    pub fn remove(&mut self, index: usize) -> T {
        self.shrinking(|vector| vector.remove(index))
    }

    /// Takes the element at an index and puts the last in its place; panics if there is none.
    pub fn swap_remove(&mut self, index: usize) -> T {
        self.shrinking(|vector| vector.swap_remove(index))
    }

    /// Keeps the first elements.
    pub fn truncate(&mut self, count: usize) {
        self.shrinking(|vector| vector.truncate(count));
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Keeps those of which `keep` says so.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        seen(self);
        self.shrinking(|vector| vector.retain(keep));
    }

    /// Makes it so long, by elements that are clones of `value`.
    pub fn resize(&mut self, count: usize, value: T)
    where
        T: Clone,
    {
        self.shrinking(|vector| vector.resize(count, value));
    }

    /// Takes the elements from an index on, as a vector of their own; panics beyond the end.
    ///
    /// ```
    /// let mut days: neap::Vec<u8> = (1..=5).collect();
    /// assert_eq!(*days.split_off(3), [4, 5]);
    /// assert_eq!(*days, [1, 2, 3]);
    /// ```
    pub fn split_off(&mut self, from: usize) -> Self {
        let mut taken = Self::new();
        self.shrinking(|vector| taken.extend(vector.drain(from..)));
        taken
    }

    /// Puts clones of a slice's elements at the end.
    pub fn extend_from_slice(&mut self, values: &[T])
    where
        T: Clone,
    {
        self.0.extend_from_slice(values);
    }

    /// Puts the elements of another behind its own, and leaves it empty.
    ///
    /// ```
    /// let (mut days, mut more): (neap::Vec<u8>, neap::Vec<u8>) =
    ///     ((1..3).collect(), (3..5).collect());
    /// days.append(&mut more);
    /// assert_eq!((&*days, &*more), (&[1, 2, 3, 4][..], &[][..]));
    /// ```
    pub fn append(&mut self, other: &mut Self) {
        other.shrinking(|taken| self.0.append(taken));
    }

    /// What takes elements away leaves nothing of them behind that keeps objects. If it panics,
    /// what it took may keep some for a while.
    #[inline]
    fn shrinking<R>(&mut self, shrink: impl FnOnce(&mut Inner<T>) -> R) -> R {
        let before = self.len();
        let result = shrink(&mut self.0);
        if const { !T::SHAPE.is_leaf() } {
            let taken = before.saturating_sub(self.len());
            self.0.spare_capacity_mut()[..taken].fill_with(MaybeUninit::zeroed);
        }
        result
    }
}

impl<T: Trace> Deref for Vec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        if const { !T::SHAPE.is_leaf() } {
            seen(self);
        }
        &self.0
    }
}

impl<T: Trace> DerefMut for Vec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if const { !T::SHAPE.is_leaf() } {
            seen(self);
        }
        &mut self.0
    }
}

impl<T: Trace> Default for Vec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Trace> Extend<T> for Vec<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        self.0.extend(values);
    }
}

impl<T: Trace> FromIterator<T> for Vec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut vector = Self::new();
        vector.extend(values);
        vector
    }
}

impl<'a, T: Trace> IntoIterator for &'a Vec<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Trace> IntoIterator for &'a mut Vec<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: Trace + Clone> Clone for Vec<T> {
    fn clone(&self) -> Self {
        self.iter().cloned().collect()
    }
}

impl<T: Trace + PartialEq> PartialEq for Vec<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl<T: Trace + Eq> Eq for Vec<T> {}

impl<T: Trace + fmt::Debug> fmt::Debug for Vec<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::super::deque::tests::is_zero;
    use super::super::tests::LESS;
    use super::*;
    use crate::Gc;

    #[test]
    fn elements_are_alive_while_it_grows_and_shrinks() {
        let mut vector: Vec<Gc<usize>> = Vec::with_capacity(1);
        for index in 0..100_000 / LESS {
            vector.push(Gc::new(index));
            if index % (20_000 / LESS) == 0 {
                crate::collect();
            }
        }
        crate::collect();
        assert!(vector.iter().enumerate().all(|(index, one)| **one == index));
        vector.retain(|one| **one % 3 == 0);
        vector.insert(1, Gc::new(7));
        assert_eq!((*vector[1], *vector.remove(0), *vector.swap_remove(0)), (7, 0, 7));
        vector.truncate(10);
        assert_eq!(vector.clone().pop(), vector.last().copied());
        assert!(!needs_drop::<Vec<Gc<usize>>>());
    }

    #[test]
    fn what_was_taken_out_is_nowhere_in_its_memory() {
        let mut vector: Vec<Gc<usize>> = (0..1000).map(Gc::new).collect();
        let kept = vector.split_off(700).len();
        vector.retain(|one| **one % 7 != 0);
        vector.truncate(500);
        (0..100).for_each(|_| _ = (vector.pop(), vector.remove(0), vector.swap_remove(0)));
        assert_eq!((kept, vector.len()), (300, 200));
        let spare = vector.0.spare_capacity_mut();
        assert!(spare.len() >= 800);
        assert!(spare.iter().all(is_zero));
    }
}
