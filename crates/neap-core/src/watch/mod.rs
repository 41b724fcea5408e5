//! Learning what the program wrote while marking was under way.
//!
//! Contract `[watch.inv.rearm-before-scan]`: [`Watch::take_written`] reports a page and arms it again in one step, before the caller reads the page. So a store that the caller's reading misses comes
//! after the arming, and is reported the next time. A page that was never armed counts as written (`[watch.rule.unarmed-written]`).

pub mod choose;
#[cfg(test)]
mod contract;
mod lent;
pub mod mprotect;
pub mod pagemap;
pub mod snapshot;

use core::ops::Range;

use choose::Watching;
use mprotect::Mprotect;
use pagemap::Pagemap;

use crate::heap::HEAP;
use crate::sys::refusal::Refusal;

/// The watches, as one type.
pub enum AnyWatch {
    /// The kernel keeps account.
    Pagemap(Pagemap),
    /// A handler of faults does.
    Mprotect(Mprotect),
}

impl AnyWatch {
    /// Opens a watch for the process's heap; None where the system refuses, and for what is no write watch.
    pub fn open(watching: Watching) -> Option<Self> {
        let span = HEAP.base().0..HEAP.base().0 + HEAP.reserved();
        match watching {
            Watching::Pagemap => Pagemap::open().ok().map(Self::Pagemap),
            Watching::Mprotect => Mprotect::open(span).ok().map(Self::Mprotect),
            Watching::Fork | Watching::Snapshot | Watching::None => None,
        }
    }

    /// Whether it watches any private memory of the process, at no risk to what the program does there; the others watch the heap alone.
    pub fn takes_any_memory(&self) -> bool {
        matches!(self, Self::Pagemap(_))
    }

    /// Whether the program has closed it behind our back.
    pub fn was_closed(&self) -> bool {
        match self {
            Self::Pagemap(watch) => watch.was_closed(),
            Self::Mprotect(_) => false,
        }
    }

    /// Puts right what the program may have changed since the last cycle. World running, before anything is armed.
    pub fn begin(&mut self) -> Result<(), Refusal> {
        match self {
            Self::Pagemap(_) => Ok(()),
            Self::Mprotect(watch) => watch.begin(),
        }
    }

    /// Which one it is.
    pub fn watching(&self) -> Watching {
        match self {
            Self::Pagemap(_) => Watching::Pagemap,
            Self::Mprotect(_) => Watching::Mprotect,
        }
    }
}

impl Watch for AnyWatch {
    fn register(&mut self, range: &Range<usize>) -> Result<(), Refusal> {
        match self {
            Self::Pagemap(watch) => watch.register(range),
            Self::Mprotect(watch) => watch.register(range),
        }
    }

    fn take_written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        match self {
            Self::Pagemap(watch) => watch.take_written(range, written),
            Self::Mprotect(watch) => watch.take_written(range, written),
        }
    }

    fn disarm(&mut self, range: &Range<usize>) {
        match self {
            Self::Pagemap(watch) => watch.disarm(range),
            Self::Mprotect(watch) => watch.disarm(range),
        }
    }

    fn written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        match self {
            Self::Pagemap(watch) => watch.written(range, written),
            Self::Mprotect(watch) => watch.written(range, written),
        }
    }
}

/// A way to learn which pages were written.
pub trait Watch {
    /// Begins to watch a range of whole pages. An error where the system refuses: the range then counts as written for ever.
    fn register(&mut self, range: &Range<usize>) -> Result<(), Refusal>;

    /// The pages of a range count as written until they are armed again, and writing to them costs nothing.
    fn disarm(&mut self, range: &Range<usize>);

    /// Calls `written` for every range of pages in `range` that was written since it was armed last, and arms it again. An error where the system refuses; then everything
    /// counts as written.
    fn take_written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal>;

    /// The same without arming anything, so that every page is reported again the next time. With the world stopped, when nobody writes, it is the quicker question.
    fn written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal>;
}
