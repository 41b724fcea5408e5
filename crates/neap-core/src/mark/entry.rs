//! What a mark stack holds, in one word: a word that may point to an object, the place in a large
//! object where scanning goes on, or a written page.
//!
//! Invariant: user addresses are below 2⁴⁷ on this platform, so the two highest bits tell them
//! apart; no entry is 0. Pure.

/// One piece of marking work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A word found in a root or an object; interior pointers allowed.
    Word(usize),
    /// Scan the marked large object that contains this address from here on.
    Rest(usize),
    /// Scan the marked objects on the page that begins here again.
    Written(usize),
}

const REST: usize = 1 << (usize::BITS - 1);
const WRITTEN: usize = 1 << (usize::BITS - 2);

impl Entry {
    /// As one word.
    #[inline(always)]
    pub const fn encode(self) -> usize {
        match self {
            Self::Word(word) => word,
            Self::Rest(address) => address | REST,
            Self::Written(page) => page | WRITTEN,
        }
    }

    /// From one word.
    #[inline(always)]
    pub const fn decode(word: usize) -> Self {
        match word & (REST | WRITTEN) {
            0 => Self::Word(word),
            REST => Self::Rest(word & !REST),
            _ => Self::Written(word & !WRITTEN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_coding() {
        for kind in [Entry::Word, Entry::Rest, Entry::Written] {
            for address in [8, 4096, (1 << 47) - 8] {
                assert_eq!(Entry::decode(kind(address).encode()), kind(address));
            }
        }
    }
}
