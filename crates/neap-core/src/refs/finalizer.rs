//! Finalizers: a function and its data for an object, run once after the object was found dead.
//!
//! Invariant: a registered object is in the table, a dead one in the ready queue, never in both; the queue and the scratch list always have
//! room for all that is registered, so a cycle can queue without allocating. Finalizers run on the thread that calls
//! [`run_ready`], with no lock held and the world running, so they may do anything, registering themselves anew included.

use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::table::{Entry, Table};
use super::{Marking, NoMemory};
use crate::sys::meta_vec::MetaVec;

/// Which other objects hold a finalizer back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    /// Not while another finalizable object reaches it; an object on a cycle is never finalized.
    Topological,
    /// As topological, but direct pointers from the object to itself do not count as a cycle.
    IgnoreSelf,
    /// As soon as it is unreachable, in any order, cycles or not.
    NoOrder,
    /// As topological, and also not while an object with an unordered finalizer reaches it.
    Unreachable,
}

/// A function to run when an object has died.
#[derive(Clone, Copy, Debug)]
pub struct Finalizer {
    /// Called with the object's address and `data`.
    pub function: unsafe extern "C" fn(object: *mut c_void, data: *mut c_void),
    /// Kept alive as long as the finalizer is registered or waiting to run.
    pub data: *mut c_void,
    /// What it waits for.
    pub order: Order,
}

/// A finalizer in the table.
#[derive(Clone, Copy)]
pub(crate) struct Registered {
    pub(crate) object: usize,
    function: unsafe extern "C" fn(*mut c_void, *mut c_void),
    data: usize,
    next: u32,
    pub(crate) order: Order,
}

impl Registered {
    fn finalizer(&self) -> Finalizer {
        Finalizer { function: self.function, data: self.data as *mut c_void, order: self.order }
    }
}

impl Entry for Registered {
    fn key(&self) -> usize {
        self.object
    }
    fn next(&self) -> u32 {
        self.next
    }
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

/// Told of each object whose finalizer became ready, world stopped: it must neither allocate nor lock.
pub type ReadyObserver = unsafe extern "C" fn(object: *mut c_void);

/// The table of registered finalizers and the queue of those that are to run.
pub(crate) struct Finalizers {
    pub(crate) table: Table<Registered>,
    /// Found dead, not yet run. The object and what it reaches are kept alive.
    ready: MetaVec<Registered>,
    /// Room for a cycle's list of indices into the table.
    pub(crate) scratch: MetaVec<u32>,
    observer: Option<ReadyObserver>,
}

/// Length of the ready queue, for looking without the lock. Written under it, or with the world stopped.
static READY: AtomicUsize = AtomicUsize::new(0);

impl Finalizers {
    pub(crate) const fn new() -> Self {
        Self { table: Table::new(), ready: MetaVec::new(), scratch: MetaVec::new(), observer: None }
    }

    pub(crate) fn set(
        &mut self,
        object: usize,
        new: Option<Finalizer>,
    ) -> Result<Option<Finalizer>, NoMemory> {
        let Some(new) = new else {
            return Ok(self.table.remove(object).map(|old| old.finalizer()));
        };
        let mut entry = Registered {
            object,
            function: new.function,
            data: new.data as usize,
            next: 0,
            order: new.order,
        };
        if let Some(old) = self.table.get_mut(object) {
            let before = old.finalizer();
            entry.next = old.next;
            *old = entry;
            return Ok(Some(before));
        }
        let room = self.table.len() + 1;
        self.ready.try_reserve(room).map_err(|_| NoMemory)?;
        self.scratch.try_reserve(room).map_err(|_| NoMemory)?;
        self.table.insert(entry)?;
        Ok(None)
    }

    pub(crate) fn trace_roots<M: Marking>(&self, marking: &mut M) {
        for entry in self.ready.iter() {
            marking.mark(entry.object);
            marking.mark_word(entry.data);
        }
        for entry in self.table.entries() {
            if entry.data != 0 {
                marking.mark_word(entry.data);
            }
        }
    }

    /// Moves the entry at `index` to the ready queue; the last entry gets its index.
    pub(crate) fn queue(&mut self, index: usize) {
        let entry = self.table.remove_at(index);
        self.ready.push(entry);
        if let Some(observer) = self.observer {
            // SAFETY: whoever set the observer promised that it may be called so.
            unsafe { observer(entry.object as *mut c_void) };
        }
    }

    pub(crate) fn take_ready(&mut self) -> Option<(usize, Finalizer)> {
        self.ready.pop().map(|entry| (entry.object, entry.finalizer()))
    }

    #[cfg(test)]
    pub(crate) fn ready_objects(&self) -> Vec<usize> {
        let mut objects: Vec<usize> = self.ready.iter().map(|entry| entry.object).collect();
        objects.sort_unstable();
        objects
    }

    pub(crate) fn publish_ready(&self) {
        READY.store(self.ready.len(), Relaxed);
    }
}

/// Registers, replaces or (with `None`) removes the finalizer of the object that starts at `object`, and gives the former one.
///
/// # Errors
/// There is no memory for the table; nothing has changed then.
pub fn set(object: usize, new: Option<Finalizer>) -> Result<Option<Finalizer>, NoMemory> {
    super::with(|refs| refs.finalizers.set(object, new))
}

/// The finalizer that is registered for the object that starts at `object`.
pub fn get(object: usize) -> Option<Finalizer> {
    super::with(|refs| refs.finalizers.table.get(object).map(Registered::finalizer))
}

/// How many objects have a finalizer that has not become ready.
pub fn registered() -> usize {
    super::with(|refs| refs.finalizers.table.len())
}

/// How many finalizers are ready to run. No lock; what another thread does meanwhile may not show.
#[inline]
pub fn ready() -> usize {
    READY.load(Relaxed)
}

/// Runs what is ready, and what becomes ready meanwhile, on this thread; gives how many ran. No lock is held during a call.
pub fn run_ready() -> usize {
    let mut count = 0;
    while let Some((object, finalizer)) = take_one() {
        // From here on the object is kept alive by this frame alone, which is scanned like any other.
        // SAFETY: the function was registered for this object, and each registration is taken off the queue once.
        unsafe { (finalizer.function)(object as *mut c_void, finalizer.data) };
        count += 1;
    }
    count
}

/// Takes one finalizer off the ready queue; the caller has to run it.
pub fn take_one() -> Option<(usize, Finalizer)> {
    if ready() == 0 {
        return None;
    }
    super::with(|refs| {
        let taken = refs.finalizers.take_ready();
        refs.finalizers.publish_ready();
        taken
    })
}

/// Makes every registered finalizer ready, whether its object is dead or not; gives how many. For the end of a program.
pub fn make_all_ready() -> usize {
    super::with(|refs| {
        let count = refs.finalizers.table.len();
        for index in (0..count).rev() {
            refs.finalizers.queue(index);
        }
        refs.finalizers.publish_ready();
        count
    })
}

/// Sets who is told of each object that becomes ready.
pub fn set_ready_observer(observer: Option<ReadyObserver>) {
    super::with(|refs| refs.finalizers.observer = observer);
}
