//! Roots that a mutator copies itself when it is stopped alone, so that it goes on at once: it does
//! not stand until the thread that asked gets a processor and has read them.
//!
//! Invariant `[world.inv.copied]`: what is offered is there until the mutator has answered or
//! stands, and it copies only while it runs, in its handler: so a reader that found it blocked
//! reads beside nobody. Offered and read by who stops, who holds the registry; taken by the
//! mutator. A copy is as old as the answer: it is good for a reading of roots that a later stop
//! repeats, and for no other.
//!
//! # Safety
//!
//! Copies the calling thread's own stack and thread-local blocks, which stay while it is here, by
//! an instruction of our own, since other frames' variables lie there. The list that is written to
//! belongs to the stop under way, which waits for the answer.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use super::mutator::{Activity, Mutator};
use super::roots::Images;
use super::{Standing, correction};
use crate::addr::WORD_BYTES;
use crate::sys::map;

/// Room for a copy. A mutator with more on its stack waits until it has been read. Larger: a longer
/// stop for those; smaller: more of them wait.
const BYTES: usize = 256 << 10;

/// The room, 0 until the first offer.
static ROOM: AtomicUsize = AtomicUsize::new(0);
/// What is offered: the address of the [`Images`] to read with, or 0.
static OFFERED: AtomicUsize = AtomicUsize::new(0);
/// Words copied; 0: none.
static WORDS: AtomicUsize = AtomicUsize::new(0);

/// Runs `stop`, in which one mutator is asked to stand, and which ends when it has answered. The
/// copy, if it made one and went on.
pub(super) fn offered(images: &Images, stop: impl FnOnce()) -> Option<Range<usize>> {
    if ROOM.load(Relaxed) == 0 {
        ROOM.store(map::allocate(BYTES).map_or(0, |memory| memory.0), Relaxed);
    }
    WORDS.store(0, Relaxed);
    if ROOM.load(Relaxed) != 0 {
        OFFERED.store(core::ptr::from_ref(images) as usize, SeqCst);
    }
    stop();
    OFFERED.store(0, SeqCst);
    let (start, words) = (ROOM.load(Relaxed), WORDS.load(Acquire));
    (words > 0).then(|| start..start + words * WORD_BYTES)
}

/// Copies the roots of the calling thread, in its handler and before it answers; false if it has to
/// stand until they were read.
pub(super) fn take(mutator: &Mutator) -> bool {
    let images = OFFERED.load(SeqCst) as *const Images;
    // SAFETY: 0, or the list of the stop under way: who owns it waits for our answer, since we run.
    let Some(images) = (unsafe { images.as_ref() }) else { return false };
    if mutator.activity() != Activity::Running
        || correction::is_set()
        || !images.stands_on_own_stack(mutator)
    {
        return false;
    }
    let room = ROOM.load(Relaxed);
    let mut words = 0;
    let mut fits = true;
    // On its own stack, so declared ones are no matter.
    images.of_mutator(core::iter::empty(), mutator, &Standing::here(), |range| {
        let start = range.start.next_multiple_of(WORD_BYTES);
        let count = range.end.saturating_sub(start) / WORD_BYTES;
        if (words + count) * WORD_BYTES > BYTES {
            fits = false;
            return;
        }
        let from = start as *const usize;
        let to = (room as *mut usize).wrapping_add(words);
        // SAFETY: this thread's own stack and blocks, which stay while it is here, and room for the
        // words. An instruction of our own: the words between other frames' variables are nothing
        // to a compiler.
        unsafe {
            core::arch::asm!(
                "rep movsq",
                inout("rcx") count => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags),
            );
        }
        words += count;
    });
    if fits {
        WORDS.store(words, Release);
    }
    fits && words > 0
}
