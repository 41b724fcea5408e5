//! Random numbers that another process cannot guess.
//!
//! Assumes: getrandom(2) (Linux 3.17) gives eight bytes at once; before the kernel has gathered
//! enough it refuses instead of waiting. Called at start-up, and under the heap's lock.
//!
//! # Safety
//! A system call that writes to a local word.

#![allow(unsafe_code)]

use crate::sys::clock;

/// A number below `end`. Where the kernel has none, the clock's last bits serve.
pub fn below(end: usize) -> usize {
    let mut word = 0_u64;
    // SAFETY: the word is as long as is said.
    let got = unsafe {
        libc::syscall(libc::SYS_getrandom, &raw mut word, size_of_val(&word), libc::GRND_NONBLOCK)
    };
    if got != size_of_val(&word) as i64 {
        word = clock::now_ns().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    }
    (word % end.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_stay_below_the_end() {
        let numbers: std::collections::BTreeSet<_> = (0..100).map(|_| below(1 << 40)).collect();
        assert!(numbers.len() > 90 && numbers.iter().all(|number| *number < 1 << 40));
        assert!((0..100).all(|_| below(3) < 3) && below(0) == 0);
    }
}
