//! Learning what the program wrote while marking was under way.
//!
//! Contract `[watch.inv.protect-before-scan]`: [`Watch::take_written`] reports a page and protects
//! it again in one step, before the caller reads the page. So a store that the caller's reading
//! misses comes after the protecting, and is reported the next time. A page that was never
//! protected counts as written (`[watch.rule.unprotected-written]`).

pub mod choose;
#[cfg(test)]
mod contract;
mod lent;
pub mod mapping_turns;
pub mod mprotect;
pub mod pagemap;
pub mod snapshot;

use core::ops::Range;

use crate::addr::PAGE_BYTES;
use crate::sys::refusal::Refusal;

/// A way to learn which pages were written. Used by one thread at a time, but for what takes it by
/// a shared reference.
pub trait Watch: Sync {
    /// Whether it watches any private memory of the process, at no risk to what the program does
    /// there; the others watch the heap alone.
    fn takes_any_memory(&self) -> bool {
        false
    }

    /// Whether the program has closed it behind our back.
    fn was_closed(&self) -> bool {
        false
    }

    /// Puts right what the program may have changed since the last cycle. World running, before
    /// anything is protected.
    fn begin(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Begins to watch a range of whole pages. An error where the system refuses: the range then
    /// counts as written for ever.
    fn register(&mut self, range: &Range<usize>) -> Result<(), Refusal>;

    /// The pages of a range count as written until they are protected again, and writing to them
    /// costs nothing.
    fn unprotect(&mut self, range: &Range<usize>);

    /// Calls `written` for every range of pages in `range` that was written since it was protected
    /// last, and protects it again. An error where the system refuses; then everything counts as
    /// written.
    fn take_written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal>;

    /// The same until about `most_pages` were reported; gives where it ended. So what is to be read
    /// after one question has a bound.
    fn take_some_written(
        &mut self,
        range: &Range<usize>,
        most_pages: usize,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<usize, Refusal> {
        let end = range.end.min(range.start + most_pages * PAGE_BYTES);
        self.take_written(&(range.start..end), written)?;
        Ok(end)
    }

    /// The same without protecting anything, so that every page is reported again the next time.
    /// With the world stopped, when nobody writes, it is the quicker question, and several threads
    /// may ask at once.
    fn written(
        &self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal>;
}
