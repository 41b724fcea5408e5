//! Allocation as the program sees it: the bump, and behind it refilling, collecting, and what to do
//! when there is no memory.
//!
//! Invariant: gives null only after a full cycle freed too little and the out-of-memory callback
//! gave nothing. Called by mutators; the first call starts the collector and attaches the thread.
//!
//! # Safety
//!
//! Copies an object to a cell that this thread was just given, within the bytes of both. A stored
//! callback has the type that it was stored with.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use super::buffers::{class_for, from_buffer, from_typed_buffer, with_past_end};
use super::{mutator, recorded, sampled, warning};
use crate::addr::Address;
use crate::alloc::free::FreeError;
use crate::alloc::{free, large, refill, resize};
use crate::cycle::driver::collect::{self, Reason};
use crate::cycle::driver::wake;
use crate::cycle::{limits, schedule};
use crate::heap::blocks::header::NO_LAYOUT;
use crate::heap::classes::{LARGEST_SMALL, TABLE};
use crate::heap::kind::{Kind, Scan};
use crate::heap::layout::LayoutId;
use crate::heap::lookup::Cell;
use crate::heap::spaces::SpaceId;
use crate::heap::{HEAP, Refused};
use crate::observe::recorder;
use crate::refs::links::link;
use crate::stats::sampler;
use crate::sync::function::AtomicFunction;
use crate::sys::{print, thread};
use crate::world::mutator::Mutator;
use crate::world::{current, registry};

/// Called with the bytes asked for when there is no memory; what it gives is given to who asked.
pub type OutOfMemoryCallback = unsafe extern "C" fn(usize) -> *mut c_void;
static OUT_OF_MEMORY: AtomicFunction<OutOfMemoryCallback> = AtomicFunction::none();

/// Cycles that are run for an allocation before it is refused, after the first.
static RETRIES: AtomicUsize = AtomicUsize::new(0);

/// Sets how many more cycles than one are run before an allocation is refused: finalizers that ran
/// after one may have let go of memory.
pub fn set_retries(retries: usize) {
    RETRIES.store(retries, Relaxed);
}

/// Called with the heap's bytes after it grew.
pub type HeapResizeCallback = unsafe extern "C" fn(usize);
static HEAP_RESIZE: AtomicFunction<HeapResizeCallback> = AtomicFunction::none();
/// What the resize callback was told last.
static TOLD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Sets the callback for a heap that grew.
pub fn set_heap_resize(callback: Option<HeapResizeCallback>) {
    HEAP_RESIZE.set(callback);
}

/// Called with the bytes asked for when the system refused memory for them.
pub type RefusalCallback = unsafe extern "C" fn(usize);
static REFUSAL: AtomicFunction<RefusalCallback> = AtomicFunction::none();

/// Sets the callback for memory that the system refused.
pub fn set_refusal(callback: Option<RefusalCallback>) {
    REFUSAL.set(callback);
}

/// Tells the program that there is no memory for `bytes` bytes, if it was the system that refused.
pub fn tell_refused(bytes: usize, refused: Refused) {
    if refused == Refused::System
        && let Some(callback) = REFUSAL.get()
    {
        // SAFETY: the program's, for this.
        unsafe { callback(bytes) };
    }
}

/// Tells the program that the heap grew, if it did since it was told last.
pub fn tell_heap_size() {
    let bytes = HEAP.committed();
    if let Some(callback) = HEAP_RESIZE.get()
        && TOLD_BYTES.swap(bytes, Relaxed) != bytes
    {
        // SAFETY: the program's, for this.
        unsafe { callback(bytes) };
    }
}

/// Sets the out-of-memory callback.
pub fn set_out_of_memory(callback: Option<OutOfMemoryCallback>) {
    OUT_OF_MEMORY.set(callback);
}

/// What is to be allocated.
#[derive(Clone, Copy)]
struct Request {
    /// Bytes asked for, the past-the-end byte included.
    bytes: usize,
    kind: Kind,
    layout: u32,
}

/// An object of `bytes` bytes; null when there is no memory.
#[inline(always)]
pub fn allocate(bytes: usize, kind: Kind) -> *mut u8 {
    let object = at_once(bytes, kind);
    if object.is_null() { without_cell(bytes, kind) } else { object }
}

/// As [`allocate`], but no cycle is begun, helped or waited for, and nothing of the program's is
/// called: for callers that may hold locks which a host's stop or the program's callbacks take, as
/// druntime's and the loader's when threads begin.
pub fn allocate_beside_cycles(bytes: usize, kind: Kind) -> *mut u8 {
    let object = at_once(bytes, kind);
    if !object.is_null() {
        return object;
    }
    if !recorder::is_off() {
        recorded::count_alone(bytes, kind);
    }
    let Some(wanted) = with_past_end(bytes) else { return null_mut() };
    let request = Request { bytes: wanted, kind, layout: NO_LAYOUT };
    attempt(mutator(), request).unwrap_or(null_mut())
}

/// An object from a buffer that the thread has; null if it has none.
#[inline(always)]
pub fn at_once(bytes: usize, kind: Kind) -> *mut u8 {
    let cell = match current::with_buffers() {
        Some(mutator) => from_buffer(mutator, bytes, kind),
        None => recorded::at_once(bytes, kind),
    };
    cell as *mut u8
}

/// An object of a layout; null when there is no memory.
#[inline]
pub fn allocate_typed(bytes: usize, layout: LayoutId) -> *mut u8 {
    let object = typed_at_once(bytes, layout);
    if object.is_null() { typed_without_cell(bytes, layout) } else { object }
}

/// As [`at_once`], for an object of a layout.
#[inline]
pub fn typed_at_once(bytes: usize, layout: LayoutId) -> *mut u8 {
    let cell = match current::with_buffers() {
        Some(mutator) => from_typed_buffer(mutator, bytes, layout),
        None => recorded::typed_at_once(bytes, layout),
    };
    cell as *mut u8
}

/// An object at a multiple of `alignment`, a power of two up to a page; null otherwise.
pub fn allocate_aligned(bytes: usize, alignment: usize, kind: Kind) -> *mut u8 {
    if !alignment.is_power_of_two() || alignment > crate::addr::PAGE_BYTES {
        return null_mut();
    }
    // A multiple of the alignment gets cells that are one, in blocks that begin at one. The
    // past-the-end byte would break that: round it in.
    match with_past_end(bytes.max(1)).and_then(|bytes| crate::addr::round_up(bytes, alignment)) {
        Some(rounded) => {
            let rounded = rounded - HEAP.state.past_end.load(Relaxed);
            if recorder::is_on() { counted(bytes, rounded, kind) } else { allocate(rounded, kind) }
        }
        None => out_of_memory(bytes),
    }
}

/// An object for which the thread has no cell at hand. One way out of the fast path, whether
/// requests are recorded or not, so that it is the same code either way.
#[cold]
#[inline(never)]
pub fn without_cell(bytes: usize, kind: Kind) -> *mut u8 {
    if recorder::is_off() { slow(bytes, kind, NO_LAYOUT) } else { counted(bytes, bytes, kind) }
}

/// The same where requests are recorded. It takes as much room as one of `reserved`.
fn counted(bytes: usize, reserved: usize, kind: Kind) -> *mut u8 {
    match recorded::count(bytes, reserved, kind) {
        0 => slow(reserved, kind, NO_LAYOUT),
        cell => cell as *mut u8,
    }
}

/// The same for an object of a layout.
#[cold]
#[inline(never)]
pub fn typed_without_cell(bytes: usize, layout: LayoutId) -> *mut u8 {
    if recorder::is_off() {
        slow(bytes, Kind::Conservative, layout.0)
    } else {
        match recorded::count_typed(bytes, layout) {
            0 => slow(bytes, Kind::Conservative, layout.0),
            cell => cell as *mut u8,
        }
    }
}

/// What the slow path clears of the stack below it each time. Larger: fewer dead objects kept by
/// stale words; smaller: quicker refills.
const CLEARED_BYTES: usize = 1 << 10;

/// The thread's stack is scanned from here on, should a cycle run: what the collector's own frames
/// hold is none of the program's.
#[cold]
#[inline(never)]
fn slow(bytes: usize, kind: Kind, layout: u32) -> *mut u8 {
    let object =
        thread::with_registers_spilled(|position| slow_from(position, bytes, kind, layout));
    thread::clear_stack_below::<CLEARED_BYTES>();
    object
}

fn slow_from(position: usize, bytes: usize, kind: Kind, layout: u32) -> *mut u8 {
    let mutator = mutator();
    if mutator.is_critical() || registry::is_mine() {
        print::reentered();
    }
    let Some(wanted) = with_past_end(bytes) else { return out_of_memory(bytes) };
    let request = Request { bytes: wanted, kind, layout };
    if wanted > LARGEST_SMALL && HEAP.state.allocated_since_cycle.load(Relaxed) > 0 {
        schedule::note_coming(wanted);
    }
    if !mutator.allocates.load(Relaxed) {
        mutator.allocates.store(true, Relaxed);
    }
    limits::look_if_grown(wanted);
    if limits::is_refused() {
        return out_of_memory(bytes);
    }
    collect::poll(position);
    let mut attempted = attempt(mutator, request);
    for _ in 0..=RETRIES.load(Relaxed) {
        if attempted.is_ok() || !collect::collect_from(position, Reason::NoMemory) {
            break;
        }
        attempted = attempt(mutator, request);
    }
    if attempted == Err(Refused::Limit) && limits::look_before_refusal() {
        attempted = attempt(mutator, request);
    }
    if mutator.local.sampler.take_due()
        && let Ok(object) = attempted
    {
        let layout = (layout != NO_LAYOUT).then_some(LayoutId(layout));
        sampled::note(mutator, object, bytes, layout);
    }
    tell_heap_size();
    attempted.unwrap_or_else(|refused| {
        tell_refused(bytes, refused);
        out_of_memory(bytes)
    })
}

fn attempt(mutator: &Mutator, request: Request) -> Result<*mut u8, Refused> {
    if request.bytes > LARGEST_SMALL {
        attempt_large(mutator, request)
    } else {
        attempt_small(mutator, request)
    }
}

fn attempt_small(mutator: &Mutator, request: Request) -> Result<*mut u8, Refused> {
    let class = class_for(request.bytes);
    let _critical = mutator.critical();
    let id = if request.layout == NO_LAYOUT {
        SpaceId::of(request.kind, class)
    } else {
        let mut inner = HEAP.inner();
        inner.typed_space(&HEAP, LayoutId(request.layout), class).map_err(|_| Refused::System)?
    };
    let buffer = mutator.local.buffer(id).ok_or(Refused::System)?;
    let cell_bytes = TABLE[class].cell_bytes as usize;
    loop {
        let cell = buffer.bump(cell_bytes);
        if cell != 0 {
            return Ok(cell as *mut u8);
        }
        refill::refill(&HEAP, &mutator.local, buffer, id)?;
    }
}

fn attempt_large(mutator: &Mutator, request: Request) -> Result<*mut u8, Refused> {
    let Request { kind, layout, bytes } = request;
    let scan = match layout {
        NO_LAYOUT => kind.scan(),
        layout => HEAP.layouts.scan(LayoutId(layout)),
    };
    let critical = mutator.critical();
    let unpublished = if scan == Scan::Leaf {
        let born = large::take_published(&HEAP, kind, layout, bytes)?;
        drop(critical);
        born
    } else {
        let note = &mutator.unpublished;
        let unpublished = large::take(&HEAP, note, kind, layout, bytes)?;
        drop(critical);
        // SAFETY: just taken by this thread.
        unsafe { large::zero(&unpublished) };
        let _critical = mutator.critical();
        large::publish(&HEAP, note, &unpublished);
        unpublished
    };
    let _critical = mutator.critical();
    mutator.local.count(1, unpublished.bytes as u64);
    mutator.local.report(&HEAP, unpublished.bytes);
    let mean = sampler::mean();
    if mean != 0 {
        mutator.local.sampler.pass(mean, unpublished.bytes as u64);
    }
    Ok(unpublished.start.pointer())
}

#[cold]
fn out_of_memory(bytes: usize) -> *mut u8 {
    warning::warn(
        c"no memory: NEAP_MAX_HEAP, the limit of a control group, or a limit of the \
        system may be too low; bytes asked for",
        bytes,
    );
    // SAFETY: the program's, for this.
    OUT_OF_MEMORY.get().map_or(null_mut(), |callback| unsafe { callback(bytes) }.cast())
}

/// The object that an address lies in and that the program did not free, as far as is known: what
/// is freed while marking is under way is found until it ends, unless the heap is hardened.
pub fn object_at(word: usize) -> Option<Cell<'static>> {
    let cell = HEAP.object_at(word)?;
    if HEAP.is_hardened() {
        let _unstopped = current::get().map(|mutator| mutator.critical());
        if HEAP.inner().deferred_frees.holds(cell.start) {
            return None;
        }
    }
    Some(cell)
}

fn object_from(start: *mut u8) -> Option<Cell<'static>> {
    object_at(start as usize).filter(|cell| cell.start.0 == start as usize)
}

/// Frees the object that starts at `object`; a wrong pointer changes nothing.
pub fn free(object: *mut u8) -> Result<usize, FreeError> {
    let mutator = mutator();
    if HEAP.is_hardened()
        && link::were_any()
        && let Some(cell) = object_from(object)
    {
        // Else a link of the program's would be cleared in what was filled.
        link::unregister_within(object as usize, cell.bytes());
    }
    let critical = mutator.critical();
    let freed = free::free_from(&HEAP, &mutator.local, Address(object as usize));
    drop(critical);
    if let Ok(bytes) = freed {
        // Not exchanged, as that takes longer: nobody else writes it.
        let so_far = mutator.freed_bytes.load(Relaxed);
        mutator.freed_bytes.store(so_far + bytes as u64, Relaxed);
        sampled::freed(mutator, object as usize);
        wake::freed(bytes);
    }
    freed
}

/// As realloc(3), keeping kind and layout. A pointer that is no object's start is refused with
/// null.
///
/// # Safety
/// `object` is null or nobody uses the old address afterwards.
pub unsafe fn reallocate(object: *mut u8, bytes: usize) -> *mut u8 {
    if object.is_null() {
        return allocate(bytes, Kind::Conservative);
    }
    if bytes == 0 {
        let _ = free(object);
        return null_mut();
    }
    let mutator = mutator();
    before_growth(bytes);
    let critical = mutator.critical();
    let Some(cell) = object_from(object) else { return null_mut() };
    let Some(wanted) = with_past_end(bytes) else {
        drop(critical);
        return out_of_memory(bytes);
    };
    let had = cell.bytes();
    if resize::in_place(&HEAP, &cell, wanted) {
        if recorder::is_on() {
            recorder::note_resized();
        }
        let gave_up = had.saturating_sub(cell.bytes());
        drop(critical);
        wake::freed(gave_up);
        tell_heap_size();
        return object;
    }
    let kind = Kind::from_parts(cell.header.scan(), cell.header.is_uncollectable());
    let layout = cell.header.layout();
    let had = cell.usable_bytes();
    drop(critical);
    let moved = if layout == NO_LAYOUT {
        allocate(bytes, kind)
    } else {
        allocate_typed(bytes, LayoutId(layout))
    };
    if !moved.is_null() {
        // SAFETY: both objects hold that many bytes, and the new one is fresh.
        unsafe { core::ptr::copy_nonoverlapping(object, moved, had.min(bytes)) };
        let _ = free(object);
    }
    moved
}

/// Makes the object that starts at `object` at least `bytes` long where it is; the bytes that it
/// has now, None if it cannot be, or is none.
pub fn resize_in_place(object: *mut u8, bytes: usize) -> Option<usize> {
    let wanted = with_past_end(bytes)?;
    let mutator = mutator();
    before_growth(bytes);
    let critical = mutator.critical();
    let cell = object_from(object)?;
    if !resize::grow(&HEAP, &cell, wanted) {
        return None;
    }
    let usable = HEAP.object_at(object as usize).map(|cell| cell.usable_bytes());
    drop(critical);
    tell_heap_size();
    usable
}

/// An object is to have `bytes` bytes, for which the heap may grow: no allocation looks at the
/// limits then.
fn before_growth(bytes: usize) {
    if bytes > LARGEST_SMALL {
        limits::look_if_grown(bytes);
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::cycle::driver::disabling;

    /// Else its memory would never be given back.
    #[test]
    fn a_large_object_that_is_freed_wakes_the_thread_that_sleeps_until_it_is_woken() {
        // A cycle would start the thread itself.
        disabling::disable();
        let [small, large, second] =
            [1000, 1 << 20, 1 << 20].map(|bytes| allocate(bytes, Kind::Leaf));
        wake::as_if_it_slept();
        let mut seen = wake::reasons();
        for (object, wakes) in [(small, 0), (large, 1), (second, 0)] {
            free(object).unwrap();
            assert_eq!(wake::reasons() - seen, wakes);
            seen = wake::reasons();
        }
        assert!(wake::before_last_look() && !wake::before_last_look(), "it looks twice");
        let shrunk = allocate(1 << 20, Kind::Leaf);
        wake::as_if_it_slept();
        seen = wake::reasons();
        // SAFETY: an object of the test's own.
        assert_eq!(unsafe { reallocate(shrunk, 100_000) }, shrunk);
        assert_eq!(wake::reasons() - seen, 1, "so does what one gives up");
    }
}
