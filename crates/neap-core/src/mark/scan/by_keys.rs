//! Pairs of objects of which the second, the value, is marked as soon as the first, the key, is:
//! ephemerons in chains, which passes over all of them would follow one link a pass.
//!
//! Invariant: a marker that has pairs looks up every object that it marks from its stack, so the
//! time is that of the pairs and of what they lead to, in whatever order they come. All memory is
//! taken before the first mark. An object that is marked otherwise is not looked up (where the
//! stack has no room): who gave the pairs looks once more. Used by the driver, its helpers gone.

use core::mem::replace;

use crate::sys::meta_vec::{MetaVec, NoMemory};

/// A pair whose key was not marked.
#[derive(Clone, Copy)]
struct Pair {
    /// Where the key starts.
    key: usize,
    value: usize,
    /// The next pair of the chain, plus one.
    next: u32,
}

/// A table of pairs by their keys, chained: many may have one key.
pub struct ByKeys {
    pairs: MetaVec<Pair>,
    /// The first pair of each chain, plus one. A power of two of them, at least as many as pairs.
    chains: MetaVec<u32>,
}

impl ByKeys {
    /// Without a pair; takes no memory.
    pub const fn new() -> Self {
        Self { pairs: MetaVec::new(), chains: MetaVec::new() }
    }

    /// Whether there is nothing to look up.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Adds a pair, whose key starts there; found from [`index`](Self::index) on.
    pub fn add(&mut self, key: usize, value: usize) -> Result<(), NoMemory> {
        self.pairs.try_push(Pair { key, value, next: 0 })
    }

    /// Makes the chains; none where there are no pairs.
    pub fn index(&mut self) -> Result<(), NoMemory> {
        let count = self.pairs.len();
        if count == 0 {
            return Ok(());
        }
        if u32::try_from(count).is_err() {
            return Err(NoMemory);
        }
        self.chains.try_resize(count.next_power_of_two(), 0)?;
        for place in 0..count {
            let chain = self.chain(self.pairs[place].key);
            let first = replace(&mut self.chains[chain], place as u32 + 1);
            self.pairs[place].next = first;
        }
        Ok(())
    }

    /// The chain that a key's pairs are in.
    #[inline(always)]
    fn chain(&self, key: usize) -> usize {
        // The upper half of the product depends on all bits of the key.
        let mixed = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed as usize & (self.chains.len() - 1)
    }

    /// The first pair of the key's chain, plus one.
    #[inline(always)]
    pub fn first(&self, key: usize) -> u32 {
        self.chains[self.chain(key)]
    }

    /// The value of the key's next pair from `next` on, which is moved past it.
    #[inline(always)]
    pub fn next_value(&self, key: usize, next: &mut u32) -> Option<usize> {
        while let Some(pair) = next.checked_sub(1).map(|place| &self.pairs[place as usize]) {
            *next = pair.next;
            if pair.key == key {
                return Some(pair.value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::buffer::tests::local;
    use crate::alloc::refill::refill;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;
    use crate::heap::{Heap, classes};
    use crate::mark::drain::Marker;
    use crate::mark::markers::Markers;

    /// Objects of 64 bytes in a block of the heap.
    fn objects<const COUNT: usize>(heap: &Heap) -> [usize; COUNT] {
        heap.reserve(64 << 20).unwrap();
        let local = local();
        let id = SpaceId::of(Kind::Conservative, classes::class_of(64));
        let buffer = local.buffer(id).unwrap();
        refill(heap, local, buffer, id).unwrap();
        [0; COUNT].map(|_| buffer.bump(64))
    }

    #[test]
    fn chains_are_followed_through_pairs_and_other_objects() {
        for kept in [false, true] {
            let (heap, markers) = (Heap::new(), Markers::new());
            let [root, first, second, third, other, last, dead, of_dead] = objects(&heap);
            #[allow(unsafe_code)]
            // SAFETY: an object of the test.
            unsafe {
                (other as *mut usize).write(last + 8);
            }
            if kept {
                let all = heap.base().0..heap.base().0 + heap.committed();
                heap.before_images.open(&all, 4).unwrap();
            }
            let mut marker = Marker::new(&markers, &heap, 0);
            let mut mark = |object, pairs: &[(usize, usize)]| {
                marker.by_keys = ByKeys::new();
                for &(key, value) in pairs {
                    marker.by_keys.add(key, value).unwrap();
                }
                marker.by_keys.index().unwrap();
                marker.word(object);
                marker.drain();
            };
            let pairs = [
                (last, third),
                (dead, of_dead),
                (second, other),
                (first, second),
                (root, first),
                (first, root),
            ];
            mark(root, &pairs);
            for object in [root, first, second, third, other, last] {
                assert!(heap.is_marked(object));
            }
            assert!(!heap.is_marked(dead) && !heap.is_marked(of_dead));
            mark(dead, &[]);
            assert!(!heap.is_marked(of_dead), "the pairs are forgotten");
            heap.before_images.close();
        }
    }

    #[test]
    fn each_key_leads_to_its_values() {
        let mut table = ByKeys::new();
        for number in 0..1000 {
            table.add(number % 300 * 16, number).unwrap();
        }
        assert!(table.is_empty());
        table.index().unwrap();
        assert!(!table.is_empty());
        for key in 0..400 {
            let mut next = table.first(key * 16);
            let next_value = || table.next_value(key * 16, &mut next);
            let mut found: Vec<usize> = core::iter::from_fn(next_value).collect();
            found.sort_unstable();
            let expected: Vec<usize> =
                (0..1000).filter(|number| number % 300 == key && key < 300).collect();
            assert_eq!(found, expected);
        }
    }
}
