//! The world: the program's threads, how they are stopped, and where their roots are.
//!
//! Invariant `[world.inv.stopped]`: a [`Stopped`] exists only while every mutator but the one that
//! holds it is stopped outside any critical section, or is in a blocked region. Functions that need
//! that take `&Stopped`.

pub mod after_hold;
mod answers;
pub mod attach;
mod backoff;
pub mod blocked;
pub mod correction;
pub mod critical;
#[cfg_attr(miri, path = "current/current_under_miri.rs")]
pub mod current;
pub mod host;
pub mod last_thread;
pub mod late;
pub mod mutator;
pub mod registry;
mod root_copy;
pub mod roots;
pub mod stacks;
pub mod stop;
pub mod stop_signal;
pub mod suspension;
mod thread_end;
pub mod while_stopped;

use core::marker::PhantomData;
use core::ops::Range;

use mutator::Mutator;
use registry::Registry;

/// How mutators are stopped, and who knows their roots. The threads of a POSIX process
/// ([`stop::Posix`]) unless a host brought its own ([`host::Host`]).
pub trait World: Sync {
    /// Whether the loader's lock is held while the world is being stopped, so that no object is
    /// loaded between the list of them and the stop. A host that asks for the loader's lock while
    /// it holds the lock of its own threads cannot allow that.
    fn stops_under_loader_lock(&self) -> bool;
    /// Whether loaded objects hold roots of this world: always, but for a test's.
    fn has_images(&self) -> bool {
        true
    }
    /// Whether the calling thread can stop this world. One that cannot leaves cycles to others.
    fn may_be_stopped_here(&self) -> bool;
    /// Stops every mutator but `own`, the caller if it is one, outside critical sections. The
    /// registry stays locked by the caller until the resume. None if it cannot: then all run, and
    /// there is nothing to resume.
    fn stop(&self, registry: &mut Registry, own: Option<&Mutator>) -> Option<Stopped>;
    /// Whether [`stop::stop_one`] can stop a mutator while the others run.
    fn stops_one_by_one(&self) -> bool;
    /// Whether the collector's own thread, which asks, can stop all for a moment.
    fn stops_for_collector(&self) -> bool {
        self.stops_one_by_one()
    }
    /// Lets the world run again, and says since when it does, by the clock in nanoseconds: that the
    /// caller may wait for a processor from then on, which the others are using, is no part of the
    /// stop.
    fn resume(&self, stopped: Stopped) -> u64;
    /// Whether [`World::for_each_root`] names the mutator's stack, registers and thread-local
    /// storage.
    fn names_roots_of(&self, mutator: &Mutator, stopped: &Stopped) -> bool;
    /// Calls `visit` with each range of roots that the world itself knows; `own` is the caller.
    fn for_each_root(
        &self,
        own: Option<&Mutator>,
        stopped: &Stopped,
        visit: &mut dyn FnMut(Range<usize>),
    );
}

/// The world of this process.
pub fn the() -> &'static dyn World {
    match host::get() {
        Some(host) => host,
        None => &stop::Posix,
    }
}

/// The world is stopped for as long as this exists. Only [`World::stop`] makes one, and
/// [`World::resume`] takes it.
pub struct Stopped(Standing);

/// The mutator at hand stands for as long as this exists: alone, by [`stop::stop_one`] until
/// [`stop::resume_one`], or with the whole world.
pub struct Standing(PhantomData<*const ()>);

impl Standing {
    /// The calling thread's own mutator, in the handler.
    fn here() -> Self {
        Self(PhantomData)
    }
}

impl Stopped {
    /// For a world of a test, where nobody runs.
    #[cfg(test)]
    pub fn in_test() -> Self {
        Self(Standing::here())
    }

    /// Each mutator of a stopped world stands.
    pub fn standing(&self) -> &Standing {
        &self.0
    }
}
