//! The scan by layout: only the words that the bitmap of the layout names.
//!
//! Invariant: reads no word that the bitmap does not name. Called by markers.
//!
//! # Safety
//!
//! Reads the words of an object that its layout names. The caller promises that the range is
//! readable; the program may be writing, so loads are atomic.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::addr::WORD_BYTES;

/// Calls `found` for each word in `[base, base + length)` among the words of `[low, high)` that
/// `bits` names; `low` is the start of an element.
///
/// # Safety
/// The range is readable for the duration of the call.
#[inline]
pub unsafe fn scan_typed(
    low: usize,
    high: usize,
    element_words: usize,
    bits: &[u64],
    base: usize,
    length: usize,
    mut found: impl FnMut(usize),
) {
    let mut element = low;
    while element < high {
        for (index, word_bits) in bits.iter().enumerate() {
            let mut left = *word_bits;
            while left != 0 {
                let place = index * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                let address = element + place * WORD_BYTES;
                if place >= element_words || address + WORD_BYTES > high {
                    break;
                }
                // SAFETY: in the caller's range, aligned.
                let word = unsafe { (*(address as *const AtomicUsize)).load(Relaxed) };
                if word.wrapping_sub(base) < length {
                    found(word);
                }
            }
        }
        element += element_words * WORD_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(words: &[usize], element_words: usize, bits: &[u64]) -> Vec<usize> {
        let low = words.as_ptr() as usize;
        let mut found = Vec::new();
        // SAFETY: the slice is readable.
        unsafe {
            scan_typed(low, low + size_of_val(words), element_words, bits, 1, 1000, |word| {
                found.push(word)
            });
        }
        found
    }

    #[test]
    fn only_named_words_of_each_element_are_read() {
        let words: Vec<usize> = (1..=12).collect();
        assert_eq!(scanned(&words, 3, &[0b101]), [1, 3, 4, 6, 7, 9, 10, 12]);
        assert_eq!(scanned(&words[..5], 3, &[0b101]), [1, 3, 4]);
        assert_eq!(scanned(&words, 12, &[0]), []);
    }

    #[test]
    fn bitmaps_longer_than_a_word_work() {
        let words: Vec<usize> = (1..=140).collect();
        assert_eq!(scanned(&words, 70, &[1, 0b100000]), [1, 70, 71, 140]);
    }
}
