//! Kinds of objects, the program's own included, and allocation by kind.
//!
//! Invariant: kinds 0 to 3 are pointer-free, normal, uncollectable and uncollectable pointer-free,
//! as in Boehm's collector; others are appended and never change. Read without a lock, from any
//! thread and in trace functions.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use crate::alloc::{GC_malloc_atomic_uncollectable, GC_malloc_uncollectable, out_of_memory};
use crate::core_api::{self as api, Calls, Kind, LayoutError, LayoutId, Shape, Tracer};
use crate::failure::die;
use crate::kinds::descriptors::{self, TAG_LENGTH, TAGS};
use crate::kinds::{cleared, disclaim};
use crate::lock::with_alloc_lock;

pub const PTRFREE: c_int = 0;
pub const NORMAL: c_int = 1;
pub const UNCOLLECTABLE: c_int = 2;
pub const UNCOLLECTABLE_PTRFREE: c_int = 3;
/// What objects of `gc_typed.h` count as: they have a layout each, not a kind.
pub const TYPED: c_int = 4;
const FIRST_OWN: usize = 5;
const MAX_KINDS: usize = 64;
/// A prefix that covers every object.
const ALL_BYTES: usize = 1 << 46;

/// How objects of an own kind are allocated: `LayoutId + 1`, or this.
const WAY_CONSERVATIVE: u32 = u32::MAX;

struct OwnKind {
    /// With the object's size, or more, where that is added to a length.
    descriptor: AtomicUsize,
    way: AtomicU32,
    clears: AtomicBool,
}

impl OwnKind {
    const fn none() -> Self {
        Self {
            descriptor: AtomicUsize::new(0),
            way: AtomicU32::new(0),
            clears: AtomicBool::new(false),
        }
    }

    /// Whether its objects keep nothing alive.
    fn is_pointer_free(&self) -> bool {
        self.descriptor.load(Relaxed) == 0
    }

    /// An object of it.
    fn allocate(&self, bytes: usize) -> *mut c_void {
        match self.way.load(Relaxed) {
            WAY_CONSERVATIVE => api::allocate(bytes, Kind::Conservative).cast(),
            way if self.is_pointer_free() && self.clears.load(Relaxed) => {
                cleared::allocate(bytes, LayoutId(way - 1))
            }
            way => api::allocate_typed(bytes, LayoutId(way - 1)).cast(),
        }
    }

    /// Whether an object keeps alive what its first word points to, whatever else it holds.
    fn scans_first_word(&self) -> bool {
        !self.is_pointer_free() && self.descriptor.load(Relaxed) & TAGS == TAG_LENGTH
    }
}

static KINDS: [OwnKind; MAX_KINDS] = [const { OwnKind::none() }; MAX_KINDS];
static COUNT: AtomicUsize = AtomicUsize::new(FIRST_OWN);

/// Sizes of small objects in libgc, in units of 16 bytes, and none.
const FREE_LISTS: usize = 129;

/// What `GC_new_kind` takes as the free lists of a kind, one for each size. There are none here,
/// and a program that keeps its own in them finds them empty.
#[unsafe(no_mangle)]
pub extern "C" fn GC_new_free_list() -> *mut *mut c_void {
    api::allocate(FREE_LISTS * size_of::<usize>(), Kind::Uncollectable).cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_new_free_list_inner() -> *mut *mut c_void {
    GC_new_free_list()
}

/// A kind whose objects are scanned by a descriptor, to which the object's size is added if
/// `add_size` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn GC_new_kind(
    _free_lists: *mut *mut c_void,
    descriptor: usize,
    add_size: c_int,
    clear: c_int,
) -> u32 {
    make(descriptor, add_size != 0, clear != 0, descriptors::calls(descriptor))
}

/// The same, told whether scanning calls the program.
pub fn make(descriptor: usize, adds_size: bool, clears: bool, calls: Calls) -> u32 {
    // One kind is made at a time.
    with_alloc_lock(|| make_next(descriptor, adds_size, clears, calls))
}

fn make_next(descriptor: usize, adds_size: bool, clears: bool, calls: Calls) -> u32 {
    let index = COUNT.load(Relaxed);
    if index >= MAX_KINDS {
        die(format_args!("GC_new_kind: more than {} kinds", MAX_KINDS - FIRST_OWN));
    }
    // Longer than any object, so all of it; and each kind's own length, so that the layout tells
    // the kind. A label does that for kinds without pointers.
    let all = ALL_BYTES + index * 8;
    let is_length = descriptor & TAGS == TAG_LENGTH;
    let descriptor = if is_length && adds_size { descriptor.wrapping_add(all) } else { descriptor };
    let way = way_of(match descriptor {
        0 if clears => cleared::layout(index as u32),
        0 => api::layouts::labelled(Shape::Leaf, index as u32),
        _ if is_length && adds_size => api::layout(Shape::Prefix { bytes: all }),
        _ => api::layout(Shape::Function { function: trace, environment: index, calls }),
    });
    if way == WAY_CONSERVATIVE && calls != Calls::NotYet {
        // A procedure may know of more than its object holds: Guile's knows of stacks elsewhere.
        die(format_args!(
            "GC_new_kind: no memory, or no room, for one more layout; objects that a mark \
             procedure scans cannot do without"
        ));
    }
    KINDS[index].descriptor.store(descriptor, Relaxed);
    KINDS[index].way.store(way, Relaxed);
    KINDS[index].clears.store(clears, Relaxed);
    COUNT.store(index + 1, Release);
    index as u32
}

/// The way of a layout. Where there can be no more layouts more than asked is scanned, which is
/// right for all that no procedure of the program scans.
fn way_of(layout: Result<LayoutId, LayoutError>) -> u32 {
    match layout {
        Ok(LayoutId(id)) if id < WAY_CONSERVATIVE - 1 => id + 1,
        _ => WAY_CONSERVATIVE,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_new_kind_inner(
    free_lists: *mut *mut c_void,
    descriptor: usize,
    add_size: c_int,
    clear: c_int,
) -> u32 {
    GC_new_kind(free_lists, descriptor, add_size, clear)
}

/// Traces an object of an own kind.
unsafe extern "C" fn trace(
    object: *mut c_void,
    bytes: usize,
    kind: usize,
    tracer: &mut Tracer<'_>,
) {
    let descriptor = KINDS[kind].descriptor.load(Relaxed);
    // SAFETY: the core traces objects of this kind only with it, and passes their size.
    unsafe { descriptors::scan(object as usize, bytes, descriptor, tracer) };
}

/// The own kind of this number.
fn own(kind: c_int) -> Option<&'static OwnKind> {
    let index = usize::try_from(kind).ok().filter(|&index| index >= FIRST_OWN)?;
    (index < COUNT.load(Acquire)).then(|| &KINDS[index])
}

/// Whether there is such a kind.
pub fn exists(kind: c_int) -> bool {
    (PTRFREE..=TYPED).contains(&kind) || own(kind).is_some()
}

/// Allocates without asking for the kind's disclaim procedure.
fn allocate_plain(bytes: usize, kind: c_int) -> *mut c_void {
    match kind {
        PTRFREE => api::allocate(bytes, Kind::Leaf).cast(),
        // Without a descriptor typed objects are conservative.
        NORMAL | TYPED => api::allocate(bytes, Kind::Conservative).cast(),
        UNCOLLECTABLE => GC_malloc_uncollectable(bytes),
        UNCOLLECTABLE_PTRFREE => GC_malloc_atomic_uncollectable(bytes),
        _ => match own(kind) {
            Some(own) => own.allocate(bytes),
            None => die(format_args!(
                "GC_generic_malloc: there is no kind {kind}; make it with GC_new_kind"
            )),
        },
    }
}

/// An object of a kind, GC_I_PTRFREE and GC_I_NORMAL included.
#[unsafe(no_mangle)]
pub extern "C" fn GC_generic_malloc(bytes: usize, kind: c_int) -> *mut c_void {
    disclaim::watch_object(allocate_plain(bytes, kind), kind)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_generic_malloc_ignore_off_page(bytes: usize, kind: c_int) -> *mut c_void {
    GC_generic_malloc(bytes, kind)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_kind(bytes: usize, kind: c_int) -> *mut c_void {
    GC_generic_malloc(bytes, kind)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_kind_global(bytes: usize, kind: c_int) -> *mut c_void {
    GC_generic_malloc(bytes, kind)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_generic_or_special_malloc(bytes: usize, kind: c_int) -> *mut c_void {
    GC_generic_malloc(bytes, kind)
}

/// An object that lives until it is freed. One of an own kind is scanned whole, a superset of what
/// its descriptor says.
#[unsafe(no_mangle)]
pub extern "C" fn GC_generic_malloc_uncollectable(bytes: usize, kind: c_int) -> *mut c_void {
    let is_leaf = match own(kind) {
        Some(own) => own.is_pointer_free() && !own.clears.load(Relaxed),
        None => matches!(kind, PTRFREE | UNCOLLECTABLE_PTRFREE),
    };
    if is_leaf { GC_malloc_atomic_uncollectable(bytes) } else { GC_malloc_uncollectable(bytes) }
}

/// Bytes of objects that one call of `GC_malloc_many` gives: a page, as in Boehm's collector.
const MANY_BYTES: usize = 4096;

/// Objects of one size, linked through their first words, zero but for that if they are scanned.
/// Without a byte behind their end: gc_inline.h has the caller ask for it.
///
/// A list has more than one object where each keeps the next alive. The others would be lost by a
/// collection while the list waits for its owner to use it, as they are in libgc.
#[unsafe(no_mangle)]
pub extern "C" fn GC_generic_malloc_many(bytes: usize, kind: c_int, result: *mut *mut c_void) {
    link_many(api::without_past_end(bytes.max(size_of::<usize>())), kind, result);
}

fn link_many(bytes: usize, kind: c_int, result: *mut *mut c_void) {
    let links_are_scanned = match kind {
        NORMAL | UNCOLLECTABLE | TYPED => true,
        _ => own(kind).is_some_and(OwnKind::scans_first_word),
    };
    let count = if links_are_scanned { (MANY_BYTES / bytes).max(1) } else { 1 };
    // The kinds that language runtimes take by the million have the core's fast path in a loop of
    // their own.
    match kind {
        NORMAL if !disclaim::in_use() => {
            link(count, result, || api::allocate(bytes, Kind::Conservative).cast());
        }
        PTRFREE if !disclaim::in_use() => {
            link(count, result, || api::allocate(bytes, Kind::Leaf).cast());
        }
        _ => link(count, result, || GC_generic_malloc(bytes, kind).cast()),
    }
}

/// A list of objects of which each keeps the next alive; the first is on our stack.
#[inline(always)]
fn link(count: usize, result: *mut *mut c_void, allocate: impl Fn() -> *mut *mut u8) {
    let first = allocate();
    let mut last = first;
    for _ in 1..count {
        if last.is_null() {
            break;
        }
        let object = allocate();
        // SAFETY: each object has a word, and nobody else knows it yet.
        unsafe { last.write(object.cast()) };
        last = object;
    }
    if !last.is_null() {
        // SAFETY: as above; pointer-free objects come with any contents.
        unsafe { last.write(null_mut()) };
    }
    // SAFETY: the caller's variable, says gc_inline.h.
    unsafe { result.write_volatile(first.cast()) };
    // The first object stays in this frame up to here: another thread may have collected meanwhile.
    core::hint::black_box(first);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_malloc_many(bytes: usize) -> *mut c_void {
    let mut list = null_mut();
    link_many(bytes.max(size_of::<usize>()), NORMAL, &mut list);
    list
}

/// `LayoutId + 1` of pointer-free objects that are zeroed; 0 until there is one.
static ZEROED_LEAF: AtomicU32 = AtomicU32::new(0);

/// A pointer-free object that is zeroed, also before it is handed out: for who looks for marks of
/// its own in memory.
pub fn allocate_debug_leaf(bytes: usize) -> *mut c_void {
    const LABEL: u32 = 0x4445_4247;
    if ZEROED_LEAF.load(Acquire) == 0
        && let Ok(LayoutId(id)) = api::layouts::labelled(Shape::Prefix { bytes: 0 }, LABEL)
    {
        ZEROED_LEAF.store(id + 1, Release);
    }
    match ZEROED_LEAF.load(Acquire) {
        0 => no_memory(bytes),
        way => api::allocate_typed(bytes, LayoutId(way - 1)).cast(),
    }
}

/// Kind and size of an object, given its start.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_kind_and_size(object: *const c_void, bytes: *mut usize) -> c_int {
    let Some(info) = api::object_at(object as usize) else {
        die(format_args!("GC_get_kind_and_size({object:p}): no object of this collector"))
    };
    if !bytes.is_null() {
        // SAFETY: the caller's variable, says gc_mark.h.
        unsafe { *bytes = info.bytes };
    }
    match info.layout {
        Some(LayoutId(id)) if id + 1 == ZEROED_LEAF.load(Acquire) => PTRFREE,
        Some(LayoutId(id)) => (FIRST_OWN..COUNT.load(Acquire))
            .find(|&index| KINDS[index].way.load(Relaxed) == id + 1)
            .map_or(TYPED, |index| index as c_int),
        None => match info.kind {
            Kind::Leaf => PTRFREE,
            Kind::Conservative => NORMAL,
            Kind::Uncollectable => UNCOLLECTABLE,
            Kind::UncollectableLeaf => UNCOLLECTABLE_PTRFREE,
        },
    }
}

/// Bytes that a request for `bytes` takes; all ones beyond the sizes of small objects.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_size_map_at(bytes: c_int) -> usize {
    /// Largest size in the map of Boehm's collector.
    const LARGEST: c_int = 2048;
    if (0..=LARGEST).contains(&bytes) { api::usable_bytes(bytes as usize) } else { usize::MAX }
}

/// For callers that have already asked for the memory: what the out-of-memory function says.
pub fn no_memory(bytes: usize) -> *mut c_void {
    // SAFETY: as the core would call it.
    unsafe { out_of_memory(bytes) }
}
