//! A lock-free stack of pages: what nobody uses at the moment, for whoever wants one next.
//!
//! Invariant: a page on a stack is in no other list, its first word is the stack's, and its memory
//! is never unmapped; so reading the link of a page that another thread just took is harmless, and
//! the tag in the head, which counts changes, makes the compare-and-swap that follows fail. Called
//! from any thread, also with the world stopped.
//!
//! # Safety
//!
//! Reads the first words of pages that another thread may just have taken. Pages that were ever on
//! a stack are mapped for ever, and that word is used as an atomic only.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use crate::addr::PAGE_BYTES;

/// Bits of the tag: what a page-aligned address of 48 bits leaves.
const TAG_BITS: u32 = 28;

/// Pages by their addresses.
pub(crate) struct PageStack {
    /// The first page's number above, the tag below.
    head: AtomicU64,
}

fn link(page: usize) -> &'static AtomicUsize {
    // SAFETY: pages on stacks are mapped for ever, and their first word is only used as an atomic.
    unsafe { &*(page as *const AtomicUsize) }
}

fn page_of(head: u64) -> usize {
    (head >> TAG_BITS) as usize * PAGE_BYTES
}

fn head_of(page: usize, before: u64) -> u64 {
    let tag = before.wrapping_add(1) & ((1 << TAG_BITS) - 1);
    ((page / PAGE_BYTES) as u64) << TAG_BITS | tag
}

impl PageStack {
    pub(crate) const fn new() -> Self {
        Self { head: AtomicU64::new(0) }
    }

    /// Puts a page on it.
    pub(crate) fn push(&self, page: usize) {
        self.push_chain(page, page);
    }

    /// Puts pages on it that are linked already from `first` to `last`.
    pub(crate) fn push_chain(&self, first: usize, last: usize) {
        debug_assert!(first.is_multiple_of(PAGE_BYTES) && first != 0);
        let mut head = self.head.load(Relaxed);
        loop {
            link(last).store(page_of(head), Relaxed);
            match self.head.compare_exchange_weak(head, head_of(first, head), AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes a page off it.
    pub(crate) fn pop(&self) -> Option<usize> {
        let mut head = self.head.load(Acquire);
        loop {
            let page = page_of(head);
            if page == 0 {
                return None;
            }
            let next = link(page).load(Relaxed);
            match self.head.compare_exchange_weak(head, head_of(next, head), AcqRel, Acquire) {
                Ok(_) => return Some(page),
                Err(now) => head = now,
            }
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        page_of(self.head.load(Relaxed)) == 0
    }
}

/// Links page `page` to `next` before both are pushed as a chain.
pub(crate) fn set_next(page: usize, next: usize) {
    link(page).store(next, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::map;

    #[test]
    fn threads_never_hold_the_same_page() {
        const PAGES: usize = 7;
        let stack = PageStack::new();
        let memory = map::allocate(PAGES * PAGE_BYTES).unwrap();
        for page in 0..PAGES {
            stack.push(memory.0 + page * PAGE_BYTES);
        }
        let owner = |page: usize| {
            // SAFETY: the second word of one of our pages.
            unsafe { &*((page + 8) as *const AtomicUsize) }
        };
        std::thread::scope(|scope| {
            for me in 1..=4 {
                let stack = &stack;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let Some(page) = stack.pop() else { continue };
                        assert_eq!(owner(page).swap(me, AcqRel), 0);
                        std::hint::spin_loop();
                        assert_eq!(owner(page).swap(0, AcqRel), me);
                        stack.push(page);
                    }
                });
            }
        });
        assert_eq!(core::iter::from_fn(|| stack.pop()).count(), PAGES);
        assert!(stack.is_empty());
    }
}
