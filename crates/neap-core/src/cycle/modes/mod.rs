//! The ways to mark: which steps a cycle beside the program has is the same for all, what the steps
//! do is not.
//!
//! Invariant: the steps come in the order in which [`MarkingMode`] has them. A mode keeps what it
//! needs from step to step and from cycle to cycle; it is reached only by who has the driver token.
//! Stopping the world for the whole of marking ([`stop_the_world`]) is one step, and keeps nothing.

pub mod copy_before_write;
pub mod fork;
pub mod incremental_update;
pub mod marking_mode;
pub mod rescanning;
pub mod snapshot_modes;
pub mod stop_the_world;

use copy_before_write::CopyBeforeWrite;
use fork::Fork;
use incremental_update::IncrementalUpdate;
use marking_mode::MarkingMode;

use core::sync::atomic::Ordering::Relaxed;

use crate::heap::Heap;
use crate::watch::choose::Watching;
use crate::watch::mprotect::Mprotect;
use crate::watch::pagemap::Pagemap;
use crate::watch::snapshot::Snapshot;

/// A mode of marking beside the program.
pub enum Mode {
    /// Under the kernel's write watch.
    Pagemap(IncrementalUpdate<Pagemap>),
    /// Under a write watch by faults.
    Mprotect(IncrementalUpdate<Mprotect>),
    /// In a child process.
    Fork(Fork),
    /// The heap as it was, pages being copied before they are written.
    CopyBeforeWrite(CopyBeforeWrite),
    /// A mode of a test's own.
    #[cfg(test)]
    Tested(Box<dyn MarkingMode + Send>),
}

impl Mode {
    /// What goes with a way of watching; None where the system refuses, or where cycles stop the
    /// world.
    pub fn open(watching: Watching, heap: &'static Heap) -> Option<Self> {
        let span = heap.base().0..heap.base().0 + heap.reserved();
        heap.state.lends_blocks.store(watching == Watching::Pagemap, Relaxed);
        Some(match watching {
            Watching::None => return None,
            Watching::Pagemap => Self::Pagemap(IncrementalUpdate::new(heap, Pagemap::open().ok()?)),
            Watching::Mprotect => {
                Self::Mprotect(IncrementalUpdate::new(heap, Mprotect::open(span).ok()?))
            }
            Watching::Fork => Self::Fork(Fork::new()),
            Watching::Snapshot => {
                let watch = Snapshot::open(&heap.before_images).ok()?;
                Self::CopyBeforeWrite(CopyBeforeWrite::new(heap, watch))
            }
        })
    }

    /// Its steps.
    pub fn steps(&mut self) -> &mut dyn MarkingMode {
        match self {
            Self::Pagemap(mode) => mode,
            Self::Mprotect(mode) => mode,
            Self::Fork(mode) => mode,
            Self::CopyBeforeWrite(mode) => mode,
            #[cfg(test)]
            Self::Tested(mode) => &mut **mode,
        }
    }

    /// In the child of a `fork`, where this is not used any more: closes what it has open, and
    /// leaves its memory where it is. The parent's thread may have been giving some of that back at
    /// that very moment, and what lies there now is another's.
    pub fn leave_to_parent(self) {
        match self {
            Self::Pagemap(mode) => mode.close_watch(),
            Self::Mprotect(mode) => mode.close_watch(),
            Self::Fork(mode) => core::mem::forget(mode),
            Self::CopyBeforeWrite(mode) => mode.leave_to_parent(),
            #[cfg(test)]
            Self::Tested(mode) => core::mem::forget(mode),
        }
    }
}
