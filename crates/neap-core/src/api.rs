//! The only surface that front ends use.
//!
//! Threads: every function may be called from any thread unless it says otherwise. A thread that
//! nobody attached is attached by the first call that needs it to be; the first such call of the
//! process starts the collector. Sizes are bytes. Nothing here panics.
//!
//! # Safety
//!
//! Functions that take addresses are unsafe and pass the caller's promise on; each says in its own
//! `# Safety` section what that is. Nothing is read through a pointer here.

#![allow(unsafe_code)]

pub mod embedding;
pub mod handles;
mod live_graph;
pub mod monitors;
mod prefork;
mod registered_roots;

use core::ffi::c_void;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::cycle::driver::{collect, disabling, holding};
use crate::cycle::report::callbacks;
use crate::cycle::{collector, schedule};
use crate::heap::blocks::header::NO_LAYOUT;
use crate::heap::frames::giving_back;
use crate::heap::layout::{self, RawTraceFunction};
use crate::heap::{HEAP, Refused};
use crate::runtime::{self, allocation};
use crate::sys::thread;
use crate::world::{attach, blocked as regions, current, stacks, stop_signal};

mod allocate;
pub mod layouts;
pub mod objects;
pub mod world;

pub use crate::alloc::free::FreeError;
pub use crate::cycle::driver::holding::make_all_finalizers_ready;
pub use crate::cycle::report::callbacks::{
    AfterCycle, CycleEvent, CycleGate, EventCallback, set_before_roots, set_takes_part,
};
pub use crate::cycle::report::line::FIELDS as CYCLE_FIELDS;
pub use crate::cycle::report::root_callback::RootCallback;
pub use crate::heap::calls::Calls;
pub use crate::heap::kind::Kind;
pub use crate::heap::layout::{LayoutError, LayoutId};
pub use crate::mark::tracer::Tracer;
pub use crate::options;
pub use crate::refs::disclaim;
pub use crate::refs::finalizers::finalizer::{Finalizer, Order};
pub use crate::refs::finalizers::{cleaner, finalizer, held_for_ever, queue};
pub use crate::refs::links::{link, toggle};
pub use crate::runtime::allocation::{HeapResizeCallback, OutOfMemoryCallback};
pub use crate::runtime::buffers::usable_bytes;
pub use crate::runtime::interposed::forks::{untold as untold_forks, vfork};
pub use crate::runtime::interposed::signals::{
    pthread_sigmask, sigaction, siginterrupt, signal, sysv_signal,
};
pub use crate::runtime::interposed::thread_results::{self, pthread_create};
pub use crate::runtime::interposed::{
    address_space, c11_threads, helpers, kernel_stacks, kernel_writes, masks, process_memory, waits,
};
pub use crate::runtime::summary::{
    KEYS as SUMMARY_KEYS, Memory, Statistics, allocated, allocated_since_cycle, cycles,
    freed_bytes, held_bytes, memory, statistics, used_bytes,
};
pub use crate::runtime::warning::WarningCallback;
pub use crate::runtime::{
    initialize, is_initialized, on_load, options as options_in_force, set_option,
};
pub use crate::sync::{function as functions, set_once::SetOnce};
pub use crate::sys::clock::Instant;
pub use crate::sys::meta_alloc::MetaAllocator;
pub use crate::sys::print::{fatal, message, panicked};
pub use crate::sys::program_call;
pub use crate::world::while_stopped::is_mine as has_stopped_world;
pub use crate::{
    address_space, c11_threads, exit_function, forks, helpers, kernel_stacks, kernel_writes, masks,
    process_memory, signal_actions, thread_results, waits, without_standard_library,
};
pub use allocate::{
    allocate, allocate_aligned, allocate_at_once, allocate_beside_cycles, allocate_otherwise,
    allocate_typed, without_past_end,
};
pub use live_graph::write_heap_snapshot;
pub use objects::{for_each_object, mark_bit, set_mark_bit};
pub use prefork::{freeze, frozen_bytes, prefork, unfreeze};
pub use registered_roots::{
    Answers, add_roots, bar_roots, clear_bars, clear_roots, exclude_roots, remove_roots,
    remove_whole_roots, set_root_callback, set_static_roots,
};

/// Traces one object: `object` is the start of its cell, `bytes` the bytes that are its own. Called
/// by the thread that drives the cycle, world stopped: reads and reports, and neither allocates nor
/// locks.
pub type TraceFunction = unsafe extern "C" fn(
    object: *mut c_void,
    bytes: usize,
    environment: usize,
    tracer: &mut Tracer<'_>,
);

/// How objects of a layout are scanned.
pub enum Shape<'a> {
    /// Bit i set: word i may be a pointer. The object is an array of elements of `element_words`
    /// words, each as the bitmap says; missing bits count as clear.
    Bitmap {
        /// Words of an element, at least 1.
        element_words: usize,
        /// One bit per word, lowest first.
        bits: &'a [u64],
    },
    /// The first `bytes` bytes are scanned conservatively, the rest is not.
    Prefix {
        /// Length of the scanned part.
        bytes: usize,
    },
    /// Nothing is scanned; such objects are not zeroed.
    Leaf,
    /// A function does it.
    Function {
        /// The function.
        function: TraceFunction,
        /// Handed to it.
        environment: usize,
        /// Whether it calls the program.
        calls: Calls,
    },
}

/// The number of a shape, the same each time.
pub fn layout(shape: Shape<'_>) -> Result<LayoutId, LayoutError> {
    layouts::labelled(shape, 0)
}

/// As the heap has it.
fn raw_shape(shape: Shape<'_>) -> layout::Shape<'_> {
    match shape {
        Shape::Leaf => layout::Shape::Leaf,
        Shape::Bitmap { element_words, bits } => layout::Shape::Bitmap { element_words, bits },
        Shape::Prefix { bytes } => layout::Shape::Prefix { bytes },
        Shape::Function { function, environment, calls } => {
            // SAFETY: the two types differ in naming the tracer behind the last pointer only.
            let function = unsafe { functions::function_at::<RawTraceFunction>(function as usize) };
            layout::Shape::Function { function, environment, calls }
        }
    }
}

/// As realloc(3): keeps kind and layout; null `object` allocates a conservative one, 0 bytes frees.
/// What is gained is zero where the kind is scanned and the object moved.
///
/// # Safety
/// `object` is null or an object's start, and nobody uses the old address after success.
pub unsafe fn reallocate(object: *mut u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { allocation::reallocate(object, bytes) }
}

/// Frees an object now; gives its bytes. A wrong pointer is named for what it is, and nothing
/// happens.
///
/// # Safety
/// Nobody uses the object afterwards.
pub unsafe fn free(object: *mut u8) -> Result<usize, FreeError> {
    allocation::free(object)
}

/// What is known of an object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectInfo {
    /// Its first byte.
    pub start: NonNull<u8>,
    /// Bytes that the program may use.
    pub bytes: usize,
    /// Its kind; typed objects count as conservative.
    pub kind: Kind,
    /// Its layout, if it is typed.
    pub layout: Option<LayoutId>,
}

/// The object that an address lies in.
pub fn object_at(word: usize) -> Option<ObjectInfo> {
    let cell = allocation::object_at(word)?;
    let layout = cell.header.layout();
    Some(ObjectInfo {
        start: NonNull::new(cell.start.pointer())?,
        bytes: cell.usable_bytes(),
        kind: Kind::from_parts(cell.header.scan(), cell.header.is_uncollectable()),
        layout: (layout != NO_LAYOUT).then_some(LayoutId(layout)),
    })
}

/// Whether an address lies in the heap, in an object or not.
pub fn is_heap_address(word: usize) -> bool {
    HEAP.contains(word)
}

/// The lowest address that an object can have and one past the highest, as the heap is now.
pub fn heap_range() -> Range<usize> {
    HEAP.base().0..HEAP.base().0 + HEAP.committed()
}

/// Every object has a multiple of 16 bytes and lies at one from now on. Without it only those do
/// whose size is one. For programs that store to objects through
/// types that are larger and more aligned than what they asked for, or keep tags in four bits of a
/// pointer.
pub fn align_all_objects() {
    HEAP.state.align_all.store(1, Relaxed);
}

/// Attaches the calling thread; false if it was. `stack_base` is its stack's highest address, found
/// out when None.
pub fn attach_thread(stack_base: Option<usize>) -> bool {
    initialize();
    attach::attach(stack_base.map(|base| 0..base))
}

/// Detaches the calling thread, which must not use objects until it is attached again; false if it
/// was not attached.
pub fn detach_thread() -> bool {
    attach::detach()
}

/// Whether the calling thread is attached.
pub fn is_thread_attached() -> bool {
    current::get().is_some()
}

/// Where the word for the inline fast path lies relative to the calling thread's pointer: it holds
/// the address of the thread's buffers, or 0 where each object has to be asked for.
pub fn thread_word_offset() -> isize {
    current::buffers_offset()
}

/// The highest address of the calling thread's stack.
pub fn stack_base() -> usize {
    runtime::mutator().stack_base.load(Relaxed)
}

/// Says where the calling thread's stack ends now: for programs that switch stacks by themselves.
pub fn set_stack_base(base: usize) {
    let mutator = runtime::mutator();
    mutator.stack_low.store(0, Relaxed);
    mutator.stack_base.store(base, Relaxed);
    kernel_stacks::keep_stack(base);
}

/// Runs `f` in a region in which this thread is not stopped. `f` must not touch the heap.
pub fn blocked<R>(f: impl FnOnce() -> R) -> R {
    regions::blocked(runtime::mutator(), f)
}

/// Inside [`blocked`]: runs `f` as an ordinary mutator again.
pub fn unblocked<R>(f: impl FnOnce() -> R) -> R {
    regions::unblocked(runtime::mutator(), f)
}

/// The signal that stops a thread.
pub fn stop_signal() -> i32 {
    initialize();
    stop_signal::number()
}

/// Stops every other mutator until [`resume_world`] on this thread; false if the world is a host's
/// that cannot be stopped now. In between, no allocation and no lock of the program. Does not nest.
pub fn stop_world() -> bool {
    runtime::external_stop::stop()
}

/// Ends [`stop_world`]; ignored without one.
pub fn resume_world() {
    runtime::external_stop::resume();
}

/// Runs `f` between [`stop_world`] and [`resume_world`]; not, if the world cannot be stopped.
pub fn with_stopped_world<R>(f: impl FnOnce() -> R) -> Option<R> {
    if !stop_world() {
        return None;
    }
    let result = f();
    resume_world();
    Some(result)
}

/// No cycle begins or processes references until as many calls of [`release_collections`] on this
/// thread; one under way may go on marking, and other threads go on running. While it holds, this
/// thread's own cycles are refused.
pub fn hold_collections() {
    runtime::complete_start();
    holding::hold();
}

/// As [`hold_collections`], if no cycle is under way and the last one was not given up; false
/// otherwise, and nothing is held. While it holds, marks stay as the last cycle left them.
pub fn hold_collections_if_idle() -> bool {
    runtime::complete_start();
    holding::hold_if_idle()
}

/// Ends a [`hold_collections`] of this thread.
pub fn release_collections() {
    initialize();
    holding::release();
}

/// Runs `f` between [`hold_collections`] and [`release_collections`].
pub fn with_collections_held<R>(f: impl FnOnce() -> R) -> R {
    hold_collections();
    let result = f();
    release_collections();
    result
}

/// A full collection, complete on return. False if collections are disabled or this thread holds
/// them off.
pub fn collect() -> bool {
    initialize();
    collect::collect(collect::Reason::Explicit)
}

/// A collection if enough was allocated for one; whether it ran.
pub fn collect_if_due() -> bool {
    initialize();
    schedule::is_due() && collect::collect(collect::Reason::Allocated)
}

/// As [`collect()`], and gives empty memory back to the system at once.
pub fn collect_and_release() -> bool {
    let collected = collect();
    release_memory();
    collected
}

/// Finishes the sweep and gives every empty block's memory back to the system.
pub fn release_memory() {
    let mutator = runtime::mutator();
    let critical = || mutator.critical();
    HEAP.finish_sweep(critical);
    HEAP.give_back(giving_back::ALL, critical);
    schedule::note_given_back();
}

/// Undoes one [`disable`].
pub fn enable() {
    disabling::enable();
}

/// No collections until as many calls of [`enable`].
pub fn disable() {
    disabling::disable();
}

/// Whether collections are disabled.
pub fn is_disabled() -> bool {
    disabling::is_disabled()
}

/// Makes the heap at least `bytes` larger now; false if the limit or the system refuses.
pub fn expand(bytes: usize) -> bool {
    let critical = runtime::mutator().critical();
    let mut inner = HEAP.inner();
    let room = HEAP.max_bytes().min(HEAP.reserved()).saturating_sub(HEAP.committed());
    let chunks = bytes.div_ceil(crate::addr::CHUNK_BYTES);
    let expanded = match bytes <= room {
        true => HEAP
            .try_chunks(chunks)
            .and_then(|()| (0..chunks).try_for_each(|_| HEAP.commit_chunk(&mut inner, 1))),
        false => Err(Refused::Limit),
    };
    drop((inner, critical));
    allocation::tell_heap_size();
    expanded.map_err(|refused| allocation::tell_refused(bytes, refused)).is_ok()
}

/// The hard limit on blocks in use; 0 for none.
pub fn set_max_heap(bytes: usize) {
    runtime::set_max_heap(crate::options::Limit::of(bytes));
}

/// The hard limit; `usize::MAX` for none.
pub fn max_heap() -> usize {
    HEAP.max_bytes()
}

/// Bytes that may be allocated per live byte before the next cycle; below 0.05 counts as 0.05.
pub fn set_growth(factor: f64) {
    initialize();
    schedule::configure(|collector| collector.settings.growth = factor.max(0.05));
}

/// What [`set_growth`] or the option set.
pub fn growth() -> f64 {
    initialize();
    let mut growth = 0.0;
    schedule::configure(|collector| growth = collector.settings.growth);
    growth
}

/// Told of each step of each cycle; see [`CycleEvent`].
pub fn set_event_callback(callback: Option<EventCallback>) {
    callbacks::set_event(callback);
}

/// Called when a cycle is over, on the thread that drove it, after `CycleEnd`; may run any code.
pub fn set_after_cycle(callback: Option<AfterCycle>) {
    callbacks::set_after(callback);
}

/// Asked before a cycle that the program did not ask for; false puts it off.
pub fn set_cycle_gate(gate: Option<CycleGate>) {
    callbacks::set_gate(gate);
}

/// Called with the bytes asked for when there is no memory; what it gives is what the allocation
/// gives.
pub fn set_out_of_memory_callback(callback: Option<OutOfMemoryCallback>) {
    allocation::set_out_of_memory(callback);
}

/// Called with a message, NUL-terminated, and a number that belongs to it, when something is wrong
/// that the program may want to know: memory was refused.
pub fn set_warning_callback(callback: Option<WarningCallback>) {
    runtime::warning::set(callback);
}

/// Called with the heap's new size in bytes after it grew, on the thread that made it grow, outside
/// locks.
pub fn set_heap_resize_callback(callback: Option<HeapResizeCallback>) {
    allocation::set_heap_resize(callback);
}

/// Whether cycles start by themselves; explicit ones run either way.
pub fn set_automatic(on: bool) {
    collector::set_automatic(on);
}

/// A variable that the program keeps its first thread's current stack base in: while it is not 0,
/// that is where the stack of that thread ends.
pub fn set_main_stack_base_source(source: &'static AtomicUsize) {
    crate::world::roots::set_main_stack_base_source(source);
}

/// A stack that is no thread's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct StackHandle(*const stacks::stack::Stack);

impl StackHandle {
    /// No stack: the thread's own.
    pub const OWN: Self = Self(core::ptr::null());

    /// Whether it is [`Self::OWN`].
    pub fn is_own(self) -> bool {
        self.0.is_null()
    }
}

/// Declares memory that the program will use as a stack; [`StackHandle::OWN`] when there is no
/// memory or the range is empty.
pub fn stack_create(range: Range<usize>) -> StackHandle {
    initialize();
    kernel_stacks::keep(&range);
    StackHandle(stacks::create(range).map_or(core::ptr::null(), core::ptr::from_ref))
}

/// The calling thread is about to leave the stack that it runs on and go on in `to`. Takes no lock.
///
/// # Safety
/// The switch follows at once, `to` is not retired, and no other thread runs on it.
pub unsafe fn stack_switch(to: StackHandle) {
    // SAFETY: the caller's promise.
    stacks::switch(runtime::mutator(), unsafe { to.0.as_ref() });
}

/// Forgets a declared stack.
///
/// # Safety
/// Nobody runs on it or switches to it afterwards.
pub unsafe fn stack_retire(stack: StackHandle) {
    // SAFETY: the caller's promise.
    if let Some(stack) = unsafe { stack.0.as_ref() } {
        // SAFETY: as above.
        unsafe { stacks::retire(stack) };
    }
}

/// The position of the calling thread on its stack, for callers that have to name it.
#[inline(always)]
pub fn stack_position() -> usize {
    thread::stack_pointer()
}
