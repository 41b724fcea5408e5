//! Addresses that no collector recognises, and contents that look like no address.
//!
//! Invariant: the shadow keeps every address of the heap as its complement, so it keeps nothing
//! alive; pattern words have their top bit set, so no scan takes one for a pointer. Pure; used from
//! every thread.

/// An address, complemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hidden(usize);

impl Hidden {
    /// Hides an address.
    pub fn new(address: usize) -> Self {
        Self(!address)
    }

    /// The address again; in the caller's frame it counts as a root.
    #[inline(always)]
    pub fn reveal(self) -> usize {
        !self.0
    }
}

/// What word `index` of the object `id` holds where it holds no pointer.
#[inline]
pub fn pattern(seed: u64, id: u64, index: usize) -> usize {
    let mut x = seed ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (index as u64) << 32 ^ index as u64;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) as usize | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_addresses_come_back_and_are_none_themselves() {
        let hidden = Hidden::new(0x7f12_3456_7890);
        assert_eq!(hidden.reveal(), 0x7f12_3456_7890);
        assert!(hidden.0 >> 63 == 1);
    }

    #[test]
    fn patterns_differ_by_seed_object_and_word() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..10 {
            for id in 0..10 {
                for index in 0..100 {
                    assert!(seen.insert(pattern(seed, id, index)));
                }
            }
        }
        assert!(seen.iter().all(|word| word >> 63 == 1));
    }
}
