//! Finalizers: a function and its data for an object, run once after the object was found dead.
//!
//! Invariant: a registered object is in the registry, a dead one in a batch, never in both; taking
//! a call off a batch and running it are one thread's. Finalizers run on the thread that calls
//! [`run_ready`] or on those of the pool, with no lock held and the world running, so they may do
//! anything, registering themselves anew included. Registration takes no lock.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering::*};

use super::batch::{self, Call, Filling};
use super::held_for_ever::HeldForEver;
use super::registrations::{Registry, kind_of, object_of, void};
use super::slab::{Entry, Own};
use super::{marked_at_registration, pool, runner};
use crate::refs::handles::retargeted;
use crate::refs::{Marking, NoMemory, with_own};
use crate::sync::function::function_at;
use crate::sys::meta_vec::MetaVec;

pub use super::pool::{is_automatic, set_automatic, start_if_needed};
pub use super::runner::{ReadyObserver, set_ready_observer, tell_ready};

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

impl Order {
    pub(super) fn kind(self) -> usize {
        self as usize + 1
    }

    /// The order of an entry of this kind.
    pub(crate) fn of_kind(kind: usize) -> Self {
        match kind {
            1 => Self::Topological,
            2 => Self::IgnoreSelf,
            4 => Self::Unreachable,
            _ => Self::NoOrder,
        }
    }
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

/// All registered finalizers.
pub(crate) struct Finalizers {
    pub(crate) registry: Registry,
    /// Whether one that is ordered was ever registered.
    pub(crate) ordered: AtomicBool,
}

/// What processing finalizers needs; protected by the lock on what was found.
pub(crate) struct Processing {
    /// Calls found by this cycle.
    pub(crate) filling: Filling,
    /// Dead objects' entries in orders that depend on each other.
    pub(crate) dead: MetaVec<usize>,
    /// Objects of this cycle that wait for themselves.
    pub(crate) held_for_ever: HeldForEver,
}

impl Processing {
    pub(crate) const fn new() -> Self {
        Self { filling: Filling::new(), dead: MetaVec::new(), held_for_ever: HeldForEver::new() }
    }
}

fn finalizer(entry: &Entry, word: usize) -> Finalizer {
    // SAFETY: stored by `set` from such a function.
    let function = unsafe { function_at(entry.function.load(Relaxed)) };
    let data = entry.data.load(Relaxed) as *mut c_void;
    Finalizer { function, data, order: Order::of_kind(kind_of(word)) }
}

/// Makes the entry void and gives what it said; None if somebody else did.
fn take_back(entry: &Entry) -> Option<Finalizer> {
    let word = entry.object.load(Acquire);
    let former = finalizer(entry, word);
    void(entry, word).then_some(former)
}

impl Finalizers {
    pub(crate) const fn new() -> Self {
        Self { registry: Registry::new(), ordered: AtomicBool::new(false) }
    }

    pub(crate) fn set_from(
        &self,
        own: &Own,
        object: usize,
        new: Option<Finalizer>,
    ) -> Result<Option<Finalizer>, NoMemory> {
        let taken_back = |former: Option<_>, entry| former.or(take_back(entry));
        // Another thread may be about to take back what is older than its own.
        let Some(new) = new else { return Ok(self.registry.of(object).fold(None, taken_back)) };
        let data = new.data as usize;
        if new.order != Order::NoOrder && !self.ordered.load(Relaxed) {
            self.ordered.store(true, SeqCst);
        }
        let added =
            self.registry.add(own, object, new.order.kind(), new.function as usize, data)?;
        marked_at_registration::note(own, data);
        // Of several threads that register at a time the last one's stays: each takes back what is
        // older than its own.
        let all = self.registry.of(object);
        let older = all.skip_while(|entry| !core::ptr::eq(*entry, added)).skip(1);
        Ok(older.fold(None, taken_back))
    }

    pub(crate) fn get(&self, object: usize) -> Option<Finalizer> {
        let entry = self.registry.of(object).next()?;
        Some(finalizer(entry, entry.object.load(Acquire)))
    }

    /// How many are registered.
    pub(crate) fn count(&self) -> usize {
        let mut count = 0;
        self.registry.for_each(|_| count += 1);
        count
    }

    /// Makes all registered finalizers ready.
    pub(crate) fn take_all(&self, own: &Own, filling: &mut Filling) -> usize {
        let mut count = 0;
        self.registry.for_each(|entry| {
            let word = entry.object.load(Acquire);
            let call = call_of(entry, word);
            if filling.reserve().is_ok() && void(entry, word) {
                // It may be dead in a snapshot, and nothing weak lead to it.
                retargeted::note([call.object]);
                marked_at_registration::note(own, call.object);
                marked_at_registration::note(own, call.data);
                filling.push(call);
                count += 1;
            }
        });
        filling.publish();
        count
    }
}

/// What an entry asks to be called.
pub(crate) fn call_of(entry: &Entry, word: usize) -> Call {
    Call {
        function: entry.function.load(Relaxed),
        object: object_of(word),
        data: entry.data.load(Relaxed),
    }
}

/// Marks what batches keep alive and what the data of registered finalizers are. By the cycle.
pub(crate) fn trace<M: Marking>(finalizers: &Finalizers, marking: &mut M) {
    finalizers.registry.for_each_with_data(|entry| marking.mark_word(entry.data.load(Relaxed)));
    batch::all().for_each(|batch| batch.for_each_kept(|word| marking.mark_word(word)));
}

/// Registers, replaces or (with `None`) removes the finalizer of the object that starts at
/// `object`, and gives the former one.
///
/// # Errors
/// There is no memory for the registration; nothing has changed then.
#[inline]
pub fn set(object: usize, new: Option<Finalizer>) -> Result<Option<Finalizer>, NoMemory> {
    if new.is_some() {
        pool::before_registration();
    }
    with_own(|own| crate::refs::FINALIZERS.set_from(own, object, new))
}

/// The finalizer that is registered for the object that starts at `object`.
pub fn get(object: usize) -> Option<Finalizer> {
    with_own(|_| crate::refs::FINALIZERS.get(object))
}

/// How many objects have a finalizer that has not become ready. Counts them.
pub fn registered() -> usize {
    with_own(|_| crate::refs::FINALIZERS.count())
}

/// How many finalizers and cleaners are ready to run. No lock; what another thread does meanwhile
/// may not show.
#[inline]
pub fn ready() -> usize {
    if batch::waiting() == 0 { 0 } else { batch::all().map(batch::Batch::left).sum() }
}

/// Runs what is ready, and what becomes ready meanwhile, on this thread; gives how many ran. No
/// lock is held during a call. An exception of the program passes through.
pub fn run_ready() -> usize {
    run_ready_at_most(usize::MAX)
}

/// The same for so many at most: what else is ready stays so.
pub fn run_ready_at_most(most: usize) -> usize {
    if batch::waiting() == 0 { 0 } else { runner::run_passing(most) }
}

/// How long who waits for all sleeps before it looks again for something to do itself.
const LOOK_NS: u64 = 10_000_000;

/// Runs what is ready, and returns when all that was ready at the call has run, on whatever thread;
/// gives how many this one ran. What becomes ready meanwhile is left to others. In a finalizer it
/// does not wait: it would wait for itself.
pub fn run_all_found() -> usize {
    let last = batch::last_number();
    let nested = runner::is_running();
    let mut count = 0;
    loop {
        let seen = runner::over();
        count += runner::run_up_to(last);
        if batch::is_any_ready() {
            // Newer ones, which nobody saw while older ones were looked for.
            pool::wake();
        }
        let done = batch::all().all(|batch| batch.number.load(Relaxed) > last || batch.is_over());
        if done || nested {
            return count;
        }
        runner::wait_for_batch(seen, LOOK_NS);
    }
}

/// Makes every registered finalizer and cleaner ready, whether its object is dead or not; gives how
/// many. The caller holds collections off, and has said that dead objects may come back.
pub(crate) fn make_all_ready() -> usize {
    let count = crate::refs::with_found(|found| {
        let filling = &mut found.lock().processing.filling;
        with_own(|own| {
            crate::refs::FINALIZERS.take_all(own, filling)
                + crate::refs::CLEANERS.take_all(own, filling)
        })
    });
    pool::wake();
    count
}

#[cfg(test)]
impl Finalizers {
    /// As [`set`], for a test's own table, whose objects are numbers.
    pub(crate) fn set(
        &self,
        object: usize,
        new: Option<Finalizer>,
    ) -> Result<Option<Finalizer>, NoMemory> {
        self.set_from(crate::refs::fake_marking::own(), object << 32, new)
    }
}
