//! Kinds: what the objects of a block hold, and so how they are scanned, cleared and kept.
//!
//! Pure. Called from any thread.

use super::frames::Content;

/// How the cells of a block are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scan {
    /// Not at all.
    Leaf = 0,
    /// Any word may be a pointer.
    Conservative = 1,
    /// As the block's layout says.
    Typed = 2,
}

impl Scan {
    /// Which chunks such objects lie in.
    pub const fn content(self) -> Content {
        match self {
            Self::Leaf => Content::Leaf,
            Self::Conservative | Self::Typed => Content::Scanned,
        }
    }
}

/// What an object holds and how long it lives, for the kinds that need no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Any word may be a pointer; handed out zeroed.
    Conservative = 0,
    /// No pointers: never scanned, and *not* zeroed.
    Leaf = 1,
    /// Scanned, zeroed, a root itself, lives until it is freed.
    Uncollectable = 2,
    /// Not scanned, not zeroed, lives until it is freed.
    UncollectableLeaf = 3,
}

/// Number of [`Kind`]s.
pub const KINDS: usize = 4;

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; KINDS] =
        [Self::Conservative, Self::Leaf, Self::Uncollectable, Self::UncollectableLeaf];

    /// How its objects are scanned.
    pub const fn scan(self) -> Scan {
        match self {
            Self::Conservative | Self::Uncollectable => Scan::Conservative,
            Self::Leaf | Self::UncollectableLeaf => Scan::Leaf,
        }
    }

    /// Whether its objects live until they are freed.
    pub const fn is_uncollectable(self) -> bool {
        matches!(self, Self::Uncollectable | Self::UncollectableLeaf)
    }

    /// The kind of a block that is scanned so and kept so; typed blocks count as conservative.
    pub const fn from_parts(scan: Scan, uncollectable: bool) -> Self {
        match (scan, uncollectable) {
            (Scan::Leaf, false) => Self::Leaf,
            (Scan::Leaf, true) => Self::UncollectableLeaf,
            (_, false) => Self::Conservative,
            (_, true) => Self::Uncollectable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_kind_again() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_parts(kind.scan(), kind.is_uncollectable()), kind);
        }
    }
}
