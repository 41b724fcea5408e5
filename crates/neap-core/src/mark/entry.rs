//! What a mark stack holds, in one word: a word that may point to an object, or the place in a large object where scanning goes on.
//!
//! Invariant: user addresses are below 2⁴⁷ on this platform, so the highest bit tells the two apart; no entry is 0. Pure.

/// One piece of marking work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A word found in a root or an object; interior pointers allowed.
    Word(usize),
    /// Scan the marked large object that contains this address from here on.
    Rest(usize),
}

const REST: usize = 1 << (usize::BITS - 1);

impl Entry {
    /// As one word.
    #[inline(always)]
    pub const fn encode(self) -> usize {
        match self {
            Self::Word(word) => word,
            Self::Rest(address) => address | REST,
        }
    }

    /// From one word.
    #[inline(always)]
    pub const fn decode(word: usize) -> Self {
        if word & REST == 0 { Self::Word(word) } else { Self::Rest(word & !REST) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_coding() {
        for entry in
            [Entry::Word(1), Entry::Word((1 << 47) - 1), Entry::Rest(8), Entry::Rest((1 << 47) - 8)]
        {
            assert_eq!(Entry::decode(entry.encode()), entry);
        }
    }
}
