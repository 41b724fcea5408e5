//! A sampled allocation: its stack is walked, and the object followed from here on.
//!
//! Invariant: outside critical sections but for the entry itself; the caller keeps the object.
//! Called by the mutator that allocated, rarely.

use core::sync::atomic::Ordering::Relaxed;

use crate::addr::PAGE_BYTES;
use crate::heap::layout::LayoutId;
use crate::heap::samples::{self, Made};
use crate::stats::sampler;
use crate::sys::{thread, unwind};
use crate::world::mutator::Mutator;
use crate::world::stacks;

/// Frames that are kept of a stack, from the innermost. Larger: the roots of deep recursions;
/// smaller: less memory for sites.
const DEPTH: usize = 64;

/// Begins sampling, one object in `mean` bytes. Called at start-up.
pub fn begin(mean: u64) {
    unwind::prepare();
    sampler::set_mean(mean);
}

/// The object just made is a sample.
#[cold]
#[inline(never)]
pub fn note(mutator: &Mutator, object: *mut u8, bytes: usize, layout: Option<LayoutId>) {
    let mut frames = [0; DEPTH];
    let depth = unwind::walk(end_of_stack(mutator), &mut frames);
    let _critical = mutator.critical();
    samples::lock().note(object as usize, Made { bytes, layout, frames: &frames[..depth] });
}

/// An object was freed.
#[inline]
pub fn freed(mutator: &Mutator, object: usize) {
    if sampler::mean() != 0 && samples::may_hold(object) {
        let _critical = mutator.critical();
        samples::lock().forget(object);
    }
}

/// Where the stack ends that the calling thread stands on; where nobody said what that is, no more
/// than the page, which is readable in any case.
fn end_of_stack(mutator: &Mutator) -> usize {
    let here = thread::stack_pointer();
    let stack = stacks::current(mutator).unwrap_or_else(|| {
        let base = mutator.stack_base.load(Relaxed);
        match mutator.stack_low.load(Relaxed) {
            // The main thread's, which grows: as far as its limit lets it.
            0 => base.saturating_sub(thread::most_stack_bytes())..base,
            low => low..base,
        }
    });
    if stack.contains(&here) { stack.end } else { (here | (PAGE_BYTES - 1)) + 1 }
}
