//! `Gc<T>`: a pointer to a collected object.
//!
//! Invariant: a `Gc` that the program can get at lies where the collector reads: on a stack, in a
//! register, in static data or thread-local storage, on Rust's own heap, in a collected object. So
//! its object is there. It is aligned to a word, also where a packed type would have it otherwise.
//! Used by any thread of the program.
//!
//! # Safety
//!
//! Follows pointers that were made here, to values that were written before anybody else had the
//! pointer. `docs/rust-soundness.md` argues why the object is alive.

#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::ptr::NonNull;

use crate::finalizer;
use crate::memory::place;
use crate::memory::seen::seen;
use crate::types::aligned::Aligned;
use crate::types::shape::Shape;
use crate::types::trace::Trace;

/// A pointer to a collected object: copied like a reference, shared like an `Arc`, and the object
/// is freed when nothing leads to it, cycles or not.
///
/// One word for sized types, and `Option<Gc<T>>` is one too. What it points to is shared, so it is
/// changed through `Cell`, `RefCell`, `Mutex` or atomics.
///
/// ```
/// use neap::Gc;
///
/// let number = Gc::new(41);
/// let same = number;
/// assert_eq!(*number + 1, 42);
/// assert!(Gc::ptr_eq(number, same));
/// assert_eq!(size_of::<Option<Gc<i32>>>(), size_of::<usize>());
/// ```
///
/// Threads share it where they could share a reference:
///
/// ```
/// use neap::Gc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let count = Gc::new(AtomicU32::new(0));
/// let threads: Vec<_> = (0..4)
///     .map(|_| std::thread::spawn(move || count.fetch_add(1, Ordering::Relaxed)))
///     .collect();
/// threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
/// assert_eq!(count.load(Ordering::Relaxed), 4);
/// ```
#[repr(C)]
pub struct Gc<T: ?Sized> {
    object: NonNull<T>,
    aligned: Aligned,
}

impl<T: ?Sized> Clone for Gc<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for Gc<T> {}

// SAFETY: as for `Arc`: several threads get at one value, and any of them may be the last.
unsafe impl<T: ?Sized + Send + Sync> Send for Gc<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for Gc<T> {}

impl<T: Trace> Gc<T> {
    /// Makes an object of the value.
    ///
    /// If dropping the value does anything, that is done by a thread of the collector, once, some
    /// time after the object has become unreachable, and not at the end of the process.
    ///
    /// ```
    /// let text = neap::Gc::new(String::from("tide"));
    /// assert_eq!(text.len(), 4);
    /// ```
    #[inline]
    pub fn new(value: T) -> Self {
        let place = place::of_one::<T>();
        // SAFETY: a fresh cell for one `T`, which nobody else knows.
        unsafe { place.write(value) };
        finalizer::register(place);
        Self::of(place)
    }
}

impl<T: ?Sized> Gc<T> {
    pub(crate) fn of(object: NonNull<T>) -> Self {
        Self { object, aligned: Aligned }
    }

    /// Whether both point to one object. Addresses are compared, not values.
    ///
    /// ```
    /// use neap::Gc;
    /// assert!(!Gc::ptr_eq(Gc::new(1), Gc::new(1)));
    /// ```
    #[inline]
    pub fn ptr_eq(left: Self, right: Self) -> bool {
        std::ptr::addr_eq(left.as_ptr(), right.as_ptr())
    }

    /// The object's address: valid as long as the object lives.
    ///
    /// ```
    /// let object = neap::Gc::new(5);
    /// assert_eq!(neap::Gc::as_ptr(object).addr() % align_of::<i32>(), 0);
    /// ```
    #[inline]
    pub fn as_ptr(self) -> *const T {
        self.object.as_ptr()
    }

    /// The `Gc` of a pointer that [`as_ptr`](Self::as_ptr) gave, or that such a one was cast to:
    /// for casts of a type to a trait that it implements, [`unsize!`](crate::unsize) is the safe
    /// form.
    ///
    /// ```
    /// use neap::Gc;
    /// let object = Gc::new(5);
    /// let pointer = Gc::as_ptr(object);
    /// // SAFETY: of an object that is alive: `object` is used below.
    /// let again = unsafe { Gc::from_ptr(pointer) };
    /// assert!(Gc::ptr_eq(object, again));
    /// ```
    ///
    /// # Safety
    ///
    /// The pointer is to a whole object, of this type, and the object has been reachable all the
    /// time since: the pointer, or another to the object, lay where the collector reads.
    #[inline]
    pub unsafe fn from_ptr(object: *const T) -> Self {
        // SAFETY: the caller's promise: no object is at null.
        Self::of(unsafe { NonNull::new_unchecked(object.cast_mut()) })
    }
}

impl<T: ?Sized> Deref for Gc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        seen(self);
        // SAFETY: the object is alive as long as the `Gc` can be got at, which is as long as the
        // reference is used, and only ever shared.
        unsafe { self.object.as_ref() }
    }
}

// SAFETY: the pointer is among the words; a `Gc` has no destructor.
unsafe impl<T: ?Sized + 'static> Trace for Gc<T> {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}

impl<T: ?Sized> AsRef<T> for Gc<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized> Borrow<T> for Gc<T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T: Trace> From<T> for Gc<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Trace + Default> Default for Gc<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + PartialEq> PartialEq for Gc<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl<T: ?Sized + Eq> Eq for Gc<T> {}

impl<T: ?Sized + PartialOrd> PartialOrd for Gc<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}
impl<T: ?Sized + Ord> Ord for Gc<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: ?Sized + Hash> Hash for Gc<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Gc<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}
impl<T: ?Sized + fmt::Display> fmt::Display for Gc<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}
impl<T: ?Sized> fmt::Pointer for Gc<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_word_with_room_for_none() {
        assert_eq!(size_of::<Gc<u8>>(), 8);
        assert_eq!(size_of::<Option<Gc<u8>>>(), 8);
        assert_eq!(size_of::<Gc<[u8]>>(), 16);
        assert_eq!(size_of::<Option<Gc<dyn fmt::Debug>>>(), 16);
        assert_eq!(align_of::<Gc<u8>>(), 8);
    }

    #[test]
    fn values_of_no_bytes_and_of_large_alignment_have_objects() {
        #[derive(Clone, Copy)]
        #[repr(align(256))]
        struct Page([u8; 512]);
        // SAFETY: bytes.
        unsafe impl Trace for Page {
            const SHAPE: &'static Shape = &Shape::leaf::<Self>();
        }
        assert!(!Gc::ptr_eq(Gc::new(()), Gc::new(())));
        for _ in 0..50 {
            let (none, empty) = (Gc::new([0_u128; 0]), Gc::<[u128]>::copied(&[]));
            assert!(none.as_ptr().addr().is_multiple_of(align_of::<u128>()));
            assert!(empty.as_ptr().addr().is_multiple_of(align_of::<u128>()));
        }
        let page = Gc::new(Page([7; 512]));
        assert!(page.as_ptr().addr().is_multiple_of(256) && page.0 == [7; 512]);
        let both = Gc::new((page, Gc::new(3)));
        assert_eq!((both.0.0[511], *both.1), (7, 3));
    }

    #[test]
    #[cfg_attr(miri, ignore = "it starts a program")]
    fn values_of_no_bytes_are_aligned_in_cells_of_the_size_asked_for() {
        let test = "gc::tests::values_of_no_bytes_and_of_large_alignment_have_objects";
        let mut same = std::process::Command::new(std::env::current_exe().unwrap());
        same.args(["--exact", test]).env("NEAP_PAST_END", "0");
        assert!(same.output().unwrap().status.success());
    }

    #[test]
    fn it_compares_and_hashes_as_its_value() {
        let (one, two) = (Gc::new(1), Gc::new(2));
        assert!(one < two && one == Gc::new(1) && one.max(two) == two);
        assert_eq!(std::collections::HashSet::from([one, two, Gc::new(1)]).len(), 2);
        assert_eq!(format!("{one} {one:?}"), "1 1");
    }
}
