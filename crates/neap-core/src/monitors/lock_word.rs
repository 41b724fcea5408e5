//! What the lock word of an object says: nobody is in its monitor; a thread is, so often; or which
//! inflated monitor knows.
//!
//! Invariant: zero is a free lock, so memory of zeroes is one of free locks. Pure.

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
