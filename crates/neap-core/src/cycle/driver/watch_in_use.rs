//! The watch that cycles beside the program use: opened before the first cycle that does not fit
//! into a stop, and again where that came to nothing.
//!
//! Invariant: there is a mode for cycles beside the program exactly where
//! [`collector::watching`] says so. Opened by a mutator that wants a cycle, or by who asks which
//! watch it is.

use core::sync::atomic::{AtomicU32, Ordering::*};

use super::between_steps;
use crate::cycle::collector::{self, Collector};
use crate::cycle::modes::Mode;
use crate::cycle::patience;
use crate::heap::HEAP;
use crate::sync::function::AtomicFunction;
use crate::sys::side_stack;
use crate::watch::choose::Watching;
use crate::world::{attach, critical};

const NONE: u32 = Watching::None as u32;

/// What [`open`] opens again, as a number: what the parent of a forked child used, until the
/// child's first cycle; or what a program closed, until the next cycle.
static LATER: AtomicU32 = AtomicU32::new(NONE);

/// Has a watch chosen by [`choose_first`]; none once one is. A program that has short stops only
/// does without: finding out what works takes some thirty system calls.
static CHOOSE: AtomicFunction<fn(bool) -> bool> = AtomicFunction::none();

/// Has the first cycle that needs it, or who asks before, choose the watch by that function, which
/// hands on whether its caller waits and what [`choose_first`] says.
pub fn choose_with(choose: fn(bool) -> bool) {
    CHOOSE.set(Some(choose));
    collector::set_unopened(true);
}

fn choose(waits: bool) -> bool {
    CHOOSE.get().is_none_or(|choose| choose(waits))
}

/// Has `choose` say which watch to [`enable`], unless another thread has done so. False if it was
/// not asked, as [`patience::lock`] says. No stop finds the caller elsewhere than on its own stack.
pub fn choose_first(waits: bool, choose: impl FnOnce(&mut Collector)) -> bool {
    let first = |collector: &mut Collector| {
        if CHOOSE.set(None).is_some() {
            let _critical = critical::enter();
            side_stack::on(|| choose(collector));
            collector::set_unopened(false);
        }
    };
    let mutator = attach::current();
    if mutator.holds.load(Relaxed) > 0 {
        collector::held(mutator, first);
        return true;
    }
    patience::lock(waits).map(|mut collector| first(&mut collector)).is_some()
}

/// Cycles run beside the program from now on, if this way of watching has such. False if the system
/// does not allow it.
pub fn enable(collector: &mut Collector, watching: Watching) -> bool {
    let Some(mode) = Mode::open(watching, &HEAP) else { return watching == Watching::None };
    if let Some(state) = between_steps::take(collector) {
        state.mode = Some(mode);
        between_steps::put_back(collector, state);
        collector::set_watching(watching);
    }
    true
}

/// What is in use, or will be from the first cycle on. Not in a stop, nor with a lock held.
pub fn watching() -> Watching {
    choose(true);
    known()
}

/// The same, without a choice that nobody has made yet.
fn known() -> Watching {
    match collector::watching() {
        Watching::None => Watching::from_number(LATER.load(Relaxed)),
        watching => watching,
    }
}

/// Has [`open`] open again what is in use: the program closed it, or forked and this is the child.
pub fn open_again_later() {
    let watching = known();
    LATER.store(watching as u32, Relaxed);
    collector::set_unopened(CHOOSE.is_set() || watching != Watching::None);
}

/// Opens what was left for later, now that there is to be a cycle: a child of `fork` that never
/// collects does without. One that is refused what its parent was allowed stops the world. False
/// if it was left, as [`patience::lock`] says.
pub fn open(waits: bool) -> bool {
    if !choose(waits) {
        return false;
    }
    if LATER.load(Relaxed) != NONE {
        let Some(mut collector) = patience::lock(waits) else { return false };
        let _ = enable(&mut collector, Watching::from_number(LATER.swap(NONE, AcqRel)));
        collector::set_unopened(false);
    }
    true
}
