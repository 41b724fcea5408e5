//! The conservative scan: every aligned word of a range that lies in the heap becomes an entry.
//!
//! Invariant: finds what `scan_reference` finds, in the same order; the test compares them. Words
//! are read with relaxed atomic loads since the program may be writing them. Called by markers.
//!
//! # Safety
//!
//! Reads every aligned word of a range that the caller promises to be readable. The program may be
//! writing the words, so they are read by relaxed atomic loads, each whole.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::addr::WORD_BYTES;

/// Calls `each` for every word of `[low, high)`. Both ends are multiples of a word.
///
/// # Safety
/// The range is readable for the duration of the call.
#[inline(always)]
pub unsafe fn scan_each(low: usize, high: usize, mut each: impl FnMut(usize)) {
    debug_assert!(low.is_multiple_of(WORD_BYTES) && high.is_multiple_of(WORD_BYTES));
    let mut at = low as *const AtomicUsize;
    let end = high as *const AtomicUsize;
    while at < end {
        // SAFETY: the caller's range is readable, and `at` is in it and aligned; one past the end
        // at most after it.
        unsafe {
            each((*at).load(Relaxed));
            at = at.add(1);
        }
    }
}

/// Calls `found` for each word of `[low, high)` that is at least `base` and less than
/// `base + length`. Both ends are multiples of a word.
///
/// # Safety
/// As [`scan_each`].
#[inline(always)]
pub unsafe fn scan(
    low: usize,
    high: usize,
    base: usize,
    length: usize,
    mut found: impl FnMut(usize),
) {
    // SAFETY: the caller's promise.
    unsafe {
        scan_each(low, high, |word| {
            if word.wrapping_sub(base) < length {
                found(word);
            }
        });
    }
}

/// The same, written for clarity.
#[cfg(test)]
fn scan_reference(words: &[usize], base: usize, length: usize) -> Vec<usize> {
    words.iter().copied().filter(|word| *word >= base && word - base < length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_the_reference_finds() {
        let mut seed = 7_u64;
        for length in [0, 1, 2, 3, 7, 64, 1000] {
            let words: Vec<usize> = (0..length)
                .map(|_| {
                    seed = seed
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    0x1000 + (seed >> 40) as usize % 0x3000 - 0x800
                })
                .collect();
            let mut found = Vec::new();
            let low = words.as_ptr() as usize;
            // SAFETY: the slice is readable.
            unsafe {
                scan(low, low + words.len() * WORD_BYTES, 0x1000, 0x2000, |word| found.push(word))
            };
            assert_eq!(found, scan_reference(&words, 0x1000, 0x2000));
        }
    }
}
