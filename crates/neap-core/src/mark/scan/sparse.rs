//! The conservative scan for ranges in which hardly any word is a pointer, as static data are, or
//! most repeat each other, as tables of one default do: eight words at a time are asked whether one
//! of them lies in the heap, and whether they are the four before them twice, where the processor
//! has AVX2.
//!
//! Invariant: finds what `scan` finds, in the same order, but for words that are among the eight
//! found last; the tests compare them. Words are read once, by an instruction of our own, since the
//! program may be writing them and other frames' variables lie between. Called by markers.
//!
//! # Safety
//!
//! Reads a range that the caller promises to be readable, eight words at a time, by assembly: the
//! program may be writing them, and no reference to them is made. The instructions are used only
//! where the processor was found to have them.

#![allow(unsafe_code)]

use core::arch::asm;
use core::arch::x86_64::{
    __m256i, _mm256_cmpgt_epi64, _mm256_or_si256, _mm256_set1_epi64x, _mm256_setzero_si256,
    _mm256_sub_epi64, _mm256_testz_si256, _mm256_xor_si256,
};

use crate::addr::WORD_BYTES;
use crate::mark::scan::conservative::scan;
use crate::sys::thread::instructions::has_avx2;

/// Words looked at together.
const TOGETHER: usize = 8;

/// As [`scan`], but for some of the words that repeat one found shortly before.
///
/// # Safety
/// As [`scan`].
pub unsafe fn scan_sparse(
    low: usize,
    high: usize,
    base: usize,
    length: usize,
    found: impl FnMut(usize),
) {
    if has_avx2() {
        // SAFETY: the processor has what it takes; the caller's promise.
        unsafe { scan_eight(low, high, base, length, found) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { scan(low, high, base, length, found) }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn scan_eight(
    low: usize,
    high: usize,
    base: usize,
    length: usize,
    mut found: impl FnMut(usize),
) {
    const TOP: usize = 1 << (usize::BITS - 1);
    // There are comparisons of signed words only: both sides are moved by half of all words.
    let (from, below) = (
        _mm256_set1_epi64x(base.wrapping_sub(TOP) as i64),
        _mm256_set1_epi64x((length ^ TOP) as i64),
    );
    let mut before = _mm256_setzero_si256();
    let mut at = low;
    while high - at >= TOGETHER * WORD_BYTES {
        let (one, other): (__m256i, __m256i);
        // SAFETY: eight words that the caller's range has left.
        unsafe {
            asm!(
                "vmovdqu {one}, [{at}]",
                "vmovdqu {other}, [{at} + 32]",
                one = out(ymm_reg) one,
                other = out(ymm_reg) other,
                at = in(reg) at,
                options(nostack, readonly, preserves_flags),
            );
        }
        let inside = |words| _mm256_cmpgt_epi64(below, _mm256_sub_epi64(words, from));
        let any = _mm256_or_si256(inside(one), inside(other));
        let differ =
            _mm256_or_si256(_mm256_xor_si256(one, before), _mm256_xor_si256(other, before));
        before = other;
        if _mm256_testz_si256(any, any) == 0 && _mm256_testz_si256(differ, differ) == 0 {
            // Not read again: what later words are said to repeat is to be what was found.
            // SAFETY: two vectors of four words are eight words.
            let words: [usize; TOGETHER] = unsafe { core::mem::transmute([one, other]) };
            for word in words {
                if word.wrapping_sub(base) < length {
                    found(word);
                }
            }
        }
        at += TOGETHER * WORD_BYTES;
    }
    // SAFETY: the rest of the caller's range.
    unsafe { scan(at, high, base, length, found) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What is found, written for clarity.
    fn scan_reference(words: &[usize], base: usize, length: usize) -> Vec<usize> {
        let (mut found, mut before) = (Vec::new(), vec![0; TOGETHER / 2]);
        for together in words.chunks(TOGETHER) {
            let repeats = together.len() == TOGETHER
                && together.chunks(TOGETHER / 2).all(|half| half == before);
            if !repeats || !has_avx2() {
                found.extend(together.iter().filter(|word| word.wrapping_sub(base) < length));
            }
            before = together[together.len() / 2..].to_vec();
        }
        found
    }

    fn distinct(words: &[usize]) -> BTreeSet<usize> {
        words.iter().copied().collect()
    }

    #[test]
    fn words_that_repeat_those_before_them_are_found_once() {
        let (base, length) = (0x1000, 0x1000);
        let table = |of: &[usize], count| of.iter().copied().cycle().take(count).collect();
        let mut tables: Vec<(Vec<usize>, usize)> = vec![
            (table(&[0x1800], 1000), 8),
            (table(&[0x1800, 0x1900], 1000), 8),
            (table(&[7, 0x1800, 0, 0x1900], 1000), 4),
        ];
        // Runs of one, two and four words, with others between.
        let mut seed = 3_usize;
        for _ in 0..50 {
            let mut words = Vec::new();
            while words.len() < 500 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let any = [0x1000, 0x1800, 0x1fff, 0x2000, 7][(seed >> 33) % 5];
                let run = [any, 0x1800, any, 0x1900];
                words.extend(table(&run[..1 << (seed >> 40 & 3).min(2)], (seed >> 45) % 30));
            }
            tables.push((words, usize::MAX));
        }
        // One that differs is found, wherever it is.
        for place in 0..64 {
            let mut words: Vec<usize> = table(&[0x1800], 64);
            words[place] = 0x1900;
            tables.push((words, 24));
        }
        for (words, most) in tables {
            let low = words.as_ptr() as usize;
            let high = low + words.len() * WORD_BYTES;
            let (mut these, mut those) = (Vec::new(), Vec::new());
            // SAFETY: the slice is readable.
            unsafe {
                scan_sparse(low, high, base, length, |word| these.push(word));
                scan(low, high, base, length, |word| those.push(word));
            }
            assert_eq!(these, scan_reference(&words, base, length));
            assert_eq!(distinct(&these), distinct(&those));
            let most = if has_avx2() { most } else { those.len() };
            assert!(these.len() <= most, "{} of {}", these.len(), those.len());
        }
    }

    #[test]
    fn finds_what_the_other_finds() {
        let mut seed = 9_u64;
        let mut next = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize
        };
        for (base, length) in [(0x1000, 0x2000), (usize::MAX - 0x1fff, 0x1000), (1 << 63, 1 << 40)]
        {
            for count in [0, 1, 7, 8, 9, 64, 1003] {
                // Edges, what lies beyond them, and words of the other half.
                let words: Vec<usize> = (0..count)
                    .map(|_| match next() % 8 {
                        0 => base,
                        1 => base + (length - 1),
                        2 => base.wrapping_add(length),
                        3 => base.wrapping_sub(1),
                        4 => base + next() % length,
                        5 => usize::MAX - next() % 3,
                        _ => next() % 3,
                    })
                    .collect();
                let low = words.as_ptr() as usize;
                let high = low + count * WORD_BYTES;
                let (mut these, mut those) = (Vec::new(), Vec::new());
                // SAFETY: the slice is readable.
                unsafe {
                    scan_sparse(low, high, base, length, |word| these.push(word));
                    scan(low, high, base, length, |word| those.push(word));
                }
                assert_eq!(these, those);
                assert!(count < 64 || !these.is_empty());
            }
        }
    }
}
