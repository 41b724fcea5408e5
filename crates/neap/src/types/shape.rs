//! Where the pointers of a type lie: what `#[derive(Trace)]` writes down, and the bitmap that the
//! core's layouts are made of.
//!
//! Invariant: a word of a value that may hold a pointer into the heap is named by its type's shape.
//! The other way round is no promise: a word that is named is looked up before it is believed.
//! Pure; called from any thread.

use core::marker::PhantomData;

/// The size of a word.
pub const WORD: usize = size_of::<usize>();
/// Words of the largest bitmap that the core takes.
const MOST_WORDS: usize = 1 << 20;

/// Where a type's pointers lie. Made by [`macro@crate::Trace`] and by the functions here.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    #[doc(hidden)]
    pub form: Form,
    /// Bytes of a value.
    #[doc(hidden)]
    pub bytes: usize,
    #[doc(hidden)]
    pub fields: &'static [Field],
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Any aligned word may be a pointer.
    Words,
    /// The pointers are those of `fields`; without fields there are none.
    Fields,
    /// The value is so many of the one field, side by side.
    Repeated(usize),
}

/// A part of a value.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub offset: usize,
    pub shape: &'static Shape,
}

/// The type of what lies there, which nobody looks at.
#[doc(hidden)]
pub fn type_of<T: ?Sized>(_: *const T) -> PhantomData<T> {
    PhantomData
}

impl Shape {
    /// The shape of a type without pointers to collected objects.
    pub const fn leaf<T>() -> Self {
        Self { form: Form::Fields, bytes: size_of::<T>(), fields: &[] }
    }

    /// The shape of a type of which any word may be such a pointer.
    pub const fn words<T>() -> Self {
        Self { form: Form::Words, bytes: size_of::<T>(), fields: &[] }
    }

    /// The shape of a `T` that holds some of these at places that are not known.
    pub const fn somewhere_any<T>(inner: &[&Self]) -> Self {
        let mut index = 0;
        while index < inner.len() {
            if !inner[index].is_leaf() {
                return Self::words::<T>();
            }
            index += 1;
        }
        Self::leaf::<T>()
    }

    /// Whether there are no pointers.
    pub const fn is_leaf(&self) -> bool {
        match self.form {
            Form::Words => self.bytes < WORD,
            Form::Fields | Form::Repeated(_) => {
                if let Form::Repeated(0) = self.form {
                    return true;
                }
                let mut index = 0;
                while index < self.fields.len() {
                    if !self.fields[index].shape.is_leaf() {
                        return false;
                    }
                    index += 1;
                }
                true
            }
        }
    }

    /// The bits of a value's words, lowest first; None if there are more than a layout can have.
    pub(crate) fn bits(&self) -> Option<Vec<u64>> {
        let words = self.bytes.div_ceil(WORD);
        if words > MOST_WORDS {
            return None;
        }
        let mut bits = vec![0; words.div_ceil(64)];
        self.mark(0, &mut bits);
        Some(bits)
    }

    fn mark(&self, offset: usize, bits: &mut [u64]) {
        if self.is_leaf() {
            return;
        }
        match self.form {
            Form::Words => {
                // A value that holds a pointer lies at a multiple of a word.
                for word in offset.div_ceil(WORD)..(offset + self.bytes) / WORD {
                    bits[word / 64] |= 1 << (word % 64);
                }
            }
            Form::Fields => {
                for field in self.fields {
                    field.shape.mark(offset + field.offset, bits);
                }
            }
            Form::Repeated(count) => {
                for index in 0..count {
                    for field in self.fields {
                        field.shape.mark(offset + index * field.shape.bytes, bits);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gc, Trace};
    use std::cell::{Cell, RefCell};

    fn bits<T: Trace>() -> Vec<u64> {
        T::SHAPE.bits().unwrap()
    }

    #[test]
    fn a_tuple_names_its_pointers_and_no_numbers() {
        // The compiler orders the fields: so many bits, wherever they are.
        type Mixed = (u64, Gc<u8>, [u64; 3], Option<Gc<u8>>, u8);
        assert_eq!(bits::<Mixed>().iter().map(|word| word.count_ones()).sum::<u32>(), 2);
        let mixed: Mixed = (1, Gc::new(2), [3; 3], None, 4);
        let place = (&raw const mixed.1).addr() - (&raw const mixed).addr();
        assert_ne!(bits::<Mixed>()[0] & 1 << (place / WORD), 0);
    }

    #[test]
    fn arrays_repeat_their_element() {
        assert_eq!(bits::<[Gc<u8>; 70]>(), [u64::MAX, 0x3f]);
        assert_eq!(bits::<[(Gc<u8>, [Gc<u8>; 0]); 2]>(), [3]);
        assert!(<[Gc<u8>; 0]>::SHAPE.is_leaf());
        assert!(<[String; 9]>::SHAPE.is_leaf());
    }

    #[test]
    fn cells_are_what_they_hold_and_the_rest_is_all_words_or_none() {
        assert_eq!(bits::<Cell<Option<Gc<u8>>>>(), [1]);
        assert_eq!(bits::<RefCell<Gc<u8>>>(), [3]);
        assert!(RefCell::<u64>::SHAPE.is_leaf());
        assert_eq!(bits::<Gc<[u8]>>(), [3]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million words take it minutes")]
    fn a_value_of_too_many_words_has_no_bitmap() {
        assert!(<[Gc<u8>; 1 << 20]>::SHAPE.bits().is_some());
        assert!(<[Gc<u8>; (1 << 20) + 1]>::SHAPE.bits().is_none());
    }
}
