//! `fork()` at any moment: the parent takes every lock of the collector first, so the child finds
//! everything in order and its other threads' mutators gone.
//!
//! Invariant: between prepare and parent or child no cycle runs, no thread is in a critical section
//! with a lock, nobody starts the collector, and nothing is half done. Runs as `pthread_atfork`
//! handlers on the forking thread, also where the collector has not started.
//!
//! # Safety
//!
//! Hands functions of the right type to `pthread_atfork`, and ends in parent and child the holds
//! that `prepare` began on this very thread.

#![allow(unsafe_code)]

use core::ffi::c_long;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::forking_server;
use super::interposed::{errno, thread_results};
use crate::cycle::driver::{disabling, holding};
use crate::heap::{HEAP, samples};
use crate::monitors::monitor;
use crate::observe::recorder;
use crate::observe::{ask_page, live_page};
use crate::rank::{self, Rank};
use crate::refs::finalizers::queue;
use crate::sync::{ForkLock, function::AtomicFunction, me};
use crate::sys::protection::fault;
use crate::sys::thread::barrier;
use crate::sys::{meta_alloc, own_thread, side_stack};
use crate::watch::mprotect;
use crate::world::{attach, current, last_thread, registry, roots, stop, stop_signal};
use crate::{cycle, refs};

/// Registers handlers when the library is loaded, so that no start is under way that a `fork` does
/// not know of. Called again at the start of a process whose front end has not called it.
pub fn on_load() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if !IS_DONE.swap(true, Relaxed) {
        // SAFETY: three functions of the right type, which stay loaded as long as this library.
        unsafe { libc::pthread_atfork(Some(prepare_early), Some(parent_early), Some(child_early)) };
    }
}

/// Registers handlers at the start. Hosts have registered theirs by then: their locks come after
/// the collector's, as in a stop.
pub fn initialize() {
    // SAFETY: as above.
    unsafe { libc::pthread_atfork(Some(prepare_late), Some(parent_late), Some(child_late)) };
}

/// The thread, by [`me`], whose fork took the locks by the handlers of the start; 0 for none.
/// Written by that thread, with the locks.
static LATE: AtomicUsize = AtomicUsize::new(0);

fn is_late() -> bool {
    LATE.load(Relaxed) == me()
}

extern "C" fn prepare_late() {
    if prepare() {
        LATE.store(me(), Relaxed);
    }
}

extern "C" fn parent_late() {
    if is_late() {
        LATE.store(0, Relaxed);
        parent();
    }
}

extern "C" fn child_late() {
    if is_late() {
        LATE.store(0, Relaxed);
        child(true);
    }
}

extern "C" fn prepare_early() {
    if !is_late() {
        prepare();
    }
}

extern "C" fn parent_early() {
    if !is_late() {
        parent();
    }
}

extern "C" fn child_early() {
    // Before handlers of the program's, which may set actions.
    stop_signal::after_fork();
    if !is_late() {
        child(true);
    }
}

/// Makes a child of which no handler of `pthread_atfork` is told, by `fork`, which returns in both:
/// 0 in the child.
pub fn untold(fork: impl FnOnce() -> c_long) -> c_long {
    // Either the handlers ran: where libc is linked into the program, its `fork` comes by here. Or
    // a child of `vfork` forks, whose maker's thread does not stand before the child ends.
    let fork = || {
        let made = fork();
        if made == 0 {
            stop_signal::after_fork();
        }
        made
    };
    let is_plain = current::get()
        .is_some_and(|own| own.forks_inside.load(Relaxed) || own.has_child_on_it.load(Relaxed));
    if is_plain || super::START.is_mine() {
        return fork();
    }
    prepare();
    let made = fork();
    let error = errno::error();
    if made == 0 {
        child(false);
    } else {
        parent();
    }
    errno::set_error(error);
    made
}

/// What a front end does in the child, after all else.
static IN_CHILD: AtomicFunction<fn()> = AtomicFunction::none();

/// Has the front end's function called in each child from now on.
pub fn set_in_child(function: fn()) {
    IN_CHILD.set(Some(function));
}

/// The lock of a rank, as the thread that forks takes and gives it back.
struct Hold {
    rank: Rank,
    lock: fn() -> &'static dyn ForkLock,
}

impl Hold {
    /// Who has `Cycle` is attached, which nobody is before the start. While `Start` is held that
    /// stays so.
    fn is_needed(&self) -> bool {
        self.rank != Rank::Cycle || super::is_initialized()
    }
}

const fn hold(rank: Rank, lock: fn() -> &'static dyn ForkLock) -> Hold {
    Hold { rank, lock }
}

/// What is held over a `fork`, first to be taken first.
const HOLDS: [Hold; 15] = [
    hold(Rank::Start, || &super::START),
    hold(Rank::Options, || &super::OPTIONS),
    hold(Rank::Cycle, cycle::lock_for_fork),
    hold(Rank::Recorder, recorder::lock_for_fork),
    hold(Rank::Registry, registry::lock_for_fork),
    hold(Rank::Roots, roots::lock_for_fork),
    hold(Rank::Results, thread_results::lock_for_fork),
    hold(Rank::Found, refs::found_lock_for_fork),
    hold(Rank::Refs, refs::lock_for_fork),
    hold(Rank::Queues, queue::lock_for_fork),
    hold(Rank::Layouts, || HEAP.layouts.lock_for_fork()),
    hold(Rank::Heap, || HEAP.lock_for_fork()),
    hold(Rank::Samples, samples::lock_for_fork),
    hold(Rank::Meta, meta_alloc::lock_for_fork),
    hold(Rank::Fault, fault::lock_for_fork),
];

/// These are the ranks of which the list of all says that a `fork` holds them, in its order.
const _: () = {
    let (mut taken, mut index) = (0, 0);
    while index < HOLDS.len() {
        let bit = HOLDS[index].rank.bit();
        assert!(taken < bit, "[world.inv.fork-holds] not in the order of rank.rs");
        taken |= bit;
        index += 1;
    }
    assert!(taken == Rank::HELD_OVER_FORK, "[world.inv.fork-holds] not what rank.rs says");
};

/// The thread that forks had collections held off before it took the locks. Under `Cycle`.
static HELD_FIRST: AtomicBool = AtomicBool::new(false);

/// False if it took nothing.
fn prepare() -> bool {
    // A stop waits for the maker of a child of `vfork`, which stands until that has ended.
    if let Some(mutator) = current::get()
        && (mutator.is_critical()
            || mutator.has_child_on_it.load(Relaxed)
            || HOLDS.iter().any(|hold| (hold.lock)().is_mine()))
    {
        mutator.forks_inside.store(true, Relaxed);
        return false;
    }
    forking_server::before_fork();
    // Who has `Cycle` may want what stands before it: so who waits for it has none of that, but at
    // the start, when nobody has `Cycle`. It is taken out of order, therefore.
    if super::is_initialized() {
        super::complete_start();
        holding::hold();
        HELD_FIRST.store(true, Relaxed);
        rank::release(Rank::Cycle);
    }
    for hold in HOLDS.iter().filter(|hold| hold.is_needed()) {
        (hold.lock)().take();
        #[cfg(debug_assertions)]
        assert!(
            rank::held() & hold.rank.bit() != 0,
            "[world.inv.fork-holds] {:?} was not taken",
            hold.rank
        );
    }
    refs::before_fork();
    true
}

/// Gives all locks back, in the reverse order.
///
/// # Safety
/// This thread took them in `prepare`.
unsafe fn release() {
    refs::after_fork();
    let held_first = HELD_FIRST.swap(false, Relaxed);
    for hold in HOLDS.iter().rev().filter(|hold| hold.is_needed()) {
        // SAFETY: the caller's promise.
        unsafe { (hold.lock)().give_back() };
    }
    if held_first {
        holding::release();
    }
}

/// Whether this fork took nothing, as the calling thread was in a handler of the program's that
/// interrupted the library, or is a child of `vfork`: it may have locks, and no stop comes to its
/// end while it waits for others. The child, which mostly becomes another program, collects
/// nothing.
fn took_nothing() -> bool {
    current::get().is_some_and(|mutator| mutator.forks_inside.swap(false, Relaxed))
}

fn parent() {
    if took_nothing() {
        return;
    }
    // SAFETY: `prepare` ran on this thread.
    unsafe { release() };
}

/// `is_told`: libc runs handlers, and has made its own locks free, which a thread that is not there
/// may have had.
fn child(is_told: bool) {
    mprotect::after_fork();
    own_thread::forbid(!is_told);
    if took_nothing() {
        disabling::disable_for_good();
        stop::after_fork_within();
    } else {
        // SAFETY: `prepare` ran on this thread, the only one there is.
        unsafe { release() };
        if super::is_initialized() {
            side_stack::on_new(begin_anew);
        }
    }
    if let Some(front_end) = IN_CHILD.get() {
        front_end();
    }
}

/// What the child has of its parent's is given up or made its own.
fn begin_anew() {
    live_page::after_fork();
    ask_page::after_fork();
    super::snapshot_file::after_fork();
    stop::after_fork();
    let own = current::get();
    if let Some(own) = own {
        own.thread.store(crate::sys::thread::current() as u32, Relaxed);
        own.forget_signals();
    }
    // Nobody is there to stop it, nor to have a lock; but what is called here relies on no stop.
    let _unstopped = own.map(|own| own.critical());
    HEAP.inner().leave_gaps(&HEAP);
    HEAP.state.freezing.store(0, Relaxed);
    monitor::after_fork(own);
    let mut registry = registry::lock();
    attach::forget_all_but(&mut registry, own, &HEAP);
    drop(registry);
    cycle::after_fork();
    thread_results::after_fork();
    own_thread::after_fork();
    barrier::after_fork();
    last_thread::after_fork();
    refs::in_child();
    super::summary::after_fork();
    recorder::after_fork(own.map_or(0, |own| own.tally.load(Relaxed)));
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn a_fork_takes_the_locks_that_it_says_and_gives_them_back() {
        crate::runtime::initialize();
        for _ in 0..2 {
            prepare();
            assert_eq!(rank::held(), Rank::HELD_OVER_FORK, "[world.inv.fork-holds]");
            parent();
            assert_eq!(rank::held(), 0, "[world.inv.fork-holds]");
        }
    }
}
