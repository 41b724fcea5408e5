//! A marker's own stack of entries: pushes without a check where room was made before.
//!
//! Invariant: entries from start to top were written; room that was reserved stays until the next
//! reservation. Used by one thread at a time.
//!
//! # Safety
//!
//! Writes entries without a check of bounds, where room was reserved by the same call before, and
//! reads the ranges that the caller promises to be readable.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::sys::meta_vec::{MetaVec, NoMemory};

/// Entries, the last one pushed on top.
pub struct Stack {
    entries: MetaVec<usize>,
}

impl Stack {
    /// An empty stack; maps nothing.
    pub const fn new() -> Self {
        Self { entries: MetaVec::new() }
    }

    /// How many entries there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Pushes one entry.
    #[inline(always)]
    pub fn push(&mut self, entry: usize) -> Result<(), NoMemory> {
        self.entries.try_push(entry)
    }

    /// Takes the top entry off.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<usize> {
        self.entries.pop()
    }

    /// Pushes those words of a range that lie in `[base, base + length)`, storing each and moving
    /// on only past those that do: whether a word is a pointer cannot be predicted, so there is no
    /// branch on it.
    ///
    /// # Safety
    /// `[low, high)` is readable, both ends multiples of a word.
    #[inline(always)]
    pub unsafe fn push_from(
        &mut self,
        low: usize,
        high: usize,
        base: usize,
        length: usize,
    ) -> Result<(), NoMemory> {
        self.entries.try_reserve((high - low) / size_of::<usize>())?;
        // SAFETY: room for every word of the range was just made; the caller's range is readable.
        unsafe {
            let mut top = self.entries.end();
            super::scan::conservative::scan_each(low, high, |word| {
                *top = word;
                top = top.add((word.wrapping_sub(base) < length) as usize);
            });
            self.entries.set_end(top);
        }
        Ok(())
    }

    /// The same but for the last of them, which it gives; 0 if there is none.
    ///
    /// # Safety
    /// As [`push_from`](Self::push_from), and `base` is not 0.
    #[inline(always)]
    pub unsafe fn push_all_but_last(
        &mut self,
        low: usize,
        high: usize,
        base: usize,
        length: usize,
    ) -> Result<usize, NoMemory> {
        self.entries.try_reserve((high - low) / size_of::<usize>())?;
        let mut last = 0;
        // SAFETY: room for every word of the range was just made; the caller's range is readable.
        unsafe {
            let mut top = self.entries.end();
            super::scan::conservative::scan_each(low, high, |word| {
                let is_in = word.wrapping_sub(base) < length;
                *top = word;
                top = top.add(is_in as usize);
                last = if is_in { word } else { last };
            });
            self.entries.set_end(top.sub((last != 0) as usize));
        }
        Ok(last)
    }

    /// Pushes those of the words from `start` on that `named` has a bit for and that lie in
    /// `[base, base + length)`.
    ///
    /// # Safety
    /// The words that are named are readable; `start` is a multiple of a word.
    #[inline(always)]
    pub unsafe fn push_named(
        &mut self,
        start: usize,
        mut named: u64,
        base: usize,
        length: usize,
    ) -> Result<(), NoMemory> {
        self.entries.try_reserve(named.count_ones() as usize)?;
        // SAFETY: room for every word was just made; the caller's words are readable.
        unsafe {
            let mut top = self.entries.end();
            while named != 0 {
                let address = start + named.trailing_zeros() as usize * size_of::<usize>();
                named &= named - 1;
                let word = (*(address as *const AtomicUsize)).load(Relaxed);
                *top = word;
                top = top.add((word.wrapping_sub(base) < length) as usize);
            }
            self.entries.set_end(top);
        }
        Ok(())
    }

    /// Takes the `count` oldest entries out, after they were handed on.
    pub fn drop_oldest(&mut self, count: usize) {
        let length = self.entries.len();
        let moved = count.min(length - count);
        self.entries.copy_within(length - moved.., 0);
        self.entries.truncate(length - count);
    }

    /// The entries, for looking through.
    pub fn entries(&mut self) -> &mut MetaVec<usize> {
        &mut self.entries
    }
}

impl Default for Stack {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_in_the_range_stay() {
        let words = [5_usize, 100, 0, 150, 199, 200, usize::MAX];
        let mut stack = Stack::new();
        let low = words.as_ptr() as usize;
        // SAFETY: the array is readable.
        unsafe { stack.push_from(low, low + size_of_val(&words), 100, 100) }.unwrap();
        assert_eq!(stack.len(), 3);
        assert_eq!(
            [stack.pop(), stack.pop(), stack.pop(), stack.pop()],
            [Some(199), Some(150), Some(100), None]
        );
    }

    #[test]
    fn only_named_words_in_the_range_stay() {
        let words = [150_usize, 100, 99, 199, 151, 200];
        let mut stack = Stack::new();
        // SAFETY: the array is readable.
        unsafe { stack.push_named(words.as_ptr() as usize, 0b101110, 100, 100) }.unwrap();
        assert_eq!([stack.pop(), stack.pop(), stack.pop()], [Some(199), Some(100), None]);
    }

    #[test]
    fn the_oldest_are_dropped() {
        for (entries, dropped) in [(10_usize, 3_usize), (10, 7), (4, 4), (5, 0)] {
            let mut stack = Stack::new();
            (0..entries).for_each(|entry| stack.push(entry).unwrap());
            stack.drop_oldest(dropped);
            let mut left: Vec<_> = core::iter::from_fn(|| stack.pop()).collect();
            left.sort();
            assert_eq!(left, (dropped..entries).collect::<Vec<_>>());
        }
    }
}
