//! The ask page, on the program's side: whether another process asks for a heap snapshot, and the
//! output that hands it over. `neap_record::ask` says how.
//!
//! Invariant: what is read of the page may be anything, and leads to a snapshot that somebody of
//! the same user may read, or to none. Made by who starts the collector's thread, which answers:
//! once, and once in a child of `fork` that collects. Without a page nobody can ask; a set-user-id
//! program has none.
//!
//! # Safety
//!
//! Takes mapped memory for words that are atomic, and for bytes that only the process whose turn it
//! is touches; it is never unmapped. The cell that holds it is touched by one thread at a time that
//! starts the collector's, by that one, and by the only one of a forked child.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::*};

use neap_record::ask::{BYTES, PATIENCE_MS, TEXT_AT, TEXT_BYTES, answer, word};

use crate::sys::process::shared_page::{self, SharedPage, Writers};
use crate::sys::{clock, futex, thread};

struct Own(Cell<Option<SharedPage>>);
// SAFETY: written before the thread is started that reads it, by one thread at a time, and by the
// one thread of a forked child.
unsafe impl Sync for Own {}
static SHARED: Own = Own(Cell::new(None));

/// A program that somebody asks for a snapshot.
#[derive(Clone, Copy)]
pub struct Asked {
    page: SharedPage,
    /// Who asks.
    request: u32,
}

fn at(page: &SharedPage, place: usize) -> &'static AtomicU32 {
    // SAFETY: the page is mapped for ever, and its head is atomic words.
    unsafe { &*page.start.pointer::<AtomicU32>().add(place) }
}

/// Makes the page, unless there is one; gives the word that the collector's thread is to sleep on.
/// On the thread that starts it.
pub fn make() -> Option<&'static AtomicU32> {
    if SHARED.0.get().is_none() && !thread::is_privileged() {
        SHARED.0.set(shared_page::create(c"neap-ask", BYTES, Writers::SameUser));
    }
    SHARED.0.get().map(|page| at(&page, word::WAKES))
}

/// In the child of a `fork`, which has one thread: its parent's page is not its own.
pub fn after_fork() {
    if let Some(page) = SHARED.0.take() {
        shared_page::close(page);
    }
}

/// Takes a request that waits. On the collector's thread.
pub fn take() -> Option<Asked> {
    let page = SHARED.0.get()?;
    let request = at(&page, word::REQUEST).load(Acquire);
    let waits = request != 0
        && at(&page, word::ANSWER)
            .compare_exchange(answer::NOTHING, answer::TAKEN, AcqRel, Acquire)
            .is_ok();
    waits.then_some(Asked { page, request })
}

impl Asked {
    fn is_still_asked(&self) -> bool {
        at(&self.page, word::REQUEST).load(Acquire) == self.request
    }

    fn answer(&self, value: u32) {
        let word = at(&self.page, word::ANSWER);
        word.store(value, Release);
        futex::wake_shared(word, 1);
    }

    /// Hands a piece over; false if nobody took it in time. Safe in a bare child.
    pub fn hand_over(&self, bytes: &[u8]) -> bool {
        bytes.chunks(TEXT_BYTES).all(|piece| self.is_taken(piece))
    }

    fn is_taken(&self, piece: &[u8]) -> bool {
        if !self.is_still_asked() {
            return false;
        }
        // SAFETY: the piece fits, and the asker reads none until it is said to be there. Should it
        // write here, it spoils its own copy.
        unsafe {
            let text = self.page.start.add(TEXT_AT).pointer::<u8>();
            core::ptr::copy_nonoverlapping(piece.as_ptr(), text, piece.len());
        }
        at(&self.page, word::LENGTH).store(piece.len() as u32, Relaxed);
        self.answer(answer::FULL);
        let until = clock::now_ns() + PATIENCE_MS * 1_000_000;
        while at(&self.page, word::ANSWER).load(Acquire) == answer::FULL {
            let now = clock::now_ns();
            if now >= until {
                return false;
            }
            futex::wait_shared(at(&self.page, word::ANSWER), answer::FULL, Some(until - now));
        }
        true
    }

    /// That was all, or why there is no more.
    pub fn end(&self, result: Result<(), u32>) {
        if self.is_still_asked() {
            self.answer(result.map_or_else(|error| answer::FAILED + error, |()| answer::DONE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_and_its_pieces_are_handed_over() {
        let page = shared_page::create(c"neap-test", BYTES, Writers::SameUser).unwrap();
        SHARED.0.set(Some(page));
        assert!(take().is_none());
        at(&page, word::REQUEST).store(7, Release);
        let asked = take().unwrap();
        assert!(take().is_none());
        let text: Vec<u8> = (0..TEXT_BYTES + 100).map(|index| index as u8).collect();
        let mut read = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while read.len() < TEXT_BYTES + 100 {
                    if at(&page, word::ANSWER).load(Acquire) == answer::FULL {
                        let length = at(&page, word::LENGTH).load(Relaxed) as usize;
                        // SAFETY: the piece is there, and stays until it is said to be taken.
                        let piece = unsafe {
                            let from = page.start.add(TEXT_AT).pointer::<u8>();
                            core::slice::from_raw_parts(from, length)
                        };
                        read.extend_from_slice(piece);
                        at(&page, word::ANSWER).store(answer::TAKEN, Release);
                        futex::wake_shared(at(&page, word::ANSWER), 1);
                    }
                    std::thread::yield_now();
                }
            });
            let (request, text) = (asked.request, &text);
            scope.spawn(move || assert!(Asked { page, request }.hand_over(text)));
        });
        assert_eq!(read, text);
        asked.end(Err(12));
        assert_eq!(at(&page, word::ANSWER).load(Acquire), answer::FAILED + 12);
        // Somebody else asks: what belongs to the first is not given to it.
        at(&page, word::REQUEST).store(8, Release);
        assert!(!asked.hand_over(b"x"));
        shared_page::close(SHARED.0.take().unwrap());
    }
}
