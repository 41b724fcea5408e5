//! `GC_FINDLEAK_DELAY_FREE`: in the leak-finding mode, what the debugging allocator frees is filled
//! with a pattern and left to the collection that finds it dead, which reports it if the pattern
//! has been written over: the program used what it had freed.
//!
//! Invariant: such an object has a header that `header_of_freed` knows, which no object has that is
//! in use; it counts neither as leaked nor as overrun. `look` runs world stopped, after marking,
//! and only fills a fixed table; the rest runs on any thread.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::core_api as api;
use crate::debugging::header::{self, Gone, HEADER_BYTES, Header};
use crate::debugging::noted::Noted;
use crate::debugging::smashed::{self, Hidden};
use crate::kinds::kind::{GC_get_kind_and_size, NORMAL, PTRFREE};
use crate::settings::variables::GC_find_leak;

/// What libgc fills the memory with.
const PATTERN: usize = 0xEFBE_ADDE_DEAD_BEEF;

static DELAYS: AtomicBool = AtomicBool::new(false);

static CHANGED: Noted<Hidden, 64> = Noted::nothing();

/// The user wants it.
pub fn delay() {
    DELAYS.store(true, Relaxed);
}

/// The words that are filled: to the trailer.
fn words_of(object: usize, header: &Header) -> (*mut usize, usize) {
    (object as *mut usize, header.bytes.div_ceil(size_of::<usize>()))
}

/// Leaves an object that the program frees to the next collections, if it is to wait: not one whose
/// kind has the collector read its words. Whether it does.
pub fn leave(object: *mut c_void, header: &Header) -> bool {
    if !DELAYS.load(Relaxed)
        || GC_find_leak.load(Relaxed) == 0
        || !matches!(GC_get_kind_and_size(object, core::ptr::null_mut()), NORMAL | PTRFREE)
    {
        return false;
    }
    let (words, count) = words_of(object as usize, header);
    for index in 0..count {
        // SAFETY: words of an object that the program gives up.
        unsafe { words.add(index).write(PATTERN) };
    }
    header::retire(object as usize - HEADER_BYTES, Gone::Waits);
    true
}

/// Notes those that die in this collection and were written to. World stopped, after marking.
pub fn look() {
    if !DELAYS.load(Relaxed) || !header::is_used() {
        return;
    }
    api::for_each_object(&mut |base, total, _kind, marked| {
        if marked {
            return;
        }
        let Some(header) = header::header_of_freed(base, total) else { return };
        let object = base + HEADER_BYTES;
        let (words, count) = words_of(object, &header);
        // SAFETY: words of a dead object that nobody has been given yet.
        let is_changed = (0..count).any(|index| unsafe { words.add(index).read() } != PATTERN);
        if is_changed {
            CHANGED.note((!object, header));
        }
        header::retire(base, Gone::Free);
    });
}

/// Prints what `look` noted; whether that was anything. World running.
pub fn report() -> bool {
    smashed::report_as(&CHANGED, |_, _| "was written to after it was freed")
}
