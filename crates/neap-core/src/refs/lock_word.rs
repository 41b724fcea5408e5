//! The lock word of an object: 32 bits beside the heap for every 8 bytes of it, mapped a chunk at a time when an object in the chunk is locked for the first time.
//!
//! Invariant `[refs.inv.lock-word]`: a word that is not zero belongs to an object that is alive, because a held monitor is a root, and because the word of an object that dies with an
//! inflated monitor is cleared in the cycle that finds it dead. So a new object's word is zero, or names an idle monitor. Words are found by arithmetic. Called from any thread.

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

/// What a lock word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Nobody is in the monitor.
    Free,
    /// The thread with this kernel id entered it so often.
    Thin {
        /// At most 2^22, as the kernel numbers threads.
        thread: u32,
        /// From 1 to [`MOST_THIN`].
        depth: u32,
    },
    /// The monitor with this number knows.
    Inflated(u32),
}

/// As often as a thread can enter a thin monitor; beyond, it is inflated.
pub const MOST_THIN: u32 = 256;

impl Lock {
    /// From a word.
    #[inline(always)]
    pub const fn from_word(word: u32) -> Self {
        match word {
            0 => Self::Free,
            _ if word & 1 == 1 => Self::Thin { thread: word >> 9, depth: (word >> 1 & 0xff) + 1 },
            _ => Self::Inflated((word >> 1) - 1),
        }
    }

    /// To a word.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        match self {
            Self::Free => 0,
            Self::Thin { thread, depth } => thread << 9 | (depth - 1) << 1 | 1,
            Self::Inflated(number) => (number + 1) << 1,
        }
    }
}

/// The lock word of the object that starts at `object`, which lies in the heap. None without memory.
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
        map::name(memory, size_of::<T>(), c"neap: lock words");
        made = match place.compare_exchange(null_mut(), memory.pointer(), AcqRel, Acquire) {
            Ok(_) => memory.pointer(),
            Err(first) => {
                map::release(Address(memory.0), size_of::<T>());
                first
            }
        };
    }
    // SAFETY: zeroed memory of the right size is a valid table or array of words, and is never given back.
    unsafe { made.as_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_come_back_from_words() {
        for lock in [
            Lock::Free,
            Lock::Thin { thread: 1, depth: 1 },
            Lock::Thin { thread: (1 << 22) - 1, depth: MOST_THIN },
            Lock::Inflated(0),
            Lock::Inflated((1 << 30) - 1),
        ] {
            assert_eq!(Lock::from_word(lock.word()), lock);
        }
    }
}
