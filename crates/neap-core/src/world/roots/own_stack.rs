//! Where stacks lie: a thread's own, and those that nobody declared, on which one may be found.
//!
//! Invariant: of its own stack it is known where it ends, and not always how far down it reaches:
//! then the kernel is asked, or it is taken for what can be read below its end. Of one that nobody
//! declared nothing is known, and what lies around it may be another thread's, who unmaps it: it is
//! read from copies, and only in stops of all. Called by who reads roots, of mutators that stand,
//! and by a mutator that copies its own.
//!
//! # Safety
//!
//! Reads a variable of the front end's, which lives for ever.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::heap::HEAP;
use crate::sys::process::mappings::{self, readable};
use crate::sys::thread;
use crate::world::correction;
use crate::world::mutator::Mutator;
use crate::world::stacks::stack::Stack;

/// Where the program keeps the first thread's current stack base; 0 if nowhere.
static MAIN_STACK_BASE: AtomicUsize = AtomicUsize::new(0);

/// From now on, while `source` is not 0, it says where the first thread's stack ends.
pub fn set_main_stack_base_source(source: &'static AtomicUsize) {
    MAIN_STACK_BASE.store(core::ptr::from_ref(source) as usize, Release);
}

/// The stack that a mutator says is its own, as far as the program does not say otherwise.
pub(super) fn own_stack(mutator: &Mutator) -> Range<usize> {
    let own = mutator.stack_low.load(Relaxed)..mutator.stack_base.load(Relaxed);
    // SAFETY: 0, or a variable that lives for ever.
    let source = unsafe { (MAIN_STACK_BASE.load(Acquire) as *const AtomicUsize).as_ref() };
    match source.map(|source| source.load(Relaxed)) {
        Some(base) if base != 0 && mutator.is_first.load(Relaxed) => 0..base,
        _ => own,
    }
}

/// A stack whose lowest address is not known is believed to reach this far down; further, the
/// kernel is asked.
pub(super) const BELIEVED_BYTES: usize = 8 << 20;

/// Whether `position` lies on the stack `own`.
pub(super) fn is_on(own: &Range<usize>, position: usize) -> bool {
    // Below a thread's own stack others may lie. Guards within a mapping are not seen so; to have
    // the kernel look at the pages takes 3 ms for 64 MB of them, in each stop.
    let reaches = || match own.start {
        0 => mappings::mapping_of(position).is_some_and(|mapping| mapping.end >= own.end),
        _ => !mappings::may_have_hole(&(position..own.end)),
    };
    own.contains(&position) && (own.end - position <= BELIEVED_BYTES || reaches())
}

/// Where to begin to read the stack `own`, whose position the program has put at `position`; None
/// if that lies on another stack. What of a stack was never touched may not be there to be read.
pub(super) fn start_of_corrected(own: &Range<usize>, position: usize) -> Option<usize> {
    let mapped = mappings::mapping_of(own.end - 1)?.start;
    let lowest = match own.start {
        0 => mapped.min(own.end.saturating_sub(thread::most_stack_bytes())),
        low => low,
    };
    (lowest..=own.end).contains(&position).then_some(position.max(mapped))
}

/// What is near the end of a stack is written all the time, and where that end is changes by so
/// much from one look to the next.
const RESTLESS_BYTES: usize = 64 << 10;

/// The part of a running mutator's stack that likely stays as it is, by where it stood last: it can
/// be read as long as the mutator is registered. None for what is no ordinary thread on the stack
/// that it was made with.
pub fn resting_stack(mutator: &Mutator) -> Option<Range<usize>> {
    // The system's own stack is one private mapping that reaches down to where it was touched. To
    // ask for that means to read a line for each mapping of the process.
    let is_sure = |stack: &Range<usize>| {
        stack.end == thread::main_stack_base() && stack.len() <= BELIEVED_BYTES
    };
    likely_resting_stack(mutator)
        .filter(|stack| is_sure(stack) || mappings::covering(stack).is_some())
}

/// The same for a mutator that stands, without a look at whether it can be read beside the program.
pub fn likely_resting_stack(mutator: &Mutator) -> Option<Range<usize>> {
    let (position, base) = (mutator.position.load(Acquire), mutator.stack_base.load(Relaxed));
    let control_block = mutator.control_block.load(Relaxed);
    let original = if mutator.is_first.load(Relaxed) {
        MAIN_STACK_BASE.load(Acquire) == 0 && base == thread::main_stack_base()
    } else {
        mutator.stack_low.load(Relaxed) != 0
            && base == control_block + thread::control_block_bytes()
    };
    let start = (position + RESTLESS_BYTES).next_multiple_of(RESTLESS_BYTES);
    let deep = original
        && !correction::is_set()
        && position >= mutator.stack_low.load(Relaxed).max(1)
        && start + RESTLESS_BYTES < base;
    deep.then_some(start..base)
}

/// How memory is read that a thread may unmap which nobody stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fleeting {
    /// From copies, since there may be such a thread.
    Copied,
    /// Where it is: there is no other thread.
    InPlace,
}

impl Fleeting {
    pub(super) fn read(self, range: Range<usize>, visit: &mut impl FnMut(Range<usize>)) {
        match self {
            Self::Copied => readable::for_each_copied(range, visit),
            Self::InPlace => readable::for_each(range, visit),
        }
    }
}

/// Calls `visit` for all of a thread's own stack that can be in use: from where it ends down to its
/// guard.
pub(super) fn visit_own(
    own: &Range<usize>,
    fleeting: Fleeting,
    visit: &mut impl FnMut(Range<usize>),
) {
    let mut lowest = own.start.max(own.end.saturating_sub(thread::MOST_STACK_BYTES));
    // One that is known to reach so far down may consist of several mappings.
    if own.start == 0 || !readable::is_known() {
        let Some(mapping) = mappings::mapping_of(own.end - 1) else { return };
        lowest = lowest.max(mapping.start);
    }
    fleeting.read(readable::end_of(lowest..own.end), visit);
}

/// Calls `visit` for all of a declared stack that can be read.
pub(super) fn visit_declared(stack: &Stack, visit: &mut impl FnMut(Range<usize>)) {
    let mut stack = stack.range();
    // What lies below a guard of its own is in another mapping.
    if !readable::is_known()
        && let Some(mapping) = mappings::mapping_of(stack.end - 1)
    {
        stack.start = stack.start.max(mapping.start);
    }
    readable::for_each(stack, visit);
}

/// Calls `visit` for what a stack that nobody declared, and on which a thread stands at `position`,
/// can hold there: to the end of the object that it lies in, of the mapping, or as far as stacks
/// reach. False where nothing is known.
pub(super) fn visit_undeclared(
    position: usize,
    fleeting: Fleeting,
    visit: &mut impl FnMut(Range<usize>),
) -> bool {
    let end = match HEAP.object_at(position) {
        Some(object) => Some(object.start.0 + object.usable_bytes()),
        // To look at pages that nobody used makes tables for them, and takes as long as if somebody
        // had: a mapping may have terabytes of them.
        None => mappings::mapping_of(position)
            .map(|mapping| mapping.end.min(position.saturating_add(thread::MOST_STACK_BYTES))),
    };
    if let Some(end) = end {
        fleeting.read(position..end, visit);
    }
    end.is_some()
}
