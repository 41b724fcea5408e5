//! Cleaners of the shadow's objects, and references to them on one queue that all share.
//!
//! Invariant: a cleaner runs, and a reference is taken off the queue, once, and never while the
//! object can be reached, unless all were made ready (`all_ready`); all that were registered for
//! objects which are gone did so by the end of the run. Cleaners take no lock, and run on whatever
//! thread asks for ready finalizers.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Arc, OnceLock};

use super::all_ready;
use crate::shadow::node::Node;
use crate::{ensure, fail};
use neap_core::api::{cleaner, queue};

/// Cleaners and references of one object at most.
const MOST: u32 = 3;

static QUEUE: OnceLock<&'static queue::Queue> = OnceLock::new();

/// Opens the queue. While there is one thread: the child of a `fork` waits for ever for another one
/// that is just opening it.
pub fn initialize() {
    shared();
}

/// The queue of all references.
fn shared() -> &'static queue::Queue {
    QUEUE.get_or_init(|| match queue::open() {
        Ok(queue) => queue,
        Err(_) => fail!("no memory for a queue"),
    })
}

/// A cleaner or a reference on the queue.
pub struct Record {
    id: u64,
    queued: bool,
    times: AtomicU32,
}

impl Record {
    fn argument(self: Arc<Self>) -> usize {
        Arc::into_raw(self) as usize
    }

    /// What [`Self::argument`] gave: once for each registration.
    fn of(argument: usize) -> Arc<Self> {
        // SAFETY: the callers' registrations come back once, and keep the record until then.
        unsafe { Arc::from_raw(argument as *const Self) }
    }

    fn happened(&self) {
        let before = self.times.fetch_add(1, AcqRel);
        ensure!(before == 0, "{} {} times", self.describe(), before + 1);
    }

    /// How often it ran or was taken.
    pub fn times(&self) -> u32 {
        self.times.load(Acquire)
    }

    /// For messages.
    pub fn describe(&self) -> String {
        match self.queued {
            true => format!("the reference to object {} was taken", self.id),
            false => format!("the cleaner of object {} ran", self.id),
        }
    }
}

unsafe extern "C" fn run(argument: *mut c_void) {
    Record::of(argument as usize).happened();
}

/// Gives the node some of them.
pub fn register(node: &mut Node, random: &mut fastrand::Rng) {
    for _ in 0..random.u32(1..=MOST) {
        let queued = random.bool();
        let record = Arc::new(Record { id: node.id, queued, times: AtomicU32::new(0) });
        let (object, argument) = (node.address.reveal(), record.clone().argument());
        let result = match queued {
            true => shared().add(object, argument),
            false => cleaner::add(object, run, argument, None),
        };
        match result {
            Ok(()) => node.cleaners.push(record),
            Err(_) => drop(Record::of(argument)),
        }
    }
}

/// Takes them back from an object that is alive and about to be freed or moved. False: one is
/// ready, since all were made so, and does not come to run.
#[must_use]
pub fn unregister(node: &mut Node) -> bool {
    while let Some(record) = node.cleaners.pop() {
        let (object, argument) = (node.address.reveal(), Arc::as_ptr(&record) as usize);
        let known = match record.queued {
            true => shared().remove(object, argument),
            false => cleaner::remove(object, run, argument),
        };
        if !known && all_ready::were() {
            if all_ready::wait(|| record.times() == 1) {
                continue;
            }
            node.cleaners.push(record);
            return false;
        }
        ensure!(
            known,
            "lost: {} is alive, and a cleaner or reference is forgotten ({} {} times)",
            node.describe(),
            record.describe(),
            record.times()
        );
        drop(Record::of(argument));
    }
    true
}

/// Takes what is on the queue.
pub fn poll() {
    while let queue::Taken::Value(argument) = shared().take() {
        Record::of(argument).happened();
    }
}
