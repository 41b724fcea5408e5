//! Objects whose size is known when they are made: slices, text, trait objects.
//!
//! Invariant: the pointer part of a wide `Gc` is the object's start. Used by any thread.
//!
//! # Safety
//!
//! Writes as many values into a fresh cell as it was asked for, and makes wide pointers with that
//! length.

#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{NonNull, slice_from_raw_parts_mut};

use crate::memory::place;
use crate::types::trace::Trace;
use crate::{Gc, finalizer};

/// A cell for so many values.
fn cell<T: Trace>(length: usize) -> NonNull<T> {
    let Ok(layout) = Layout::array::<T>(length) else { capacity_overflow() };
    place::of_some::<T>(layout).unwrap_or_else(|| handle_alloc_error(layout)).cast()
}

#[cold]
fn capacity_overflow() -> ! {
    panic!("no object can have so many elements")
}

fn wide<T>(first: NonNull<T>, length: usize) -> Gc<[T]> {
    let slice = slice_from_raw_parts_mut(first.as_ptr(), length);
    // SAFETY: not null.
    Gc::of(unsafe { NonNull::new_unchecked(slice) })
}

impl<T: Trace> Gc<[T]> {
    /// Makes an object of so many values, each from its index.
    ///
    /// ```
    /// let squares = neap::Gc::from_fn(5, |index| index * index);
    /// assert_eq!(*squares, [0, 1, 4, 9, 16]);
    /// ```
    pub fn from_fn(length: usize, mut make: impl FnMut(usize) -> T) -> Self {
        let first = cell::<T>(length);
        let mut written = Written { first, count: 0 };
        for index in 0..length {
            // SAFETY: the cell has room for so many.
            unsafe { first.add(index).write(make(index)) };
            written.count += 1;
        }
        std::mem::forget(written);
        finalizer::register_slice(first, length);
        wide(first, length)
    }

    /// Makes an object of the slice's values.
    ///
    /// ```
    /// let words = neap::Gc::copied(&["spring", "neap"]);
    /// assert_eq!(words.len(), 2);
    /// ```
    pub fn copied(values: &[T]) -> Self
    where
        T: Copy,
    {
        let first = cell::<T>(values.len());
        // SAFETY: the cell is fresh and has room for so many.
        unsafe { first.copy_from_nonoverlapping(NonNull::from(values).cast(), values.len()) };
        wide(first, values.len())
    }
}

/// Values that were written to a cell which is not an object yet: dropped if a later one cannot be
/// made.
struct Written<T> {
    first: NonNull<T>,
    count: usize,
}

impl<T> Drop for Written<T> {
    fn drop(&mut self) {
        // SAFETY: so many were written, and nobody else has them.
        unsafe { slice_from_raw_parts_mut(self.first.as_ptr(), self.count).drop_in_place() };
    }
}

impl<T: Trace> FromIterator<T> for Gc<[T]> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = Vec::from_iter(values).into_iter();
        Gc::from_fn(values.len(), |_| values.next().expect("a vector gives what it has"))
    }
}

impl<T: Trace> From<Vec<T>> for Gc<[T]> {
    fn from(values: Vec<T>) -> Self {
        values.into_iter().collect()
    }
}

impl From<&str> for Gc<str> {
    /// ```
    /// let text: neap::Gc<str> = "tide".into();
    /// assert_eq!(&*text, "tide");
    /// ```
    fn from(text: &str) -> Self {
        let bytes = Gc::copied(text.as_bytes());
        // SAFETY: the bytes are text's; the two have one layout.
        unsafe { Gc::from_ptr(bytes.as_ptr() as *const str) }
    }
}

impl From<String> for Gc<str> {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

/// A `Gc` of a type as one of a trait that the type implements, or of an array as one of a slice.
///
/// ```
/// use neap::{Gc, unsize};
/// use std::fmt::Display;
///
/// let shown: Gc<dyn Display> = unsize!(Gc::new(7) => dyn Display);
/// assert_eq!(shown.to_string(), "7");
/// let slice = unsize!(Gc::new([1, 2, 3]) => [i32]);
/// assert_eq!(slice.len(), 3);
/// ```
#[macro_export]
macro_rules! unsize {
    ($object:expr => $type:ty) => {{
        let object = $object;
        let pointer: *const _ = $crate::Gc::as_ptr(object);
        let wide: *const $type = pointer;
        // SAFETY: the compiler made the wider pointer of the same object, which `object` keeps.
        let wide = unsafe { $crate::Gc::<$type>::from_ptr(wide) };
        wide
    }};
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    #[test]
    fn slices_text_and_traits_are_what_they_were_made_of() {
        let objects: Gc<[Gc<u64>]> = (0..10_000).map(Gc::new).collect();
        crate::collect();
        assert!(objects.iter().enumerate().all(|(index, object)| **object == index as u64));
        assert!(Gc::<[u8]>::copied(&[]).is_empty());
        assert!(Gc::<[Gc<u8>]>::from_iter([]).is_empty());
        assert_eq!(Gc::<[()]>::from_fn(1000, |_| ()).len(), 1000);
        assert_eq!(&*Gc::<str>::from(String::from("äöü")), "äöü");
        let shown = unsize!(Gc::new((1, "two")) => dyn Debug);
        assert_eq!(format!("{shown:?}"), "(1, \"two\")");
    }

    #[test]
    fn a_slice_that_cannot_be_finished_drops_what_it_has() {
        struct Dropped(#[allow(dead_code)] Rc<()>);
        // SAFETY: no `Gc`. Its destructor is not for other threads, and runs on this one: no slice
        // of it becomes an object.
        unsafe impl Trace for Dropped {
            const SHAPE: &'static crate::Shape = &crate::Shape::leaf::<Self>();
        }
        let count = Rc::new(());
        let made = catch_unwind(AssertUnwindSafe(|| {
            Gc::from_fn(5, |index| {
                assert!(index < 3);
                Dropped(Rc::clone(&count))
            })
        }));
        assert!(made.is_err());
        assert_eq!(Rc::strong_count(&count), 1);
    }
}
