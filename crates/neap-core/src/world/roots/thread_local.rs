//! Thread-local storage as roots: glibc's control block, the block that each thread has below it
//! (static storage: of the program, what it is linked with, and libraries that take their part of
//! the surplus when they are opened), and the blocks in the thread's vector.
//!
//! Invariant: who reads one has the thread standing, or blocked. Static storage is read as a whole:
//! of a library that was opened later the vector of the thread that opened it does not tell.
//!
//! # Safety
//!
//! Reads thread-local blocks of threads that stand or are blocked, and so exist.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::addr::PAGE_BYTES;
use crate::sys::process::mappings::{self, readable};
use crate::sys::thread;
use crate::world::mutator::Mutator;

/// A thread-local module: its number and the bytes of its block.
#[derive(Clone, Copy)]
pub struct Module {
    pub number: usize,
    pub bytes: usize,
}

/// Calls `visit` for each part of a mutator's thread-local storage that does not lie in `scanned`.
pub fn for_each(
    modules: &[Module],
    mutator: &Mutator,
    scanned: &Range<usize>,
    visit: &mut impl FnMut(Range<usize>),
) {
    let control_block = mutator.control_block.load(Relaxed);
    // On a thread's own stack all of it lies between the frames and the control block.
    let is_scanned = scanned.contains(&control_block);
    let fixed = if is_scanned { 0..0 } else { static_storage(mutator) };
    match thread::static_storage_bytes() {
        _ if is_scanned => {}
        0 => readable::for_each(fixed.clone(), visit),
        _ => visit(fixed.clone()),
    }
    for module in modules {
        // SAFETY: the thread is stopped, or blocked outside the heap, and exists.
        if let Some(start) = unsafe { thread::thread_local_block(control_block, module.number) }
            && !scanned.contains(&start)
            && !fixed.contains(&start)
        {
            // After `dlclose` another module may have the number, and this thread the block of the
            // one before, which may be shorter.
            let block = start..start + module.bytes;
            let is_on_one_page = block.end <= (start / PAGE_BYTES + 1) * PAGE_BYTES;
            visit(if is_on_one_page { block } else { readable::start_of(block) });
        }
    }
}

/// Whether `address` lies in a mutator's thread-local storage.
pub fn contains(modules: &[Module], mutator: &Mutator, address: usize) -> bool {
    let control_block = mutator.control_block.load(Relaxed);
    static_storage(mutator).contains(&address)
        || modules.iter().any(|module| {
            // SAFETY: the thread is stopped, and exists.
            let start = unsafe { thread::thread_local_block(control_block, module.number) };
            start.is_some_and(|start| (start..start + module.bytes).contains(&address))
        })
}

/// The static storage below a thread's control block, and this.
fn static_storage(mutator: &Mutator) -> Range<usize> {
    let control_block = mutator.control_block.load(Relaxed);
    let end = control_block + thread::control_block_bytes();
    let start = match thread::static_storage_bytes() {
        0 => guessed_start(mutator, control_block),
        bytes => end - bytes,
    };
    start.min(control_block)..end
}

/// Where static storage begins at the lowest if libc does not tell how large it is: some of what
/// lies between may not be readable. Where nothing is known it is the control block alone; the
/// vector tells of most other blocks.
#[cold]
fn guessed_start(mutator: &Mutator, control_block: usize) -> usize {
    // The first thread's stays where it is.
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    const MOST_BYTES: usize = 64 << 10;
    let is_first = mutator.is_first.load(Relaxed);
    let lowest = match (is_first, FIRST.load(Relaxed), mutator.stack_low.load(Relaxed)) {
        (true, 0, _) | (false, _, 0) => {
            mappings::mapping_of(control_block).map_or(control_block, |mapping| mapping.start)
        }
        (true, known, _) => known,
        (false, _, stack_low) => stack_low,
    };
    if is_first {
        FIRST.store(lowest, Relaxed);
    }
    lowest.max(control_block - MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_own_variable_lies_in_its_static_storage() {
        std::thread_local!(static WORD: usize = const { 3 });
        let address = WORD.with(|word| core::ptr::from_ref(word) as usize);
        let block = thread::control_block();
        // SAFETY: what the collector makes mutators of: zeros are valid.
        let mutator = unsafe { Box::<Mutator>::new_zeroed().assume_init() };
        mutator.control_block.store(block, Relaxed);
        assert!(static_storage(&mutator).contains(&address));
        assert!((guessed_start(&mutator, block)..block).contains(&address));
    }
}
