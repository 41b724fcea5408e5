//! The tallies of a recording: those whose counts are to be written, and those that are free for a
//! later thread.
//!
//! Invariant: each is in one of two lists, and a free one has no count that is neither written nor
//! given up, so no thread is charged with another's. Under the recorder's lock.
//!
//! # Safety
//!
//! The lists hold tallies, which are never unmapped but in the child of a `fork`, where nobody has
//! them; their entries are protected by the recorder's lock.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use crate::observe::tally::{Entry, Tally};
use crate::sys::files::quiet_write;
use crate::sys::thread;

/// Threads that ended while the file was refused, whose counts are kept until it is not. More: more
/// memory on a full disk; fewer: counts are lost sooner.
const MOST_WAITING: usize = 64;

/// Both lists.
pub struct Tallies {
    /// Addresses of the first of each; 0 for none.
    in_use: usize,
    free: usize,
    /// Threads so far.
    threads: u64,
    /// Tallies in use whose threads have ended.
    waiting: usize,
    /// Whether it was said that counts are missing.
    is_said: bool,
}

impl Tallies {
    /// None yet.
    pub const fn new() -> Self {
        Self { in_use: 0, free: 0, threads: 0, waiting: 0, is_said: false }
    }

    /// Those in use. One that is given may be let go before the next.
    pub fn in_use(&self) -> impl Iterator<Item = &'static Tally> + use<> {
        // SAFETY: a list of tallies, and the caller has the lock.
        let first = unsafe { Tally::at(self.in_use) };
        core::iter::successors(first, |tally| {
            // SAFETY: as above.
            unsafe { Tally::at((*tally.entry.get()).next) }
        })
    }

    /// One for the calling thread; None when there is no memory.
    pub fn make(&mut self) -> Option<&'static Tally> {
        // SAFETY: as above.
        let tally = match unsafe { Tally::at(self.free) } {
            Some(tally) => {
                // SAFETY: as above.
                self.free = unsafe { (*tally.entry.get()).next };
                tally
            }
            None => Tally::map()?,
        };
        self.adopt(tally);
        Some(tally)
    }

    fn adopt(&mut self, tally: &'static Tally) {
        self.threads += 1;
        tally.thread.store(thread::current() as u32, Relaxed);
        let entry =
            Entry { next: self.in_use, number: self.threads, told: false, has_ended: false };
        // SAFETY: as above.
        unsafe { *tally.entry.get() = entry };
        self.in_use = tally.address();
    }

    /// Its thread has ended, and its counts could not be written.
    pub fn keep(&mut self, tally: &'static Tally) {
        if self.waiting < MOST_WAITING {
            self.waiting += 1;
            // SAFETY: as above.
            unsafe { (*tally.entry.get()).has_ended = true };
            return;
        }
        if !self.is_said {
            self.is_said = true;
            quiet_write::message(format_args!(
                "NEAP_STATS: what some threads asked for is missing in the file, as they ended \
                 while it could not be written"
            ));
        }
        self.give_up(tally);
    }

    /// Its thread has ended, and its counts never will be written.
    pub fn give_up(&mut self, tally: &'static Tally) {
        tally.forget_counts();
        self.let_go(tally);
    }

    /// The file is refused for good: no counts of threads that have ended will be written.
    pub fn give_up_waiting(&mut self) {
        if self.waiting == 0 {
            return;
        }
        for tally in self.in_use() {
            // SAFETY: as above.
            if unsafe { (*tally.entry.get()).has_ended } {
                self.give_up(tally);
            }
        }
    }

    /// Its thread has ended, and its counts are written.
    pub fn let_go(&mut self, tally: &'static Tally) {
        let address = tally.address();
        // SAFETY: as above.
        let Entry { next, has_ended, .. } = unsafe { *tally.entry.get() };
        self.waiting -= usize::from(has_ended);
        if self.in_use == address {
            self.in_use = next;
        } else {
            let before = self.in_use().find(|tally| {
                // SAFETY: as above.
                unsafe { (*tally.entry.get()).next == address }
            });
            if let Some(before) = before {
                // SAFETY: as above.
                unsafe { (*before.entry.get()).next = next };
            }
        }
        // SAFETY: as above.
        unsafe { (*tally.entry.get()).next = self.free };
        self.free = address;
    }

    /// In the child of a `fork`, whose only thread has `own`: counts are the parent's.
    pub fn after_fork(&mut self, own: Option<&'static Tally>) {
        let mut next = self.in_use;
        // SAFETY: as above; the threads of the others do not exist here.
        while let Some(tally) = unsafe { Tally::at(next) } {
            // SAFETY: as above.
            next = unsafe { (*tally.entry.get()).next };
            if own.is_none_or(|own| own.address() != tally.address()) {
                tally.unmap();
            }
        }
        *self = Self { free: self.free, ..Self::new() };
        if let Some(own) = own {
            own.forget_counts();
            self.adopt(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_file_that_never_comes_is_free_again() {
        let mut tallies = Tallies::new();
        let (ended, living) = (tallies.make().unwrap(), tallies.make().unwrap());
        tallies.keep(ended);
        tallies.give_up_waiting();
        assert!(tallies.in_use().map(Tally::address).eq([living.address()]));
        assert_eq!(tallies.make().map(Tally::address), Some(ended.address()));
    }
}
