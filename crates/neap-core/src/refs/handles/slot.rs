//! The one word of a slot: what kind it is, which cell it points to, and its generation.
//!
//! Invariant `[refs.inv.generation]`: a slot's generation grows with every free and never comes
//! round: a slot that has used up its generations is not used again. So a handle, which holds the
//! generation it was made with, is either the slot's present use or is known to be stale. Pure; no
//! threads. A word of zero is a free slot that was never used.

/// Bits of the kind.
const KIND_BITS: u32 = 3;
/// Bits of the target: cells begin at multiples of 8 of a reservation of at most 1 TiB, and 0 is
/// none.
const TARGET_BITS: u32 = 38;
const TARGET_MASK: u64 = (1 << TARGET_BITS) - 1;
const GENERATION_SHIFT: u32 = KIND_BITS + TARGET_BITS;
/// The last generation: a slot that is freed in it is used up.
pub const LAST_GENERATION: u32 = u32::MAX >> (32 - (64 - GENERATION_SHIFT));

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Nobody's.
    Free = 0,
    /// Keeps its object alive.
    Strong = 1,
    /// The same, and says that its object must not move; none does.
    Pinned = 2,
    /// Becomes null when nothing but finalizers could still reach the object.
    Weak = 3,
    /// Becomes null when the object is gone: one that a finalizer brought back stays.
    WeakLong = 4,
    /// Keeps the value of the slot behind it alive while its own object, the key, is alive.
    Ephemeron = 5,
    /// The value of the slot before it.
    Value = 6,
}

impl Kind {
    /// Whether a slot of this kind is a root.
    pub const fn is_strong(self) -> bool {
        matches!(self, Self::Strong | Self::Pinned)
    }

    const fn from_bits(bits: u64) -> Self {
        match bits {
            1 => Self::Strong,
            2 => Self::Pinned,
            3 => Self::Weak,
            4 => Self::WeakLong,
            5 => Self::Ephemeron,
            6 => Self::Value,
            _ => Self::Free,
        }
    }
}

/// A slot's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Word(pub u64);

impl Word {
    /// A word; `target` is the number of a cell, 0 for none, or in a free slot the next free one of
    /// its segment.
    #[inline(always)]
    pub const fn new(kind: Kind, target: u64, generation: u32) -> Self {
        debug_assert!(
            target <= TARGET_MASK && generation <= LAST_GENERATION,
            "[refs.inv.generation]"
        );
        Self((generation as u64) << GENERATION_SHIFT | target << KIND_BITS | kind as u64)
    }

    /// Its kind.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        Kind::from_bits(self.0 & ((1 << KIND_BITS) - 1))
    }

    /// Its target.
    #[inline(always)]
    pub const fn target(self) -> u64 {
        self.0 >> KIND_BITS & TARGET_MASK
    }

    /// Its generation.
    #[inline(always)]
    pub const fn generation(self) -> u32 {
        (self.0 >> GENERATION_SHIFT) as u32
    }

    /// The same with another target.
    #[inline(always)]
    pub const fn with_target(self, target: u64) -> Self {
        Self::new(self.kind(), target, self.generation())
    }

    /// What the slot holds once it is freed.
    #[inline(always)]
    pub const fn freed(self) -> Self {
        let generation = self.generation();
        let next = if generation == LAST_GENERATION { generation } else { generation + 1 };
        Self::new(Kind::Free, 0, next)
    }

    /// Whether a slot that is freed now can never be used again.
    #[inline(always)]
    pub const fn is_used_up(self) -> bool {
        self.generation() == LAST_GENERATION
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_as_they_went_in() {
        for kind in [Kind::Free, Kind::Strong, Kind::Pinned, Kind::Weak, Kind::WeakLong] {
            for target in [0, 1, 1 << 37, TARGET_MASK] {
                for generation in [0, 1, LAST_GENERATION - 1, LAST_GENERATION] {
                    let word = Word::new(kind, target, generation);
                    assert_eq!(
                        (word.kind(), word.target(), word.generation()),
                        (kind, target, generation)
                    );
                    assert_eq!(word.with_target(5).target(), 5);
                    assert_eq!(word.with_target(5).generation(), generation);
                }
            }
        }
    }

    #[test]
    fn a_never_used_slot_is_free() {
        assert_eq!(Word(0).kind(), Kind::Free);
        assert_eq!(Word(0).generation(), 0);
    }

    #[test]
    fn a_freed_slot_is_of_the_next_generation_until_none_is_left() {
        let word = Word::new(Kind::Weak, 9, 3);
        assert_eq!((word.freed().kind(), word.freed().generation()), (Kind::Free, 4));
        assert!(!word.is_used_up());
        assert!(Word::new(Kind::Weak, 9, LAST_GENERATION).is_used_up());
    }
}
