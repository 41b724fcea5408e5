//! The live page that `neap top` and `neap metrics` read: a shared page for the words of
//! `stats/live.rs`.
//!
//! Invariant: a process writes to its own page only, but for the moment between a `fork` and its
//! handler. Made by the first thread that has something to show or makes another, or at the start
//! where that was asked for, and in the child of each `fork` of a process that has one; never
//! fails, since without a shared page the words stay private.
//!
//! # Safety
//!
//! Takes a mapped page for a structure of atomics: zeroed memory is one, the page is never
//! unmapped. The cell that holds it is touched by the one thread that makes it, and by the only
//! one of a forked child.

#![allow(unsafe_code)]

use core::cell::Cell;

use crate::addr::PAGE_BYTES;
use crate::stats::live::{self, Words};
use crate::sys::process::shared_page::{self, Writers};
use crate::sys::{clock, thread};

struct Own(Cell<Option<shared_page::SharedPage>>);
// SAFETY: touched by the one thread that makes the page, and by the one thread of a forked child.
unsafe impl Sync for Own {}
static SHARED: Own = Own(Cell::new(None));

/// Has the page made at once, or when there is something to see. At start-up.
pub fn prepare(at_once: bool) {
    match at_once {
        true => install(),
        false => live::make_when_wanted(install),
    }
}

/// Makes the page.
fn install() {
    let Some(page) = shared_page::create(c"neap-live", PAGE_BYTES, Writers::None) else { return };
    SHARED.0.set(Some(page));
    // SAFETY: a page of zeroed memory that is never unmapped; words are atomic and of its size.
    let words = unsafe { &*page.start.pointer::<Words>() };
    live::use_page(words, u64::from(thread::process()), clock::unix_ns());
}

/// In the child of a `fork`, which has one thread: a page of its own in place of its parent's, or
/// later if there was none.
pub fn after_fork() {
    let Some(parents) = SHARED.0.take() else { return prepare(false) };
    shared_page::close(parents);
    install();
    if SHARED.0.get().is_none() {
        live::use_no_page();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_record::live::{PAGE_NAME, Page};

    #[test]
    fn the_page_is_found_among_the_open_files() {
        install();
        let found = std::fs::read_dir("/proc/self/fd").unwrap().flatten().find(|file| {
            std::fs::read_link(file.path())
                .is_ok_and(|name| name.to_string_lossy().contains(PAGE_NAME))
        });
        live::set_threads(5);
        let page = Page::decode(&std::fs::read(found.unwrap().path()).unwrap()).unwrap();
        assert_eq!((page.process, page.live.threads), (u64::from(thread::process()), 5));
    }
}
