//! `gc_typed.h`: objects of which a descriptor says where their pointers are.
//!
//! Invariant: a descriptor and a size always give the same layout, made once and remembered for
//! ever. What is remembered is as much as there are layouts, not sizes. Lookups take no lock.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::*};
use rust_alloc::boxed::Box;
use rust_alloc::collections::BTreeMap;
use rust_alloc::vec;
use rust_alloc::vec::Vec;

use crate::core_api::{self as api, Calls, Kind, LayoutId, Shape, Tracer};
use crate::failure::die;
use crate::kinds::cleared;
use crate::kinds::descriptors::{self, Meaning};
use crate::kinds::kind::{TYPED, no_memory};
use crate::lock::Locked;

const WORD: usize = size_of::<usize>();
/// Objects up to so many words get a bitmap of their exact size; larger ones are scanned by the
/// descriptor.
const BITMAP_WORDS: usize = 512;

/// How to allocate for one descriptor and size.
#[derive(Clone, Copy)]
enum Way {
    Conservative,
    Typed(LayoutId),
    /// Without pointers, and zero.
    Cleared(LayoutId),
}

struct Entry {
    descriptor: usize,
    /// As [`distinct_words`] says.
    words: usize,
    way: Way,
}

/// Lock-free: what was asked for last in each slot, with two slots for each entry to be in. Entries
/// are leaked.
static CACHE: [AtomicPtr<Entry>; 256] = [const { AtomicPtr::new(null_mut()) }; 256];
/// All entries.
static ALL: Locked<BTreeMap<(usize, usize), &'static Entry>> = Locked::new(BTreeMap::new());

/// A size for all those that are scanned alike by this descriptor, or programs that allocate in
/// ever new sizes would leave an entry for each.
fn distinct_words(descriptor: usize, words: usize) -> usize {
    match descriptors::meaning(descriptor) {
        Meaning::Prefix(0) => 1,
        // Where the object is no longer than the prefix its size does not count either.
        Meaning::Prefix(bytes) if words <= bytes / WORD => 1,
        Meaning::Prefix(bytes) => bytes / WORD + 1,
        Meaning::ShortBitmap(_) | Meaning::LongBitmap(_) => words.min(BITMAP_WORDS + 1),
        Meaning::Procedure { .. } | Meaning::PerObject(_) => 1,
    }
}

fn way(descriptor: usize, words: usize) -> Way {
    let words = distinct_words(descriptor, words);
    let mixed = (descriptor ^ words.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let slot = &CACHE[mixed >> 56];
    let other = &CACHE[mixed >> 56 ^ 1];
    for slot in [slot, other] {
        // SAFETY: non-null slots hold leaked entries.
        if let Some(entry) = unsafe { slot.load(Acquire).as_ref() }
            && entry.descriptor == descriptor
            && entry.words == words
        {
            return entry.way;
        }
    }
    let entry = ALL.with(|all| {
        let make = || -> &'static Entry {
            Box::leak(Box::new(Entry { descriptor, words, way: make_way(descriptor, words) }))
        };
        *all.entry((descriptor, words)).or_insert_with(make)
    });
    other.store(slot.load(Acquire), Release);
    slot.store((&raw const *entry).cast_mut(), Release);
    entry.way
}

fn make_way(descriptor: usize, words: usize) -> Way {
    let made = match descriptors::meaning(descriptor) {
        Meaning::Prefix(0) => {
            return cleared::layout(TYPED as u32).map_or(Way::Conservative, Way::Cleared);
        }
        Meaning::Prefix(bytes) if bytes >= words * WORD => return Way::Conservative,
        Meaning::Prefix(bytes) => api::layout(Shape::Prefix { bytes }),
        Meaning::ShortBitmap(bits) if words <= BITMAP_WORDS => {
            let mut map = vec![0_u64; words.div_ceil(64)];
            map[0] = (bits as u64).reverse_bits();
            bitmap(words, &mut map)
        }
        Meaning::LongBitmap(bits) if words <= BITMAP_WORDS => {
            let mut map = vec![0_u64; words.div_ceil(64)];
            let common = map.len().min(bits.len());
            map[..common].copy_from_slice(&bits[..common]);
            bitmap(words, &mut map)
        }
        _ => {
            let calls = descriptors::calls(descriptor);
            let shape = Shape::Function { function: trace, environment: descriptor, calls };
            let made = api::layout(shape);
            if made.is_err() && calls != Calls::NotYet {
                die(format_args!(
                    "GC_malloc_explicitly_typed: no memory, or no room, for one more layout; \
                     objects that a mark procedure scans cannot do without"
                ));
            }
            made
        }
    };
    // The conservative approximation that gc_typed.h promises where there is no room for more.
    made.map_or(Way::Conservative, Way::Typed)
}

/// A layout of `words` words; bits beyond them are cleared.
fn bitmap(words: usize, map: &mut [u64]) -> Result<LayoutId, api::LayoutError> {
    if !words.is_multiple_of(64)
        && let Some(last) = map.last_mut()
    {
        *last &= (1 << (words % 64)) - 1;
    }
    api::layout(Shape::Bitmap { element_words: words, bits: map })
}

/// Traces an object by its descriptor.
unsafe extern "C" fn trace(
    object: *mut c_void,
    bytes: usize,
    descriptor: usize,
    tracer: &mut Tracer<'_>,
) {
    // SAFETY: the object was allocated with this descriptor, and the core passes its size.
    unsafe { descriptors::scan(object as usize, bytes, descriptor, tracer) };
}

/// `bits`: as many bits as `length` says, word i of the object in bit i.
#[unsafe(no_mangle)]
pub extern "C" fn GC_make_descriptor(bits: *const usize, length: usize) -> usize {
    if length == 0 {
        return 0;
    }
    // SAFETY: the array covers `length` bits, says gc_typed.h; usize is u64 on the machines this
    // library is for.
    let bits = unsafe { core::slice::from_raw_parts(bits.cast::<u64>(), length.div_ceil(64)) };
    descriptors::from_bits(bits, length)
}

fn allocate(bytes: usize, way: Way) -> *mut c_void {
    match way {
        Way::Conservative => api::allocate(bytes, Kind::Conservative).cast(),
        Way::Cleared(layout) => cleared::allocate(bytes, layout),
        Way::Typed(layout) => api::allocate_typed(bytes, layout).cast(),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_explicitly_typed(bytes: usize, descriptor: usize) -> *mut c_void {
    allocate(bytes, way(descriptor, bytes.div_ceil(WORD).max(1)))
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_explicitly_typed_ignore_off_page(
    bytes: usize,
    descriptor: usize,
) -> *mut c_void {
    GC_malloc_explicitly_typed(bytes, descriptor)
}

/// An array: each element is scanned by the descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn GC_calloc_explicitly_typed(
    count: usize,
    element_bytes: usize,
    descriptor: usize,
) -> *mut c_void {
    match count.checked_mul(element_bytes) {
        Some(bytes) => allocate(bytes, array_way(descriptor, element_bytes)),
        None => no_memory(usize::MAX),
    }
}

/// What is kept in the caller's `struct GC_calloc_typed_descr_s`, which is larger: 0 where such an
/// array cannot be, or how its elements are scanned, plus 1; and its bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PreparedArray {
    way: usize,
    bytes: usize,
}

const IMPOSSIBLE: usize = 0;
const CONSERVATIVE: usize = 1;
const CLEARED: usize = 2;
const FIRST_TYPED: usize = 3;

fn check_prepared(function: &str, place: *const PreparedArray, bytes: usize) {
    if place.is_null() || bytes < size_of::<PreparedArray>() {
        die(format_args!(
            "{function}({place:p}, {bytes}): pass a struct GC_calloc_typed_descr_s and its size"
        ));
    }
}

/// Looks up how such an array is scanned, for the allocation of many; 1 if it can be, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn GC_calloc_prepare_explicitly_typed(
    place: *mut PreparedArray,
    place_bytes: usize,
    count: usize,
    element_bytes: usize,
    descriptor: usize,
) -> c_int {
    check_prepared("GC_calloc_prepare_explicitly_typed", place, place_bytes);
    let prepared = match count.checked_mul(element_bytes) {
        None => PreparedArray { way: IMPOSSIBLE, bytes: usize::MAX },
        Some(bytes) => {
            let way = match array_way(descriptor, element_bytes) {
                Way::Conservative => CONSERVATIVE,
                Way::Cleared(_) => CLEARED,
                Way::Typed(LayoutId(id)) => FIRST_TYPED + id as usize,
            };
            PreparedArray { way, bytes }
        }
    };
    // SAFETY: the caller's structure, with room for it.
    unsafe { place.write(prepared) };
    (prepared.way != IMPOSSIBLE).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_calloc_do_explicitly_typed(
    place: *const PreparedArray,
    place_bytes: usize,
) -> *mut c_void {
    check_prepared("GC_calloc_do_explicitly_typed", place, place_bytes);
    // SAFETY: what was prepared there, says gc_typed.h.
    let PreparedArray { way, bytes } = unsafe { place.read() };
    match way {
        IMPOSSIBLE => no_memory(bytes),
        CONSERVATIVE => allocate(bytes, Way::Conservative),
        CLEARED => allocate(bytes, self::way(0, 1)),
        typed => allocate(bytes, Way::Typed(LayoutId((typed - FIRST_TYPED) as u32))),
    }
}

/// As `way`, for elements of an array.
fn array_way(descriptor: usize, element_bytes: usize) -> Way {
    if descriptor == 0 {
        // Without pointers, of whatever size.
        return way(0, 1);
    }
    let words = element_bytes / WORD;
    if words == 0 || words > BITMAP_WORDS || !element_bytes.is_multiple_of(WORD) {
        // No bitmap of whole words describes such an element; scanning all of it is always right.
        return Way::Conservative;
    }
    element_way(descriptor, words)
}

/// As `way`, for elements of whole words: what repeats is a bitmap, so a prefix has to become one.
fn element_way(descriptor: usize, words: usize) -> Way {
    match descriptors::meaning(descriptor) {
        Meaning::Prefix(bytes) if bytes != 0 && bytes < words * WORD => {
            // At every allocation: elements are mostly small, and need no memory for this.
            let (mut few, mut many) = ([0_u64], Vec::new());
            let bits = if words <= 64 {
                &mut few[..]
            } else {
                many.resize(words.div_ceil(64), 0_u64);
                &mut many[..]
            };
            for index in 0..bytes / WORD {
                bits[index / 64] |= 1 << (index % 64);
            }
            way(descriptors::encode(bits, words), words)
        }
        Meaning::Procedure { .. } | Meaning::PerObject(_) => Way::Conservative,
        _ => way(descriptor, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(descriptor: usize) -> usize {
        ALL.with(|all| all.range((descriptor, 0)..=(descriptor, usize::MAX)).count())
    }

    /// Asks for every size up to `words`; how many entries that leaves.
    fn left_by_sizes_up_to(words: usize, descriptor: usize) -> usize {
        (1..=words).for_each(|words| _ = way(descriptor, words));
        entries(descriptor)
    }

    #[test]
    fn sizes_that_are_scanned_alike_share_an_entry() {
        const SIZES: usize = 2000;
        assert_eq!(left_by_sizes_up_to(SIZES, 0), 1);
        assert_eq!(left_by_sizes_up_to(SIZES, 3 * WORD), 2);
        let bitmap = descriptors::from_bits(&[0b101], 3);
        assert_eq!(left_by_sizes_up_to(SIZES, bitmap), BITMAP_WORDS + 1);
        let procedure = descriptors::make_proc(40, 7);
        assert_eq!(left_by_sizes_up_to(SIZES, procedure), 1);
    }

    #[test]
    fn a_prefix_as_long_as_the_object_is_all_of_it() {
        assert!(matches!(way(5 * WORD, 5), Way::Conservative));
        assert!(matches!(way(5 * WORD, 4), Way::Conservative));
        assert!(matches!(way(5 * WORD, 6), Way::Typed(_)));
        assert!(matches!(way(5 * WORD + 4, 5), Way::Conservative));
        assert!(matches!(way(5 * WORD + 4, 6), Way::Typed(_)));
    }
}
