//! What every mode of marking beside the program does, in this order.
//!
//! Invariant: the steps come in the order in which they stand here; `driver::handshake` sees to
//! that and says who takes which. Each needs the driver token.

use crate::cycle::collector::{Collector, CollectorGuard};
use crate::cycle::phases::written_pages::Unwatched;
use crate::cycle::policy::generation::Generation;
use crate::cycle::token::Driver;
use crate::world::mutator::Mutator;

/// What the last pause left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The cycle is over.
    Nothing,
    /// What can be done with the world running: references, or many frees that were put off.
    Conclusion,
    /// Everything: the world could not be stopped.
    All,
}

/// The steps of a cycle beside the program. `own` is the calling mutator, if it is one.
pub trait MarkingMode {
    /// Whether the program has closed behind our back what this mode needs.
    fn was_closed(&self) -> bool {
        false
    }

    /// Then: ends what goes on beside the program for this mode, which is not used any more. On the
    /// collector's thread.
    fn end_closed(&mut self) {}

    /// Whether marks of one cycle can serve the next: what was written since is known.
    fn has_minor_cycles(&self) -> bool {
        false
    }

    /// Before the roots, world running, on the collector's thread: finishes the last sweep, clears
    /// marks, write-protects. An error where the system refuses: then there is no cycle.
    fn write_protect(
        &mut self,
        driver: &mut Driver,
        generation: Generation,
    ) -> Result<(), Unwatched>;

    /// Reads the roots with the world running, on the collector's thread, with turns for others who
    /// want the collector's lock; false for a mode that needs a pause for them.
    fn read_roots(&mut self, _: &mut Driver, _: &mut CollectorGuard) -> bool {
        false
    }

    /// A first pause comes next, world running, on the collector's thread; others have turns too.
    fn before_first_pause(&mut self, _: &mut Driver, _: &mut CollectorGuard) {}

    /// The first pause; None if the world could not be stopped, as of the other pauses.
    #[must_use]
    fn first_pause(
        &mut self,
        driver: &mut Driver,
        of: &mut Collector,
        own: Option<&Mutator>,
    ) -> Option<()>;

    /// Everything between the roots and the last pause, on the collector's thread.
    fn mark(&mut self, driver: &mut Driver);

    /// Whether a pause in the middle of marking makes the last one shorter. On the collector's
    /// thread, after [`Self::mark`].
    fn wants_middle_pause(&self, _: &Driver) -> bool {
        false
    }

    /// That pause.
    #[must_use]
    fn middle_pause(
        &mut self,
        _: &mut Driver,
        _: &mut Collector,
        _own: Option<&Mutator>,
    ) -> Option<()> {
        Some(())
    }

    /// Everything between that pause and the next one, on the collector's thread; whether that is
    /// another such pause.
    fn mark_again(&mut self, _: &mut Driver) -> bool {
        false
    }

    /// Whether the program writes so fast that the last pause had better begin at once.
    fn stops_at_once(&self) -> bool {
        false
    }

    /// The last pause is late: what was written meanwhile is looked at now. On the collector's
    /// thread.
    fn keep_up(&mut self, _: &mut Driver) {}

    /// The last pause; finishes the cycle, or leaves that to [`Self::conclude`].
    fn remark(&mut self, driver: &mut Driver, of: &mut Collector, own: Option<&Mutator>) -> Left;

    /// What the last pause left, world running; finishes the cycle. On the collector's thread, or
    /// on one that is about to `fork`.
    fn conclude(&mut self, driver: &mut Driver, of: &mut Collector);

    /// The next cycle will be a full one: what the program writes before it need not be known. On
    /// the collector's thread, between cycles.
    fn stop_watching(&mut self) {}

    /// A pause could not be: the cycle is over, with nothing decided. On the collector's thread.
    fn give_up(&mut self) {}

    /// All blocks are swept. On the collector's thread, between cycles.
    fn swept(&mut self) {}
}
