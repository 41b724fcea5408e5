//! Layouts of typed objects, interned: one record for each different layout of the program, none
//! for each object.
//!
//! Invariant: a layout's number and record never change once given out, so markers read records
//! without a lock. Records live as long as the process. Interning is called from any thread;
//! reading from markers.
//!
//! # Safety
//!
//! Makes references to records and bitmaps from numbers. A record's place is mapped before its
//! number is given out, and neither moves nor changes after that but for atomics, so readers need
//! no lock.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use super::blocks::header::NONE;
use super::calls::Calls;
use super::classes::CLASSES;
use super::kind::Scan;
use crate::addr::{PAGE_BYTES, WORD_BYTES};
use crate::rank::Rank;
use crate::sync::function::function_at;
use crate::sync::{ForkLock, Lock};
use crate::sys::map;
use crate::sys::meta_vec::MetaVec;

/// An interned layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LayoutId(pub u32);

/// Traces one object. The last argument is the marker's tracer; `mark` gives it its type.
pub type RawTraceFunction = unsafe extern "C" fn(*mut c_void, usize, usize, *mut c_void);

/// How objects of a layout are scanned.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// The object is an array of elements of `element_words` words; bit i set says that word i of
    /// each may be a pointer.
    Bitmap {
        /// Words of an element, at least 1.
        element_words: usize,
        /// One bit per word of an element, lowest first; missing bits count as clear.
        bits: &'a [u64],
    },
    /// The first `bytes` bytes are scanned conservatively, the rest is not.
    Prefix {
        /// Length of the scanned part.
        bytes: usize,
    },
    /// No word is a pointer; such objects are not zeroed.
    Leaf,
    /// A function does it, on a marker thread or with the world stopped: it reads and reports, and
    /// neither allocates nor locks.
    Function {
        /// The function.
        function: RawTraceFunction,
        /// Handed to it.
        environment: usize,
        /// Whether it calls the program.
        calls: Calls,
    },
}

/// What a program tells layouts of one shape apart by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Its own mark; 0 without.
    pub number: u32,
    /// What reports call the objects; empty without.
    pub name: &'static str,
}

/// Why a layout was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// An element of no words.
    Empty,
    /// More than 2²⁰ words in an element, or a bitmap that is longer than it.
    TooLong,
    /// The program has 65,536 layouts already.
    TooMany,
    /// The system gave no memory.
    NoMemory,
}

const MOST_LAYOUTS: usize = 1 << 16;
const MOST_WORDS: usize = 1 << 20;
const POOL_BYTES: usize = 64 << 10;

const BITMAP: u32 = 0;
const PREFIX: u32 = 1;
const FUNCTION: u32 = 2;
const LEAF: u32 = 3;

#[repr(C)]
struct Record {
    tag: u32,
    label: Label,
    /// Bitmap: words of an element. Function: its [`Calls`], as a number.
    detail: u32,
    /// Bitmap: address of its words. Prefix: bytes. Function: its address.
    first: usize,
    /// Function: environment. Bitmap: the first of its words.
    second: usize,
    /// The space of this layout and each class, [`NONE`] until one exists; written under the heap's
    /// lock.
    spaces: [AtomicU32; CLASSES],
}

struct Interning {
    count: usize,
    /// Open addressing by hash; 0 empty, else number + 1. A power of two long.
    table: MetaVec<u32>,
    pool: usize,
    pool_left: usize,
}

/// All layouts.
pub struct Layouts {
    records: AtomicUsize,
    /// Whether there is one with a function; set under the lock, never cleared.
    functions: AtomicBool,
    /// Whether there are objects whose function calls the program; never cleared.
    calls: AtomicBool,
    /// [`Self::has_local_functions`]; never cleared.
    local: AtomicBool,
    interning: Lock<Interning>,
}

impl Layouts {
    /// None yet; maps nothing.
    pub const fn new() -> Self {
        let interning = Interning { count: 0, table: MetaVec::new(), pool: 0, pool_left: 0 };
        Self {
            records: AtomicUsize::new(0),
            functions: AtomicBool::new(false),
            calls: AtomicBool::new(false),
            local: AtomicBool::new(false),
            interning: Lock::new(Rank::Layouts, interning),
        }
    }

    /// The number of a shape: the same for the same shape, always.
    #[cfg(test)]
    pub fn intern(&self, shape: Shape<'_>) -> Result<LayoutId, LayoutError> {
        self.intern_labelled(shape, Label::default())
    }

    /// The number of a shape under a label: the program's own mark on objects that are scanned
    /// alike. It costs nothing per object, for it is the layout that has it.
    pub fn intern_labelled(&self, shape: Shape<'_>, label: Label) -> Result<LayoutId, LayoutError> {
        if let Shape::Bitmap { element_words, bits } = shape {
            if element_words == 0 {
                return Err(LayoutError::Empty);
            }
            if element_words > MOST_WORDS || bits.len() > element_words.div_ceil(64) {
                return Err(LayoutError::TooLong);
            }
        }
        let mut interning = self.interning.lock();
        if let Shape::Function { calls, .. } = shape {
            self.functions.store(true, Relaxed);
            self.calls.fetch_or(calls != Calls::NotYet, Relaxed);
        }
        if self.records.load(Relaxed) == 0 {
            let records = map::allocate(MOST_LAYOUTS * size_of::<Record>())
                .map_err(|_| LayoutError::NoMemory)?;
            self.records.store(records.0, Release);
        }
        if (interning.count + 1) * 2 > interning.table.len() {
            self.rehash(&mut interning)?;
        }
        let mask = interning.table.len() - 1;
        let mut place = hash(&shape, label) & mask;
        while interning.table[place] != 0 {
            let id = LayoutId(interning.table[place] - 1);
            if self.label(id) == label && same(&self.shape(id), &shape) {
                return Ok(id);
            }
            place = (place + 1) & mask;
        }
        if interning.count == MOST_LAYOUTS {
            return Err(LayoutError::TooMany);
        }
        let id = LayoutId(interning.count as u32);
        let record = Self::record_for(&mut interning, shape, label)?;
        // SAFETY: the record's place is mapped and nobody knows its number yet.
        unsafe { (self.records.load(Relaxed) as *mut Record).add(id.0 as usize).write(record) };
        interning.table[place] = id.0 + 1;
        interning.count += 1;
        Ok(id)
    }

    fn record_for(
        interning: &mut Interning,
        shape: Shape<'_>,
        label: Label,
    ) -> Result<Record, LayoutError> {
        let (tag, detail, first, second) = match shape {
            Shape::Bitmap { element_words, bits } => {
                let first = bits.first().map_or(0, |word| *word as usize);
                (BITMAP, element_words as u32, Self::keep(interning, element_words, bits)?, first)
            }
            Shape::Prefix { bytes } => (PREFIX, 0, bytes, 0),
            Shape::Leaf => (LEAF, 0, 0, 0),
            Shape::Function { function, environment, calls } => {
                (FUNCTION, calls as u32, function as usize, environment)
            }
        };
        Ok(Record {
            tag,
            label,
            detail,
            first,
            second,
            spaces: [const { AtomicU32::new(NONE) }; CLASSES],
        })
    }

    /// Copies a bitmap to memory that stays.
    fn keep(
        interning: &mut Interning,
        element_words: usize,
        bits: &[u64],
    ) -> Result<usize, LayoutError> {
        let bytes = element_words.div_ceil(64) * 8;
        if bytes > interning.pool_left {
            let fresh = bytes.max(POOL_BYTES).next_multiple_of(PAGE_BYTES);
            interning.pool = map::allocate(fresh).map_err(|_| LayoutError::NoMemory)?.0;
            interning.pool_left = fresh;
        }
        let kept = interning.pool;
        interning.pool += bytes;
        interning.pool_left -= bytes;
        // SAFETY: the pool has `bytes` unused, zeroed bytes at `kept`, and `bits` is no longer than
        // that.
        unsafe { core::ptr::copy_nonoverlapping(bits.as_ptr(), kept as *mut u64, bits.len()) };
        Ok(kept)
    }

    fn rehash(&self, interning: &mut Interning) -> Result<(), LayoutError> {
        let mut table = MetaVec::new();
        let length = (interning.table.len() * 2).max(64);
        table.try_resize(length, 0).map_err(|_| LayoutError::NoMemory)?;
        for id in 0..interning.count as u32 {
            let known = LayoutId(id);
            let mut place = hash(&self.shape(known), self.label(known)) & (length - 1);
            while table[place] != 0 {
                place = (place + 1) & (length - 1);
            }
            table[place] = id + 1;
        }
        interning.table = table;
        Ok(())
    }

    fn record(&self, id: LayoutId) -> &Record {
        // SAFETY: a number that was given out has a record, which never changes but for atomics.
        unsafe { &*(self.records.load(Acquire) as *const Record).add(id.0 as usize) }
    }

    /// What a layout says.
    #[inline]
    pub fn shape(&self, id: LayoutId) -> Shape<'_> {
        let record = self.record(id);
        match record.tag {
            BITMAP => {
                let element_words = record.detail as usize;
                // SAFETY: `keep` put so many words there, for ever.
                let bits = unsafe {
                    core::slice::from_raw_parts(
                        record.first as *const u64,
                        element_words.div_ceil(64),
                    )
                };
                Shape::Bitmap { element_words, bits }
            }
            PREFIX => Shape::Prefix { bytes: record.first },
            LEAF => Shape::Leaf,
            _ => Shape::Function {
                // SAFETY: stored from such a function.
                function: unsafe { function_at::<RawTraceFunction>(record.first) },
                environment: record.second,
                calls: Calls::ALL[record.detail as usize],
            },
        }
    }

    /// Which words of an object are pointers, a bit for each, if it has at most 64 and not two
    /// whole elements: then a part of a second one counts too.
    #[inline(always)]
    pub fn pointers_of_few(&self, id: LayoutId, bytes: usize) -> Option<u64> {
        let record = self.record(id);
        let (words, room) = (record.detail as usize, bytes / WORD_BYTES);
        if record.tag != BITMAP || room > 64 || room >= 2 * words {
            return None;
        }
        let first = record.second as u64 & u64::MAX.unbounded_shr(64 - words.min(64) as u32);
        let both = first | first.unbounded_shl(words as u32);
        Some(both & u64::MAX.unbounded_shr(64 - room as u32))
    }

    /// The label that a layout was made under.
    #[inline]
    pub fn label(&self, id: LayoutId) -> Label {
        self.record(id).label
    }

    /// How a block of a layout is scanned: as the layout says, unless that is all of it or nothing.
    pub fn scan(&self, id: LayoutId) -> Scan {
        match self.shape(id) {
            Shape::Leaf => Scan::Leaf,
            Shape::Prefix { bytes: usize::MAX } => Scan::Conservative,
            _ => Scan::Typed,
        }
    }

    /// Where the space of a layout and class is remembered.
    #[inline]
    pub fn space_slot(&self, id: LayoutId, class: usize) -> &AtomicU32 {
        &self.record(id).spaces[class]
    }

    /// Whether a layout has a function, which reads objects as they are now.
    pub fn has_functions(&self) -> bool {
        self.functions.load(Relaxed)
    }

    /// Whether there may be objects for which the program is called.
    pub fn has_calls(&self) -> bool {
        self.calls.load(Relaxed)
    }

    /// From now on there are.
    #[inline]
    pub fn note_calls(&self) {
        if !self.has_calls() {
            self.calls.store(true, Relaxed);
        }
    }

    /// Whether the program has said that its functions are local: what they name are words of their
    /// own object, so that a call is worth what a scan of it is, until the object is written.
    pub fn has_local_functions(&self) -> bool {
        self.local.load(Relaxed)
    }

    /// It says so now.
    pub fn note_local_functions(&self) {
        self.local.store(true, Relaxed);
    }

    /// Whether the program may be called for objects of a layout.
    pub fn may_call(&self, id: LayoutId) -> bool {
        match self.shape(id) {
            Shape::Function { calls: Calls::NotYet, .. } => self.has_calls(),
            Shape::Function { .. } => true,
            _ => false,
        }
    }

    /// How many layouts there are.
    pub fn count(&self) -> usize {
        self.interning.lock().count
    }

    /// The lock, for who holds it over a `fork`.
    pub fn lock_for_fork(&self) -> &dyn ForkLock {
        &self.interning
    }
}

/// A bitmap's words with the missing ones as zeros.
fn padded<'a>(element_words: usize, bits: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
    bits.iter().copied().chain(core::iter::repeat(0)).take(element_words.div_ceil(64))
}

fn same(one: &Shape<'_>, other: &Shape<'_>) -> bool {
    match (*one, *other) {
        (
            Shape::Bitmap { element_words: a, bits: x },
            Shape::Bitmap { element_words: b, bits: y },
        ) => a == b && padded(a, x).eq(padded(b, y)),
        (Shape::Prefix { bytes: a }, Shape::Prefix { bytes: b }) => a == b,
        (Shape::Leaf, Shape::Leaf) => true,
        (
            Shape::Function { function: f, environment: a, calls: c },
            Shape::Function { function: g, environment: b, calls: d },
        ) => f as usize == g as usize && a == b && c == d,
        _ => false,
    }
}

fn hash(shape: &Shape<'_>, label: Label) -> usize {
    let mix =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let sum = match *shape {
        Shape::Bitmap { element_words, bits } => {
            padded(element_words, bits).fold(mix(1, element_words as u64), mix)
        }
        Shape::Prefix { bytes } => mix(2, bytes as u64),
        Shape::Leaf => mix(4, 0),
        Shape::Function { function, environment, .. } => {
            mix(mix(3, function as usize as u64), environment as u64)
        }
    };
    let mixed = mix(sum, u64::from(label.number));
    label.name.bytes().map(u64::from).fold(mixed, mix) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_of_few_are_those_that_scanning_finds() {
        let layouts = Layouts::new();
        for words in [1_usize, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 100] {
            let bits = [0xb5ad_4ece_da1c_e2a9_u64, 0xa5a5];
            let bits = &bits[..words.div_ceil(64)];
            let id = layouts.intern(Shape::Bitmap { element_words: words, bits }).unwrap();
            for room in 0..130 {
                let named = |word: usize| bits[word % words / 64] >> (word % words % 64) & 1 != 0;
                let wanted = (0..room.min(64)).filter(|&word| named(word));
                let wanted = wanted.fold(0, |all, word| all | 1_u64 << word);
                let few = room <= 64 && room < 2 * words;
                assert_eq!(layouts.pointers_of_few(id, room * 8), few.then_some(wanted));
            }
        }
        assert_eq!(layouts.pointers_of_few(layouts.intern(Shape::Leaf).unwrap(), 8), None);
    }

    #[test]
    fn equal_shapes_have_one_number() {
        let layouts = Layouts::new();
        let pair = Shape::Bitmap { element_words: 2, bits: &[0b11] };
        let first = layouts.intern(pair).unwrap();
        let other = layouts.intern(Shape::Bitmap { element_words: 2, bits: &[0b01] }).unwrap();
        assert_ne!(first, other);
        assert_eq!(layouts.intern(pair).unwrap(), first);
        let padded = layouts.intern(Shape::Bitmap { element_words: 100, bits: &[1] }).unwrap();
        assert_eq!(
            layouts.intern(Shape::Bitmap { element_words: 100, bits: &[1, 0] }).unwrap(),
            padded
        );
        assert!(matches!(
            layouts.shape(padded),
            Shape::Bitmap { element_words: 100, bits: [1, 0] }
        ));
    }

    #[test]
    fn labels_tell_layouts_of_one_shape_apart() {
        let layouts = Layouts::new();
        let labels = [(0, ""), (1, ""), (1, "one"), (0, "one"), (0, "two")];
        let labels = labels.map(|(number, name)| Label { number, name });
        let all = labels.map(|label| layouts.intern_labelled(Shape::Leaf, label).unwrap());
        assert_eq!(all.map(|layout| layout.0), [0, 1, 2, 3, 4]);
        let again = labels.map(|label| layouts.intern_labelled(Shape::Leaf, label).unwrap());
        assert_eq!(again, all);
        assert_eq!(all.map(|layout| layouts.label(layout)), labels);
        let whole = layouts.intern(Shape::Prefix { bytes: usize::MAX }).unwrap();
        let part = layouts.intern(Shape::Prefix { bytes: 8 }).unwrap();
        assert_eq!(
            [all[1], whole, part].map(|layout| layouts.scan(layout)),
            [Scan::Leaf, Scan::Conservative, Scan::Typed]
        );
    }

    #[test]
    fn thousands_of_layouts_stay_apart() {
        let layouts = Layouts::new();
        let ids: Vec<_> =
            (0..5000).map(|bytes| layouts.intern(Shape::Prefix { bytes }).unwrap()).collect();
        for (bytes, id) in ids.iter().enumerate() {
            assert_eq!(layouts.intern(Shape::Prefix { bytes }).unwrap(), *id);
            assert!(matches!(layouts.shape(*id), Shape::Prefix { bytes: kept } if kept == bytes));
        }
        assert_eq!(layouts.count(), 5000);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let layouts = Layouts::new();
        let refused = |element_words, bits: &[u64]| {
            layouts.intern(Shape::Bitmap { element_words, bits }).unwrap_err()
        };
        assert_eq!(refused(0, &[]), LayoutError::Empty);
        assert_eq!(refused(1, &[1, 1]), LayoutError::TooLong);
        assert_eq!(refused(usize::MAX, &[1]), LayoutError::TooLong);
    }
}
