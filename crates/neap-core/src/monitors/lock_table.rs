//! Where lock words are: 32 bits beside the heap for every 8 bytes of it, mapped a chunk at a time
//! when an object in the chunk is locked for the first time.
//!
//! Invariant `[refs.inv.lock-word]`: a word that is not zero belongs to an object that is alive,
//! because a held monitor is a root, and because the word of an object that dies with an inflated
//! monitor is cleared in the cycle that finds it dead. So a new object's word is zero, or names an
//! idle monitor, or the program freed an object that a thread is in: the monitor is the new one's
//! then. Words are found by arithmetic. Called from any thread.
//!
//! # Safety
//!
//! Makes references to tables and words from published addresses. They are zeroed memory, which is
//! valid, are never given back, and hold atomics only.

#![allow(unsafe_code)]

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use crate::addr::{Address, CHUNK_BYTES};
use crate::heap::HEAP;
use crate::sys::map;

/// Chunks of the largest reservation, 1 TiB.
const CHUNKS: usize = (1 << 40) / CHUNK_BYTES;
const WORDS: usize = CHUNK_BYTES / 8;

/// The words of one chunk.
type Words = [AtomicU32; WORDS];
/// Where the words of each chunk are; null until the chunk needs them.
type Table = [AtomicPtr<Words>; CHUNKS];

static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());

/// The lock word of the object that starts at `object`, which lies in the heap. None without
/// memory.
#[inline(always)]
pub fn of(object: usize) -> Option<&'static AtomicU32> {
    let offset = object - HEAP.base().0;
    let (chunk, index) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES / 8);
    // SAFETY: null, or a table that is never given back.
    let words = unsafe { TABLE.load(Acquire).as_ref() }
        .map_or(null_mut(), |table| table[chunk].load(Acquire));
    // SAFETY: as above.
    match unsafe { words.as_ref() } {
        Some(words) => Some(&words[index]),
        None => Some(&make(chunk)?[index]),
    }
}

#[cold]
fn make(chunk: usize) -> Option<&'static Words> {
    let table = publish(&TABLE)?;
    publish(&table[chunk])
}

/// What `place` points to, made of zeroed memory by the first who needs it.
fn publish<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    let mut made = place.load(Acquire);
    if made.is_null() {
        let memory = map::allocate(size_of::<T>()).ok()?;
        // A word is touched here and there: a huge page would cost what few locks need.
        map::small_pages(memory, size_of::<T>());
        map::name(memory, size_of::<T>(), c"neap: lock words");
        made = match place.compare_exchange(null_mut(), memory.pointer(), AcqRel, Acquire) {
            Ok(_) => memory.pointer(),
            Err(first) => {
                map::release(Address(memory.0), size_of::<T>());
                first
            }
        };
    }
    // SAFETY: zeroed memory of the right size is a valid table or array of words, and is never
    // given back.
    unsafe { made.as_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::skip;

    #[test]
    fn lock_words_are_in_small_pages() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return skip("the kernel knows no huge pages");
        }
        HEAP.reserve(16 << 20).unwrap();
        let word = core::ptr::from_ref(of(HEAP.base().0).unwrap()) as usize;
        let table = TABLE.load(Relaxed) as usize;
        let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut inside, mut looked) = (false, 0);
        for line in all.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let parsed = |text| usize::from_str_radix(text, 16).ok();
            if let Some((low, high)) = range.and_then(|(low, high)| parsed(low).zip(parsed(high))) {
                inside = [word, table].iter().any(|one| (low..high).contains(one));
            } else if inside && line.starts_with("VmFlags:") {
                assert!(line.contains(" nh"), "{line}");
                looked += 1;
            }
        }
        assert!(looked > 0);
    }
}
