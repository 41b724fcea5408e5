//! `AtomicGc<T>`: a place for a `Gc`, or none, that threads read and write without a lock.
//!
//! Invariant: the pointer in it is null or an object's, so what is read somebody put in. Each
//! write releases and each read acquires, whatever order the caller names, so who reads a pointer
//! reads the value that was written before it was put in. A pointer that a thread holds for a
//! comparison keeps its object, so an address does not become another object's meanwhile. Used by
//! any thread.
//!
//! # Safety
//!
//! The word is one that a `Gc` gave, and lies where the `AtomicGc` lies: where the collector reads.

#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::Gc;
use crate::types::shape::Shape;
use crate::types::trace::Trace;

/// A place for a `Gc`, or none, that threads read and write without a lock.
///
/// Who reads a `Gc` from it may follow it, so an order that is too weak for that counts as a
/// stronger one: at least `Release` for what is written, `Acquire` for what is read.
///
/// ```
/// use neap::{AtomicGc, Gc, Trace};
/// use std::sync::atomic::Ordering::*;
///
/// /// A stack that any thread pushes to. Nothing is freed under a reader, so there is no ABA.
/// #[derive(Trace)]
/// struct Item(u32, Option<Gc<Item>>);
/// static TOP: AtomicGc<Item> = AtomicGc::none();
///
/// fn push(value: u32) {
///     let mut top = TOP.load(Acquire);
///     while let Err(found) = TOP.compare_exchange(top, Some(Gc::new(Item(value, top))), AcqRel) {
///         top = found;
///     }
/// }
/// push(1);
/// push(2);
/// assert_eq!(TOP.load(Acquire).unwrap().1.unwrap().0, 1);
/// ```
#[repr(transparent)]
pub struct AtomicGc<T> {
    object: AtomicPtr<T>,
    owner: PhantomData<Gc<T>>,
}

fn pointer<T>(object: Option<Gc<T>>) -> *mut T {
    object.map_or(null_mut(), |object| object.as_ptr().cast_mut())
}

fn object<T>(pointer: *mut T) -> Option<Gc<T>> {
    NonNull::new(pointer).map(Gc::of)
}

/// The order of a read. Those of writes alone are refused by the read itself.
fn reading(order: Ordering) -> Ordering {
    if order == Ordering::Relaxed { Ordering::Acquire } else { order }
}

/// The order of a write. Those of reads alone are refused by the write itself.
fn writing(order: Ordering) -> Ordering {
    if order == Ordering::Relaxed { Ordering::Release } else { order }
}

/// The order of a read and a write in one.
fn exchanging(order: Ordering) -> Ordering {
    if order == Ordering::SeqCst { order } else { Ordering::AcqRel }
}

impl<T> AtomicGc<T> {
    /// An empty one.
    ///
    /// ```
    /// static PLACE: neap::AtomicGc<u8> = neap::AtomicGc::none();
    /// assert!(PLACE.load(std::sync::atomic::Ordering::Acquire).is_none());
    /// ```
    pub const fn none() -> Self {
        Self { object: AtomicPtr::new(null_mut()), owner: PhantomData }
    }

    /// One with this in it.
    ///
    /// ```
    /// let place = neap::AtomicGc::new(Some(neap::Gc::new(1)));
    /// assert!(place.load(std::sync::atomic::Ordering::Acquire).is_some());
    /// ```
    pub fn new(object: Option<Gc<T>>) -> Self {
        Self { object: AtomicPtr::new(pointer(object)), owner: PhantomData }
    }

    /// What is in it.
    #[inline]
    pub fn load(&self, order: Ordering) -> Option<Gc<T>> {
        object(self.object.load(reading(order)))
    }

    /// Puts another in.
    #[inline]
    pub fn store(&self, new: Option<Gc<T>>, order: Ordering) {
        self.object.store(pointer(new), writing(order));
    }

    /// Puts another in and gives what was there.
    ///
    /// ```
    /// use neap::{AtomicGc, Gc};
    /// let place = AtomicGc::none();
    /// assert!(place.swap(Some(Gc::new(1)), std::sync::atomic::Ordering::AcqRel).is_none());
    /// ```
    #[inline]
    pub fn swap(&self, new: Option<Gc<T>>, order: Ordering) -> Option<Gc<T>> {
        object(self.object.swap(pointer(new), exchanging(order)))
    }

    /// Puts another in if this object, or none, is there; the error is what was there instead.
    #[inline]
    pub fn compare_exchange(
        &self,
        current: Option<Gc<T>>,
        new: Option<Gc<T>>,
        order: Ordering,
    ) -> Result<Option<Gc<T>>, Option<Gc<T>>> {
        let (from, to) = (pointer(current), pointer(new));
        let order = exchanging(order);
        let exchanged = self.object.compare_exchange(from, to, order, Ordering::Acquire);
        exchanged.map(object).map_err(object)
    }
}

impl<T> Default for AtomicGc<T> {
    fn default() -> Self {
        Self::none()
    }
}

impl<T> From<Gc<T>> for AtomicGc<T> {
    fn from(object: Gc<T>) -> Self {
        Self::new(Some(object))
    }
}

impl<T: fmt::Debug> fmt::Debug for AtomicGc<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(Ordering::Acquire).fmt(formatter)
    }
}

// SAFETY: threads that have it get at objects that they may share.
unsafe impl<T: Send + Sync> Send for AtomicGc<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for AtomicGc<T> {}

// SAFETY: the pointer is the word.
unsafe impl<T: 'static> Trace for AtomicGc<T> {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}

#[cfg(test)]
mod tests {
    use super::{AtomicGc, Gc, exchanging, reading, writing};
    use crate::Trace;
    use crate::containers::tests::LESS;
    use std::sync::atomic::Ordering::*;

    #[test]
    fn no_order_is_too_weak_to_follow_what_was_read() {
        assert_eq!([Relaxed, Acquire, SeqCst].map(reading), [Acquire, Acquire, SeqCst]);
        assert_eq!([Relaxed, Release, SeqCst].map(writing), [Release, Release, SeqCst]);
        let all = [Relaxed, Acquire, Release, AcqRel, SeqCst];
        assert_eq!(all.map(exchanging), [AcqRel, AcqRel, AcqRel, AcqRel, SeqCst]);
    }

    #[derive(Trace)]
    struct Item {
        thread: usize,
        number: usize,
        next: AtomicGc<Item>,
    }

    /// Threads push and pop while others collect: nothing is lost, nothing comes out twice.
    #[test]
    fn a_stack_of_several_threads_without_a_lock() {
        const THREADS: usize = 3;
        const EACH: usize = 20_000 / LESS;
        static TOP: AtomicGc<Item> = AtomicGc::none();
        fn pop() -> Option<Gc<Item>> {
            let mut top = TOP.load(Acquire);
            loop {
                match TOP.compare_exchange(top, top?.next.load(Acquire), AcqRel) {
                    Ok(item) => return item,
                    Err(found) => top = found,
                }
            }
        }
        fn push(thread: usize, number: usize) {
            let mut top = TOP.load(Acquire);
            let item = Gc::new(Item { thread, number, next: AtomicGc::none() });
            item.next.store(top, Release);
            while let Err(found) = TOP.compare_exchange(top, Some(item), AcqRel) {
                top = found;
                item.next.store(top, Release);
            }
        }
        let work = |thread: usize| {
            let mut sum = 0;
            for number in 0..EACH {
                push(thread, number);
                if number % (5000 / LESS) == 0 {
                    crate::collect();
                }
                if number % 2 == 1 {
                    let item = pop().expect("there are more pushes than pops");
                    assert!(item.thread < THREADS);
                    sum += item.number;
                }
            }
            sum
        };
        let threads: Vec<_> =
            (0..THREADS).map(|thread| std::thread::spawn(move || work(thread))).collect();
        let mut sum: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        let mut left = 0;
        while let Some(item) = pop() {
            sum += item.number;
            left += 1;
        }
        assert_eq!((left, sum), (THREADS * EACH / 2, THREADS * (EACH * (EACH - 1) / 2)));
    }
}
