//! What the front ends tell the `mprotect` watch: memory that the kernel is about to write to, and
//! stacks that it puts frames of signals onto.
//!
//! Invariant: what is told here counts from then on, whether a watch is open or not, and over a
//! `fork`. Called on any thread, also in handlers.

use core::ops::Range;
use core::sync::atomic::Ordering::*;

use super::{SHARED, is_open, object_below};

/// This process is going to be watched this way: what is kept from now on is kept before a watch is
/// open, too, and over a `fork`. False if there is no memory for that.
pub fn prepare(span: &Range<usize>) -> bool {
    SHARED.make_own().is_ok() && SHARED.make_lendable(span).is_ok()
}

/// The kernel may write to this range at any moment from now on, as long as objects are there: it
/// is not protected. What does not lie in the heap is passed over.
pub fn keep(range: &Range<usize>) {
    if SHARED.lendable(range).is_some() {
        SHARED.alone(|| SHARED.keep(range));
    }
}

/// The same for the object that a stack lies in, of which `stack_pointer` is a position.
pub fn keep_stack(stack_pointer: usize) {
    let below = stack_pointer.wrapping_sub(1);
    let page = SHARED.lendable(&(below..stack_pointer));
    if page.is_some_and(|page| !SHARED.lent.is_kept(page.start))
        && let Some(object) = object_below(stack_pointer)
    {
        keep(&object);
    }
}

/// In the child of a `fork`, before anything else: the watch is its parent's.
pub fn after_fork() {
    SHARED.own_word().inspect(|word| word.store(0, Relaxed));
}

/// Whether calls have to lend: a watch is open, or may be before they return.
pub fn has_to_lend() -> bool {
    SHARED.lent_start.load(Relaxed) != 0
}

/// Lets the kernel write to the watched pages of a range until [`take_back`] is called with the
/// answer, also where they come to be watched meanwhile; None if there are none.
pub fn lend(range: &Range<usize>) -> Option<Range<usize>> {
    let pages = SHARED.lendable(range)?;
    SHARED.alone(|| {
        SHARED.lent.lend(pages.clone());
        if is_open() {
            SHARED.let_write_all(pages.clone());
        }
    });
    Some(pages)
}

/// The call that these pages were lent to has returned.
pub fn take_back(pages: Range<usize>) {
    SHARED.alone(|| has_to_lend().then(|| SHARED.lent.take_back(pages)));
}
