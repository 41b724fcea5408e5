//! Suspending one thread until another resumes it: it counts as blocked meanwhile, so stops neither
//! signal it nor wait for it.
//!
//! Invariant `[world.inv.suspended]`: a thread that is suspended holds no lock of the collector's.
//! It stands outside critical sections; who suspends it holds collections off, and the registry is
//! locked until it stands. One in a blocked region stands when it leaves it. Called by mutators
//! outside critical sections; [`stand`] also in the stop signal's handler.

use core::sync::atomic::Ordering::*;

use super::mutator::{Activity, Mutator};
use super::registry::{self, Registry};
use super::stop_signal::{self, Asked};
use super::{blocked, current};
use crate::sys::futex;

/// Who suspends a thread looks this often whether it stands, and sends the signal anew after so
/// many looks.
const LOOK_NS: u64 = 20_000;
const LOOKS: u32 = 500;

/// The thread of this control block, if the program was told that it is registered.
fn find(registry: &Registry, thread: usize) -> Option<&'static Mutator> {
    registry.iter().find(|mutator| {
        mutator.control_block.load(Relaxed) == thread && mutator.announced.load(Relaxed)
    })
}

/// Suspends the thread of this control block until [`resume`]; it stands on return, unless it is
/// the caller, who has to [`stand`]. False if there is no such thread. The caller holds collections
/// off.
pub fn suspend(thread: usize) -> bool {
    let mut registry = registry::lock();
    let Some(mutator) = find(&registry, thread) else { return false };
    mutator.suspended.store(1, SeqCst);
    if current::get().is_some_and(|own| core::ptr::eq(own, mutator)) {
        return true;
    }
    loop {
        if mutator.activity() == Activity::Blocked {
            return true;
        }
        if let Asked::Gone = stop_signal::send(mutator) {
            registry.remove(mutator);
            return false;
        }
        for _ in 0..LOOKS {
            if mutator.activity() == Activity::Blocked {
                return true;
            }
            futex::sleep(LOOK_NS);
        }
        stop_signal::mend_handler();
    }
}

/// Lets a suspended thread go on; nothing happens to others.
pub fn resume(thread: usize) {
    let registry = registry::lock();
    if let Some(mutator) = find(&registry, thread) {
        mutator.suspended.store(0, SeqCst);
        futex::wake(&mutator.suspended, 1);
    }
}

/// Whether a thread is suspended.
pub fn is_suspended(thread: usize) -> bool {
    find(&registry::lock(), thread).is_some_and(Mutator::is_suspended)
}

/// Stands until the calling thread is resumed, if it is suspended. In a blocked region it does when
/// it leaves that.
pub fn stand(mutator: &Mutator) {
    debug_assert!(!mutator.is_critical(), "world.inv.suspended: who is suspended may hold a lock");
    if mutator.is_suspended() && mutator.activity() == Activity::Running {
        blocked::blocked(mutator, || {});
    }
}
