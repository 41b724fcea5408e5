//! Attaching a thread: making it a mutator, finding its stack; detaching it, explicitly or when it
//! ends.
//!
//! Invariant: a thread allocates only while attached; its first allocation attaches it whoever made
//! it. A thread that ends is detached after its last destructor (`thread_end.rs`).
//!
//! # Safety
//!
//! Makes mutators of zeroed memory, which is valid for one, and frees them when they are detached
//! and in no list. Stored callbacks have the types that they were stored with.

#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::*};

use super::mutator::Mutator;
use super::thread_end::{self, Since};
use super::{current, host, last_thread, registry, stop_signal};
use crate::alloc::large;
use crate::heap::{HEAP, Heap};
use crate::stats::live;
use crate::sync::function::AtomicFunction;
use crate::sys::meta_alloc::MetaAllocator;
use crate::sys::process::mappings::{self, readable};
use crate::sys::protection::{alternate_stack, fault};
use crate::sys::signal::{self, Undisturbed};
use crate::sys::{print, thread};

/// What upper layers do when a thread ends.
static ON_DETACH: AtomicFunction<fn(&Mutator)> = AtomicFunction::none();

/// Has `hook` called for every mutator that ends, by its own thread, or in the child of a `fork` by
/// the only one. Called once, at start-up.
pub fn set_detach_hook(hook: fn(&Mutator)) {
    ON_DETACH.set(Some(hook));
}

fn call_detach_hook(mutator: &Mutator) {
    if let Some(hook) = ON_DETACH.get() {
        hook(mutator);
    }
}

const LAYOUT: Layout = Layout::new::<Mutator>();

/// A thread was attached before.
static ANY_ATTACHED: AtomicBool = AtomicBool::new(false);

/// Whether threads ask for each object, so that requests can be counted, and do not take cells of
/// their buffers by themselves.
static ASK_BEFORE_BUFFERS: AtomicBool = AtomicBool::new(false);
/// Given the tally of a thread that ends.
static TALLY_END: AtomicFunction<fn(usize)> = AtomicFunction::none();

/// Every thread attached from now on counts its requests, and `at_end` is given what it counted in.
/// Called at start-up.
pub fn count_requests(at_end: fn(usize)) {
    TALLY_END.set(Some(at_end));
    ASK_BEFORE_BUFFERS.store(true, Relaxed);
}

/// Makes what detaches threads when they end. Called once, at start-up.
pub fn initialize() {
    thread_end::initialize(|| {
        detach();
        last_thread::ended();
    });
}

/// The calling thread's mutator; attaches it if need be. The runtime is initialized.
#[inline]
pub fn current() -> &'static Mutator {
    match current::get() {
        Some(mutator) => mutator,
        None => {
            attach(None);
            current::get().unwrap_or_else(|| {
                print::fatal(format_args!("no memory for a new thread's allocation buffers"))
            })
        }
    }
}

/// Attaches the calling thread, on which nothing of the program has run yet.
pub fn at_beginning() {
    attach_since(None, Since::Beginning);
}

/// Attaches the calling thread; false if it was attached already. `stack`: its lowest address (0:
/// unknown) and its base, found out when None.
pub fn attach(stack: Option<Range<usize>>) -> bool {
    attach_since(stack, Since::Unknown)
}

fn attach_since(stack: Option<Range<usize>>, since: Since) -> bool {
    if current::get().is_some() {
        return false;
    }
    let id = thread::current();
    last_thread::begun(id);
    let is_main = thread::is_main(id);
    if !is_main {
        // Made by no function of ours. From when it is listed on stops wait for it.
        live::want_page();
    }
    let stack = stack.unwrap_or_else(|| find_stack(id));
    // A handler of the program's that forks attaches its thread, or has done so above.
    let mut undisturbed = Some(undisturbed());
    // SAFETY: the layout has a size.
    let memory = unsafe { MetaAllocator.alloc_zeroed(LAYOUT) };
    if memory.is_null() {
        print::fatal(format_args!("no memory for a new thread's allocation buffers"));
    }
    // SAFETY: zeroed memory of the right size and alignment is a valid mutator, and it stays until
    // `detach`.
    let mutator = unsafe { &*memory.cast::<Mutator>() };
    mutator.thread.store(id as u32, Relaxed);
    mutator.is_first.store(thread::is_first(id), Relaxed);
    mutator.control_block.store(thread::control_block(), Relaxed);
    mutator.stack_low.store(stack.start, Relaxed);
    mutator.stack_base.store(stack.end, Relaxed);
    mutator.alternate_stack.store(alternate_stack::provide(), Relaxed);
    // A host stops threads that are in no registry of ours, also while they wait for it.
    if host::get().is_some() {
        undisturbed = None;
    }
    let mut registry = registry::lock();
    let undisturbed = undisturbed.unwrap_or_else(self::undisturbed);
    if let Some(attached) = current::get() {
        // It may have stood on another stack then.
        attached.stack_low.store(stack.start, Relaxed);
        attached.stack_base.store(stack.end, Relaxed);
        drop(registry);
        alternate_stack::leave(mutator.alternate_stack.load(Relaxed));
        forget(mutator);
        return false;
    }
    current::set(memory as usize);
    current::set_with_buffers(if ASK_BEFORE_BUFFERS.load(Relaxed) { 0 } else { memory as usize });
    mutator.local.initialize();
    registry.add(mutator);
    let has_others = registry.count() > 1;
    drop(registry);
    if has_others {
        stop_signal::try_out(mutator);
    }
    // Most programs have but this one, and no thread that comes later. The first thread that comes
    // after others, or once more, may be about to end, as those of which nothing is known.
    let is_first_of_all = !ANY_ATTACHED.swap(true, Relaxed);
    let since = if is_main && is_first_of_all { Since::Beginning } else { since };
    // Libc may call malloc for a late key, in the midst of which a handler cannot fork. Who stops
    // the world waits for this thread from now on.
    let is_late = since == Since::Unknown && host::get().is_none();
    let undisturbed = is_late.then_some(undisturbed);
    if is_late {
        stop_signal::unblock();
    }
    thread_end::note_attached(since);
    drop(undisturbed);
    true
}

/// Until the guard is dropped no handler of the program's runs on this thread. From then on it
/// hears what it has to, whatever mask its maker gave it, or the program's parent.
fn undisturbed() -> Undisturbed {
    let mut undisturbed = signal::undisturbed();
    undisturbed.open_at_end(stop_signal::number());
    if fault::is_wanted() {
        undisturbed.open_at_end(libc::SIGSEGV);
    }
    undisturbed
}

/// Detaches the calling thread; false if it was not attached.
pub fn detach() -> bool {
    let Some(mutator) = current::get() else { return false };
    call_detach_hook(mutator);
    let critical = mutator.critical();
    mutator.local.let_go(&HEAP);
    drop(critical);
    let tally = mutator.tally.swap(0, Relaxed);
    if tally != 0
        && let Some(at_end) = TALLY_END.get()
    {
        // A handler that allocates or exits would want the lock that is had while this is written.
        // Stops come through: it may take long.
        let _undisturbed = signal::undisturbed_but_by(stop_signal::masked());
        at_end(tally);
    }
    let mut registry = registry::lock();
    // A handler that forks would attach the thread again, in the midst of this.
    let undisturbed = signal::undisturbed();
    registry.remove(mutator);
    mutator.local.give_back_typed();
    current::set(0);
    current::set_with_buffers(0);
    drop(registry);
    alternate_stack::leave(mutator.alternate_stack.load(Relaxed));
    forget(mutator);
    thread_end::note_detached();
    drop(undisturbed);
    true
}

/// Gives a mutator's memory back; nobody knows it any more.
fn forget(mutator: &Mutator) {
    mutator.give_up_claim();
    alternate_stack::release(mutator.alternate_stack.load(Relaxed));
    // SAFETY: it was allocated with this layout by `attach`, and is in no list.
    unsafe { MetaAllocator.dealloc(core::ptr::from_ref(mutator).cast_mut().cast(), LAYOUT) };
}

/// In the child of a `fork`: ends the mutators of threads that do not exist there.
pub fn forget_all_but(registry: &mut registry::Registry, own: Option<&Mutator>, heap: &Heap) {
    for mutator in registry.iter() {
        if own.is_none_or(|own| !core::ptr::eq(mutator, own)) {
            call_detach_hook(mutator);
            registry.remove(mutator);
            large::forget_unpublished(heap, &mutator.unpublished);
            mutator.local.let_go(heap);
            mutator.local.give_back_typed();
            forget(mutator);
        }
    }
}

/// Whether there is no hole or guard in a range, as far as the kernel tells, nor anything that is
/// no thread's.
fn goes_on(range: Range<usize>) -> bool {
    range.len() <= thread::most_stack_bytes()
        && readable::is_known()
        && mappings::covering(&range).is_some()
        && readable::start_of(range.clone()) == range
}

/// The calling thread's stack, from what glibc tells about the first thread and from where it puts
/// the control block of the others.
fn find_stack(id: i32) -> Range<usize> {
    let here = thread::stack_pointer();
    if thread::is_first(id) {
        // It grows downwards as it is used: its lowest address is not fixed.
        return 0..thread::main_stack_base();
    }
    let top = thread::control_block() + thread::control_block_bytes();
    let stack = match mappings::mapping_of(here) {
        // The control block lies in the same mapping, above us: an ordinary pthread. Or in another
        // one that the stack goes on in, as where a part of it is locked.
        Some(mapping) if here < top && (mapping.contains(&(top - 1)) || goes_on(here..top)) => {
            mapping.start..top
        }
        // On a coroutine's stack, or an alternate one, which it will leave: its own is below the
        // control block.
        Some(mapping) => mappings::mapping_of(top - 1).map_or(mapping, |own| own.start..top),
        None => return 0..top,
    };
    // Others may lie below it in the same mapping.
    stack.start.max(stack.end.saturating_sub(thread::MOST_STACK_BYTES))..stack.end
}
