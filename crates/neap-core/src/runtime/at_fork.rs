//! `fork()` at any moment: the parent takes every lock of the collector first, so the child finds
//! everything in order and its other threads' mutators gone.
//!
//! Invariant: between prepare and parent or child no cycle runs, no thread is in a critical section
//! with a lock, and nothing is half done. Runs as `pthread_atfork` handlers on the forking thread.
//!
//! # Safety
//!
//! Hands functions of the right type to `pthread_atfork`, and ends in parent and child the holds
//! that `prepare` began on this very thread.

#![allow(unsafe_code)]

use core::mem::forget;

use core::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;

use super::{forking_server, interposed::thread_results};
use crate::heap::{HEAP, samples};
use crate::monitors::monitor;
use crate::observe::recorder;
use crate::observe::{ask_page, live_page};
use crate::sys::protection::fault;
use crate::sys::{meta_alloc, side_stack};
use crate::world::{attach, current, registry, roots, stop};
use crate::{cycle, refs};

/// Registers the handlers. Called once, at start-up.
pub fn initialize() {
    // SAFETY: three functions of the right type, which stay loaded as long as this library.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// What a front end does before and after: it takes a lock of its own, outside of which it takes
/// the collector's.
pub struct Around {
    /// Before the collector's locks are taken.
    pub before: extern "C" fn(),
    /// After they were given back, in the parent.
    pub parent: extern "C" fn(),
    /// The same in the child.
    pub child: extern "C" fn(),
}

static AROUND: OnceLock<Around> = OnceLock::new();

/// Has the front end's functions called; only the first call counts.
pub fn set_around(around: Around) {
    let _ = AROUND.set(around);
}

extern "C" fn prepare() {
    if let Some(around) = AROUND.get() {
        (around.before)();
    }
    forking_server::before_fork();
    super::hold_options_for_fork();
    cycle::hold_for_fork();
    cycle::before_fork();
    forget(recorder::hold_for_fork());
    forget(registry::lock());
    forget(roots::hold_for_fork());
    forget(thread_results::hold_for_fork());
    refs::before_fork();
    forget(HEAP.layouts.hold_for_fork());
    forget(HEAP.inner());
    forget(samples::lock());
    forget(meta_alloc::hold_for_fork());
    forget(fault::hold_for_fork());
}

/// Gives all locks back, in the reverse order.
///
/// # Safety
/// This thread took them in `prepare`.
unsafe fn release() {
    // SAFETY: the caller's promise, for each of them.
    unsafe {
        fault::unlock_forgotten();
        meta_alloc::unlock_forgotten();
        samples::unlock_forgotten();
        HEAP.unlock_forgotten();
        HEAP.layouts.unlock_forgotten();
        refs::after_fork();
        thread_results::unlock_forgotten();
        roots::unlock_forgotten();
        registry::unlock_forgotten();
        recorder::unlock_forgotten();
        cycle::unlock_after_fork();
        super::unlock_options_after_fork();
    }
}

extern "C" fn parent() {
    // SAFETY: `prepare` ran on this thread.
    unsafe { release() };
    if let Some(around) = AROUND.get() {
        (around.parent)();
    }
}

extern "C" fn child() {
    // SAFETY: `prepare` ran on this thread, the only one there is.
    unsafe { release() };
    if let Some(around) = AROUND.get() {
        (around.child)();
    }
    side_stack::on_new(begin_anew);
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
    }
    HEAP.inner().leave_gaps();
    monitor::after_fork(own);
    let mut registry = registry::lock();
    attach::forget_all_but(&mut registry, own, &HEAP);
    drop(registry);
    cycle::after_fork();
    thread_results::after_fork();
    refs::in_child();
    super::summary::after_fork();
    recorder::after_fork(own.map_or(0, |own| own.tally.load(Relaxed)));
}
