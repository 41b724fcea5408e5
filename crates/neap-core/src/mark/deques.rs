//! The deques of all markers, in memory of their own.
//!
//! Invariant: a page of it is touched once a marker uses its deque, so a program whose heap is
//! never marked, or by one marker, does not pay for the others. Made with the markers.
//!
//! # Safety
//!
//! The mapping is theirs alone, and zeroed memory is an empty deque.

#![allow(unsafe_code)]

use core::ops::Deref;
use core::ptr::NonNull;

use super::deque::Deque;
use crate::addr::{Address, PAGE_BYTES};
use crate::sys::{map, print};

/// So many deques.
pub struct Deques<const COUNT: usize>(NonNull<[Deque; COUNT]>);

// SAFETY: they are its own, and made to be shared.
unsafe impl<const COUNT: usize> Send for Deques<COUNT> {}
// SAFETY: as above.
unsafe impl<const COUNT: usize> Sync for Deques<COUNT> {}

impl<const COUNT: usize> Deques<COUNT> {
    const BYTES: usize = size_of::<[Deque; COUNT]>().next_multiple_of(PAGE_BYTES);

    /// Empty ones.
    pub fn new() -> Self {
        let memory = map::allocate(Self::BYTES).ok();
        match memory.and_then(|memory| NonNull::new(memory.pointer())) {
            Some(deques) => Self(deques),
            None => print::fatal(format_args!(
                "no memory for the markers' deques; raise the limit on address space (ulimit -v)"
            )),
        }
    }
}

impl<const COUNT: usize> Deref for Deques<COUNT> {
    type Target = [Deque; COUNT];
    fn deref(&self) -> &[Deque; COUNT] {
        // SAFETY: zeroed when it was mapped, and changed as deques only.
        unsafe { self.0.as_ref() }
    }
}

impl<const COUNT: usize> Drop for Deques<COUNT> {
    fn drop(&mut self) {
        map::release(Address(self.0.as_ptr() as usize), Self::BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::deque::Steal;

    #[test]
    fn each_is_empty_and_its_own_and_only_those_in_use_take_memory() {
        let deques = Deques::<16>::new();
        let start = Address(deques.as_ptr() as usize);
        let pages = || {
            let bytes = map::resident_bytes(start, Deques::<16>::BYTES, &mut [0; 32]);
            bytes.map_or(0, |bytes| bytes / PAGE_BYTES)
        };
        assert_eq!(pages(), 0);
        assert!(deques[3].push(7));
        assert!(pages() <= 2, "its words, and where they begin and end");
        assert_eq!((deques[3].steal(), deques[4].steal()), (Steal::Stolen(7), Steal::Empty));
        assert!(deques.iter().all(|deque| deque.is_empty() && deque.pop().is_none()));
    }
}
