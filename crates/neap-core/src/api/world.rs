//! The world of a host: for programs whose language stops its threads itself.
//!
//! Invariant: once a host is set it stays. [`may_stop`] and [`go_on`] are called from a signal
//! handler.

pub use crate::world::host::{Host, Visit};

use crate::cycle::driver::holding;
use crate::runtime;
use crate::world::host;

/// Has a host stop its threads and name their roots, from the next stop on. False if the world is a
/// host's already. To be called while the host's other threads do not use the collector yet.
pub fn set_host(host: &'static Host) -> bool {
    runtime::initialize();
    // No stop is under way while collections are held.
    holding::hold();
    let set = host::set(host);
    holding::release();
    set
}

/// In a host's signal handler: whether this thread may stop where it stands; if not, `stop_late` is
/// called on it as soon as it may. What it gives is for [`go_on`].
pub fn may_stop() -> Option<u32> {
    Host::may_stop()
}

/// In a host's signal handler, when the host has let the thread go: waits until it has let go of
/// all, 5 ms at most.
pub fn go_on(stopped: u32) {
    Host::go_on(stopped);
}
