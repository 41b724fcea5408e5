//! Mark descriptors of `gc_mark.h`: one word that says how to find an object's pointers. Their
//! making, and scanning by them.
//!
//! Invariant: a descriptor means the same for ever; bitmaps too long for a word are kept and never
//! freed (`gc_typed.h`: a finite resource, one per type). Scanning runs where mark procedures run:
//! no allocation, no lock.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use rust_alloc::boxed::Box;
use rust_alloc::collections::BTreeMap;
use rust_alloc::vec::Vec;

use crate::core_api::{Calls, Tracer};
use crate::kinds::mark_procs::{self, LOG_MAX_MARK_PROCS, LONG_BITMAP_PROC};
use crate::lock::Locked;

pub const TAG_BITS: u32 = 2;
pub const TAGS: usize = (1 << TAG_BITS) - 1;
pub const TAG_LENGTH: usize = 0;
pub const TAG_BITMAP: usize = 1;
pub const TAG_PROC: usize = 2;
pub const TAG_PER_OBJECT: usize = 3;
/// What a negative per-object descriptor is off by.
pub const PER_OBJECT_BIAS: usize = 0x10;
const WORD: usize = size_of::<usize>();
/// Fields that a bitmap in the descriptor itself can describe.
const SHORT_BITMAP_BITS: usize = usize::BITS as usize - TAG_BITS as usize;

/// As the macro `GC_MAKE_PROC`.
pub const fn make_proc(index: usize, environment: usize) -> usize {
    ((environment << LOG_MAX_MARK_PROCS | index) << TAG_BITS) | TAG_PROC
}

/// What a descriptor says, its long bitmap looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The first so many bytes may hold pointers.
    Prefix(usize),
    /// First word in the most significant bit; the tag bits are cleared.
    ShortBitmap(usize),
    /// Word i in bit i.
    LongBitmap(&'static [u64]),
    /// A procedure of the program and its environment.
    Procedure { index: usize, environment: usize },
    /// The descriptor is found through the object.
    PerObject(usize),
}

pub fn meaning(descriptor: usize) -> Meaning {
    match descriptor & TAGS {
        TAG_LENGTH => Meaning::Prefix(descriptor),
        TAG_BITMAP => Meaning::ShortBitmap(descriptor & !TAGS),
        TAG_PROC => {
            let index = (descriptor >> TAG_BITS) & ((1 << LOG_MAX_MARK_PROCS) - 1);
            let environment = descriptor >> (TAG_BITS + LOG_MAX_MARK_PROCS);
            match long_bitmap(environment) {
                Some(bits) if index == LONG_BITMAP_PROC => Meaning::LongBitmap(bits),
                _ => Meaning::Procedure { index, environment },
            }
        }
        _ => Meaning::PerObject(descriptor),
    }
}

/// Scans an object by a descriptor.
///
/// # Safety
/// `object` is an object of `bytes` bytes with this descriptor, and may be traced now.
pub unsafe fn scan(object: usize, bytes: usize, descriptor: usize, tracer: &mut Tracer<'_>) {
    // SAFETY: the caller's promise.
    match unsafe { final_descriptor(object, descriptor) } {
        // SAFETY: the caller's promise, and it is the object's own.
        Final::Is(descriptor) => unsafe { scan_by(object, bytes, descriptor, tracer) },
        Final::NotYet => {}
        // SAFETY: the object's own extent.
        Final::NotFound => unsafe { tracer.range(object, object + bytes) },
    }
}

/// As [`scan`], for what is no per-object descriptor.
///
/// # Safety
/// As of [`scan`].
unsafe fn scan_by(object: usize, bytes: usize, descriptor: usize, tracer: &mut Tracer<'_>) {
    // SAFETY: the caller's promise: an aligned word inside the object.
    let word_at = |offset: usize| unsafe { ((object + offset) as *const usize).read() };
    match meaning(descriptor) {
        // SAFETY: cut to the object's extent.
        Meaning::Prefix(length) => unsafe { tracer.range(object, object + length.min(bytes)) },
        Meaning::ShortBitmap(mut bits) => {
            let mut offset = 0;
            while bits != 0 && offset < bytes {
                if bits >> (usize::BITS - 1) != 0 {
                    tracer.word(word_at(offset));
                }
                bits <<= 1;
                offset += WORD;
            }
        }
        Meaning::LongBitmap(map) => {
            for (index, &part) in map.iter().enumerate() {
                let mut part = part;
                while part != 0 {
                    let offset = (index * 64 + part.trailing_zeros() as usize) * WORD;
                    if offset < bytes {
                        tracer.word(word_at(offset));
                    }
                    part &= part - 1;
                }
            }
        }
        Meaning::Procedure { index, environment } => {
            if tracer.may_call() {
                // SAFETY: the caller's promise.
                unsafe { mark_procs::call(index, object, bytes, environment, tracer) }
            }
        }
        // It was looked for.
        Meaning::PerObject(_) => {}
    }
}

/// Whether scanning by a descriptor calls the program.
pub fn calls(descriptor: usize) -> Calls {
    match meaning(descriptor) {
        Meaning::Procedure { .. } => Calls::Always,
        Meaning::PerObject(_) => Calls::Sometimes,
        _ => Calls::NotYet,
    }
}

/// Whether an object is, or may come to be, scanned by a procedure of the program.
///
/// # Safety
/// The object was allocated with this descriptor, and what leads to its own is written.
pub unsafe fn may_call(object: usize, descriptor: usize) -> bool {
    // SAFETY: the caller's promise.
    match unsafe { final_descriptor(object, descriptor) } {
        Final::Is(descriptor) => calls(descriptor) == Calls::Always,
        Final::NotYet => false,
        Final::NotFound => true,
    }
}

/// Per-object descriptors that lead to each other, at most: libgc follows any number.
const MOST_PER_OBJECT: usize = 8;

/// Where per-object descriptors lead.
enum Final {
    /// The object is scanned by this one, which is none.
    Is(usize),
    /// The object is not initialised.
    NotYet,
    /// There are too many, as where they lead in a circle.
    NotFound,
}

/// The descriptor that an object is scanned by.
///
/// # Safety
/// The object has this descriptor.
unsafe fn final_descriptor(object: usize, mut descriptor: usize) -> Final {
    for _ in 0..MOST_PER_OBJECT {
        if descriptor & TAGS != TAG_PER_OBJECT {
            return Final::Is(descriptor);
        }
        // SAFETY: the object's descriptor lies where the program said.
        match unsafe { own_descriptor(object, descriptor) } {
            Some(own) => descriptor = own,
            None => return Final::NotYet,
        }
    }
    Final::NotFound
}

/// The descriptor of one object: inside it, or inside the type that its first word points to; none
/// while that word is not written.
///
/// # Safety
/// The object was allocated with this per-object descriptor.
unsafe fn own_descriptor(object: usize, descriptor: usize) -> Option<usize> {
    let displacement = descriptor & !TAGS;
    if descriptor as isize >= 0 {
        // SAFETY: the program promised a descriptor at this displacement.
        return Some(unsafe { ((object + displacement) as *const usize).read() });
    }
    // SAFETY: the first word of an object.
    let kind = unsafe { (object as *const usize).read() };
    // SAFETY: the program promised that the first word points to a type with a descriptor there.
    (kind != 0).then(|| unsafe {
        (kind.wrapping_sub(displacement).wrapping_sub(PER_OBJECT_BIAS) as *const usize).read()
    })
}

/// Most long bitmaps there can be; above, the approximation of `gc_typed.h` takes their place.
const LONG_BITMAPS: usize = 1 << 14;

/// Published bitmaps by index, for readers without a lock. A slot is written once, before the index
/// is given out.
static BITMAPS: [AtomicPtr<&'static [u64]>; LONG_BITMAPS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; LONG_BITMAPS];
static BITMAP_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Equal bitmaps share one index.
static KNOWN: Locked<BTreeMap<&'static [u64], usize>> = Locked::new(BTreeMap::new());

fn long_bitmap(index: usize) -> Option<&'static [u64]> {
    let slot = BITMAPS.get(index)?.load(Acquire);
    // SAFETY: non-null slots hold a leaked box.
    (!slot.is_null()).then(|| unsafe { *slot })
}

/// The descriptor of an object whose word i may be a pointer where bit i is set; a descriptor of
/// the whole prefix where there is no room.
pub fn from_bits(bits: &[u64], length: usize) -> usize {
    let is_set = |index: usize| bits[index / 64] >> (index % 64) & 1 != 0;
    let Some(last) = (0..length).rev().find(|&index| is_set(index)) else {
        // No pointers at all: a length of nothing.
        return 0;
    };
    let used = last + 1;
    if (0..used).all(is_set) {
        return used * WORD;
    }
    encode(bits, used)
}

/// The descriptor that says bit by bit which of the first `used` words may be pointers.
pub fn encode(bits: &[u64], used: usize) -> usize {
    let is_set = |index: usize| bits[index / 64] >> (index % 64) & 1 != 0;
    if used <= SHORT_BITMAP_BITS {
        let mut descriptor = TAG_BITMAP;
        for index in (0..used).filter(|&index| is_set(index)) {
            descriptor |= 1 << (usize::BITS as usize - 1 - index);
        }
        return descriptor;
    }
    let mut trimmed = bits[..used.div_ceil(64)].to_vec();
    if !used.is_multiple_of(64) {
        *trimmed.last_mut().expect("used is not 0") &= (1 << (used % 64)) - 1;
    }
    match intern(trimmed) {
        Some(index) => make_proc(LONG_BITMAP_PROC, index),
        None => used * WORD,
    }
}

fn intern(bits: Vec<u64>) -> Option<usize> {
    KNOWN.with(|known| {
        if let Some(&index) = known.get(bits.as_slice()) {
            return Some(index);
        }
        let index = BITMAP_COUNT.load(Relaxed);
        let slot = BITMAPS.get(index)?;
        let bits: &'static [u64] = Vec::leak(bits);
        slot.store(Box::into_raw(Box::new(bits)), Release);
        BITMAP_COUNT.store(index + 1, Relaxed);
        known.insert(bits, index);
        Some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bitmaps_start_at_the_most_significant_bit() {
        assert_eq!(from_bits(&[0b101], 3), 0xA000_0000_0000_0001);
        assert_eq!(meaning(0xA000_0000_0000_0001), Meaning::ShortBitmap(0xA000_0000_0000_0000));
    }

    #[test]
    fn all_or_nothing_needs_no_bitmap() {
        assert_eq!(from_bits(&[0b111], 3), 24);
        assert_eq!(from_bits(&[0], 64), 0);
        assert_eq!(from_bits(&[!0, 1], 65), 65 * 8);
        assert_eq!(from_bits(&[!0], 3), 24, "bits beyond the length do not count");
    }

    #[test]
    fn long_bitmaps_are_shared() {
        let descriptor = from_bits(&[0b101, 0b10], 100);
        assert_eq!(descriptor, from_bits(&[0b101, 0b10, 0], 130));
        assert_eq!(meaning(descriptor), Meaning::LongBitmap(&[0b101, 0b10]));
        assert_ne!(descriptor, from_bits(&[0b101, 0b110], 100));
    }

    #[test]
    fn procedures_keep_index_and_environment() {
        let descriptor = make_proc(9, 1234);
        assert_eq!(meaning(descriptor), Meaning::Procedure { index: 9, environment: 1234 });
        assert_eq!(make_proc(0, 1), (1 << 6) << 2 | 2);
    }
}
