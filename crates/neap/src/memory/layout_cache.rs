//! From a type to its layout in the core: interned once, found by the address of what the compiler
//! wrote down about the type.
//!
//! Invariant: an entry of the table is written as one word, an address and the layout that belongs
//! to it, and both stay what they are for the life of the process. So a reader needs no lock, and
//! an entry that another type overwrote is only slower. Called by every thread that makes objects.

use std::any::type_name;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use neap_core::api::{self, Kind, LayoutId};

use crate::Trace;
use crate::types::shape::{Form, Shape, WORD};

/// What is known of a type where the program is compiled.
pub struct TypeRecord {
    /// What reports call its objects.
    name: fn() -> &'static str,
    /// None: any word may be a pointer.
    shape: Option<&'static Shape>,
}

impl TypeRecord {
    /// Of single values, at an address of its own; types of one name that are scanned alike may
    /// share it.
    pub const fn of_one<T: Trace>() -> &'static Self {
        const { &Self { name: type_name::<T>, shape: Some(T::SHAPE) } }
    }

    /// Of values side by side.
    pub const fn of_some<T: Trace>() -> &'static Self {
        const { &Self { name: type_name::<[T]>, shape: Some(T::SHAPE) } }
    }

    /// Of memory in which values lie anywhere.
    pub const fn of_any<T: Trace>() -> &'static Self {
        const {
            let shape = if T::SHAPE.is_leaf() { Some(T::SHAPE) } else { None };
            &Self { name: type_name::<[T]>, shape }
        }
    }

    /// Objects that are scanned at least so, without a layout.
    pub const fn kind(&self) -> Kind {
        match self.shape {
            Some(shape) if shape.is_leaf() => Kind::Leaf,
            _ => Kind::Conservative,
        }
    }
}

const ENTRIES: usize = 2048;
/// An address shifted up by the bits of a layout's number; 0 is empty.
static TABLE: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];
const LAYOUT_BITS: u32 = 16;

/// The layout of a type's objects; None if there is no room for one more.
#[inline]
pub fn layout(record: &'static TypeRecord) -> Option<LayoutId> {
    let key = core::ptr::from_ref(record).addr() as u64;
    let entry = TABLE[(key >> 3) as usize % ENTRIES].load(Relaxed);
    if entry >> LAYOUT_BITS == key {
        return Some(LayoutId(entry as u32 & 0xffff));
    }
    intern(record, key)
}

#[cold]
fn intern(record: &'static TypeRecord, key: u64) -> Option<LayoutId> {
    let bits;
    let shape = match record.shape {
        Some(shape) if shape.is_leaf() => api::Shape::Leaf,
        // Elements side by side would come to lie elsewhere than those that a bitmap repeats.
        Some(shape) if !shape.bytes.is_multiple_of(WORD) => ALL,
        Some(shape) if !matches!(shape.form, Form::Words) || shape.bytes / WORD <= 64 => {
            bits = shape.bits();
            let element_words = shape.bytes / WORD;
            bits.as_ref().map_or(ALL, |bits| api::Shape::Bitmap { element_words, bits })
        }
        _ => ALL,
    };
    let layout = api::layouts::named(shape, (record.name)()).ok()?;
    if layout.0 < 1 << LAYOUT_BITS {
        let entry = key << LAYOUT_BITS | u64::from(layout.0);
        TABLE[(key >> 3) as usize % ENTRIES].store(entry, Relaxed);
    }
    Some(layout)
}

const ALL: api::Shape<'static> = api::Shape::Prefix { bytes: usize::MAX };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gc;

    fn number<T: Trace>() -> u32 {
        layout(TypeRecord::of_one::<T>()).unwrap().0
    }

    #[test]
    #[cfg_attr(miri, ignore = "it asks the core, which is not there under miri")]
    fn a_type_has_one_layout_and_types_that_differ_have_others() {
        let first = number::<(Gc<u8>, u64)>();
        assert_eq!(first, number::<(Gc<u8>, u64)>());
        assert_ne!(first, number::<(Gc<u16>, i64)>());
        assert_ne!(number::<u32>(), number::<f32>());
        assert_ne!(first, number::<(u64, u64)>());
        assert_ne!(first, number::<(Gc<u8>, u64, u64)>());
        assert_ne!(first, number::<(Gc<u8>, Gc<u8>)>());
    }

    #[test]
    #[cfg_attr(miri, ignore = "it asks the core, which is not there under miri")]
    fn arrays_and_memory_of_values_have_layouts_of_their_own() {
        let of_any = layout(TypeRecord::of_any::<Gc<u8>>()).unwrap();
        let of_some = layout(TypeRecord::of_some::<Gc<u8>>()).unwrap();
        assert!(of_any != of_some && of_some.0 != number::<Gc<u8>>());
        assert_eq!(TypeRecord::of_any::<Gc<u8>>().kind(), Kind::Conservative);
        assert_eq!(TypeRecord::of_any::<u8>().kind(), Kind::Leaf);
    }

    #[derive(Trace)]
    struct Uneven(#[trace(conservative)] [u32; 3]);

    #[test]
    #[cfg_attr(miri, ignore = "it asks the core, which is not there under miri")]
    fn elements_of_no_whole_number_of_words_are_scanned_whole() {
        let known = layout(TypeRecord::of_some::<Uneven>()).unwrap();
        assert_eq!(api::layouts::named(ALL, type_name::<[Uneven]>()), Ok(known));
        let known = number::<[Uneven; 3]>();
        assert_eq!(api::layouts::named(ALL, type_name::<[Uneven; 3]>()), Ok(LayoutId(known)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "it asks the core, which is not there under miri")]
    fn what_no_bitmap_can_say_is_scanned_whole() {
        type Large = [Gc<u8>; (1 << 20) + 1];
        let known = layout(TypeRecord::of_one::<Large>()).unwrap();
        assert_eq!(api::layouts::named(ALL, type_name::<Large>()), Ok(known));
    }
}
