//! How markers share their work: what each offers, where it looks for more, when it leaves.
//!
//! Invariant: a marker that is idle has nothing: stack, queue and deque are empty. Called by
//! markers.

pub(super) mod idle_markers;
pub(super) mod leftover;

use super::drain::Marker;
use super::entry::Entry;
use super::markers::Until;

/// Entries offered at once.
const SHARE_AT_MOST: usize = 128;

impl<'t> Marker<'t> {
    /// Moves the oldest entries to where other markers can steal them.
    #[cold]
    pub(super) fn share(&mut self) {
        let deque = self.markers.deque(self.place);
        let mut given = 0;
        while given < self.stack.len() / 2
            && given < SHARE_AT_MOST
            && deque.push(self.stack.entries()[given])
        {
            given += 1;
        }
        self.stack.drop_oldest(given);
        self.markers.note_shared();
    }

    /// Takes back what was offered and not stolen; false if there is nothing.
    pub(super) fn take_back(&mut self) -> bool {
        match self.markers.deque(self.place).pop() {
            Some(entry) => {
                self.push(entry);
                true
            }
            None => false,
        }
    }

    /// Works until all markers are done.
    pub fn work(&mut self) {
        self.markers.done.become_active();
        self.work_as_driver();
    }

    /// Works until all markers are done, or it is over for this one, which leaves to the others
    /// what it has then; false if it found nothing to do any more although they are not done.
    pub fn work_until(&mut self, until: Until<'t>) -> bool {
        self.until = until;
        self.work();
        self.until = Until::Done;
        self.markers.done.is_done() || until.is_over()
    }

    /// The same for a marker that is active already: the driver becomes active before its helpers
    /// start, so that they do not leave too early.
    pub fn work_as_driver(&mut self) {
        let markers = self.markers;
        loop {
            self.drain();
            if self.until.is_over() {
                return self.leave_rest();
            }
            markers.become_idle();
            let (place, until) = (self.place, self.until);
            match markers.steal(place, until, |entry| self.push(entry)) {
                Some(entry) => self.push(entry),
                None => return,
            }
        }
    }

    /// Everything that this marker has is for others to do; it is idle then.
    #[cold]
    fn leave_rest(&mut self) {
        while let Some(entry) = self.take_queued() {
            self.push(entry);
        }
        while self.take_back() {}
        if !self.markers.leave_work(self.stack.entries()) {
            self.drop_without_room();
            self.markers.leave_work(&[]);
        }
        self.stack.entries().clear();
    }

    /// There is no memory to leave it in: words are marked at once, and the pass over all marked
    /// objects does the rest.
    #[cold]
    fn drop_without_room(&mut self) {
        self.markers.note_overflow();
        while let Some(entry) = self.stack.pop() {
            if let Entry::Word(word) = Entry::decode(entry) {
                self.mark_alone(word);
            }
        }
    }
}
