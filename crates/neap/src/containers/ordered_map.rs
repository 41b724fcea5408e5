//! `BTreeMap<K, V>`: a map in the order of its keys whose memory is collected.
//!
//! A tree of two levels: a vector of leaves, each a sorted vector of at most `MOST` entries.
//! Invariant: no leaf is empty, two neighbours have more than half of `MOST` together, and keys
//! ascend within leaves and from one to the next, if their `Ord` is an order. Nothing but the order
//! of entries depends on what it says, and it is asked before anything is changed, so that it may
//! panic. Used by any thread.

use std::borrow::Borrow;
use std::fmt;
use std::mem::needs_drop;
use std::ops::{Bound, RangeBounds};

use super::Vec;
use crate::types::trace::Trace;

/// Entries of a leaf at most. Larger: less to move in the vector of leaves; smaller: less to move
/// in a leaf.
const MOST: usize = 64;

/// A map in the order of its keys whose memory is collected: it may be part of a collected object,
/// hold any `Gc`, and be on a cycle. Keys and values must need no drop; `Gc<str>` is a key as
/// `String` is elsewhere.
///
/// An entry is found in logarithmic time. To insert or remove one moves up to 64 entries, and once
/// in some dozens of times a vector with three words for each 32 to 64 entries.
///
/// ```
/// use neap::{BTreeMap, Gc};
///
/// let mut tides: BTreeMap<u32, Gc<str>> = BTreeMap::new();
/// tides.insert(1120, "high".into());
/// tides.insert(510, "low".into());
/// let (time, tide) = tides.range(600..).next().unwrap();
/// assert_eq!((*time, &**tide), (1120, "high"));
/// ```
///
/// ```compile_fail
/// # // Refused: the strings would never be dropped.
/// let mut names = neap::BTreeMap::new();
/// names.insert(1, String::new());
/// ```
pub struct BTreeMap<K: Trace, V: Trace> {
    leaves: Vec<Vec<(K, V)>>,
    length: usize,
}

/// A leaf's index and an entry's in it. Behind a leaf's last entry is the first of the next leaf.
type Place = (usize, usize);

impl<K: Trace, V: Trace> BTreeMap<K, V> {
    const MAY_BE: () = assert!(
        !needs_drop::<(K, V)>(),
        "keys and values of a neap::BTreeMap must need no drop: use Gc<K>, Gc<V>"
    );

    /// An empty one, without memory.
    ///
    /// ```
    /// assert!(neap::BTreeMap::<u8, u8>::new().is_empty());
    /// ```
    pub const fn new() -> Self {
        let () = Self::MAY_BE;
        Self { leaves: Vec::new(), length: 0 }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// All entries, in the order of their keys.
    ///
    /// ```
    /// let map: neap::BTreeMap<u8, u8> = [(3, 4), (1, 2)].into_iter().collect();
    /// assert!(map.iter().eq([(&1, &2), (&3, &4)]));
    /// assert!(map.iter().rev().eq([(&3, &4), (&1, &2)]));
    /// ```
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        Entries { leaves: &self.leaves, front: (0, 0), back: (self.leaves.len(), 0) }
    }

    /// All entries, in the order of their keys, the values to be changed.
    ///
    /// ```
    /// let mut map: neap::BTreeMap<u8, u8> = [(3, 4), (1, 2)].into_iter().collect();
    /// map.iter_mut().for_each(|(key, value)| *value += key);
    /// assert!(map.iter().eq([(&1, &3), (&3, &7)]));
    /// ```
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        self.leaves.iter_mut().flat_map(|leaf| leaf.iter_mut().map(|(key, value)| (&*key, value)))
    }

    /// The entry of the least key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// The entry of the greatest key.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }

    /// Takes the entry of the least key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (self.length > 0).then(|| self.remove_at((0, 0)))
    }

    /// Takes the entry of the greatest key.
    ///
    /// ```
    /// let mut map: neap::BTreeMap<u8, u8> = [(3, 4), (1, 2)].into_iter().collect();
    /// assert_eq!(map.pop_last(), Some((3, 4)));
    /// ```
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        let last = self.leaves.len().checked_sub(1)?;
        Some(self.remove_at((last, self.leaves[last].len() - 1)))
    }

    /// Puts an entry where it belongs, and says where it is then.
    fn insert_at(&mut self, (leaf, index): Place, entry: (K, V)) -> Place {
        self.length += 1;
        let leaves = self.leaves.len();
        if leaves == 0 {
            self.leaves.push(Vec::new());
        }
        let entries = &mut self.leaves[leaf];
        entries.insert(index, entry);
        if entries.len() <= MOST {
            return (leaf, index);
        }
        // Keys that come in order fill their leaves.
        let is_last = leaf + 1 == leaves && index == MOST;
        let from = if is_last { MOST } else { MOST / 2 };
        let split = entries.split_off(from);
        self.leaves.insert(leaf + 1, split);
        if index < from { (leaf, index) } else { (leaf + 1, index - from) }
    }

    fn remove_at(&mut self, (leaf, index): Place) -> (K, V) {
        self.length -= 1;
        let taken = self.leaves[leaf].remove(index);
        if self.leaves[leaf].is_empty() {
            self.leaves.remove(leaf);
            return taken;
        }
        let are_small = |first: &usize| {
            let both = self.leaves[*first..].get(..2);
            both.is_some_and(|both| both[0].len() + both[1].len() <= MOST / 2)
        };
        if let Some(first) = (leaf.saturating_sub(1)..=leaf).find(are_small) {
            let mut next = self.leaves.remove(first + 1);
            self.leaves[first].append(&mut next);
        }
        taken
    }
}

impl<K: Trace + Ord, V: Trace> BTreeMap<K, V> {
    /// Where a key is, or where it would have to be inserted.
    fn locate<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Place, Place>
    where
        K: Borrow<Q>,
    {
        let behind = self.leaves.partition_point(|leaf| leaf[0].0.borrow() <= key);
        let leaf = behind.saturating_sub(1);
        let Some(entries) = self.leaves.get(leaf) else { return Err((0, 0)) };
        match entries.binary_search_by(|(other, _)| other.borrow().cmp(key)) {
            Ok(index) => Ok((leaf, index)),
            Err(index) => Err((leaf, index)),
        }
    }

    /// Puts a value under a key; gives the one that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.locate(&key) {
            Ok((leaf, index)) => Some(std::mem::replace(&mut self.leaves[leaf][index].1, value)),
            Err(place) => {
                self.insert_at(place, (key, value));
                None
            }
        }
    }

    /// The value under a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (leaf, index) = self.locate(key).ok()?;
        Some(&self.leaves[leaf][index].1)
    }

    /// The value under a key, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (leaf, index) = self.locate(key).ok()?;
        Some(&mut self.leaves[leaf][index].1)
    }

    /// Whether there is a value under a key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.locate(key).is_ok()
    }

    /// Takes the value under a key.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.locate(key).ok()?;
        Some(self.remove_at(place).1)
    }

    /// The value under a key, which is made if there is none.
    ///
    /// ```
    /// let mut map: neap::BTreeMap<u8, u8> = neap::BTreeMap::new();
    /// *map.get_or_insert_with(1, || 5) += 1;
    /// assert_eq!(map.get(&1), Some(&6));
    /// ```
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let (leaf, index) = match self.locate(&key) {
            Ok(place) => place,
            Err(place) => {
                let value = make();
                self.insert_at(place, (key, value))
            }
        };
        &mut self.leaves[leaf][index].1
    }

    /// The entries whose keys are in a range, in their order; none if the range ends before it
    /// begins.
    ///
    /// ```
    /// let map: neap::BTreeMap<u8, char> = [(1, 'a'), (3, 'c'), (5, 'e')].into_iter().collect();
    /// assert!(map.range(2..=5).rev().eq([(&5, &'e'), (&3, &'c')]));
    /// ```
    pub fn range<Q: Ord + ?Sized>(
        &self,
        range: impl RangeBounds<Q>,
    ) -> impl DoubleEndedIterator<Item = (&K, &V)>
    where
        K: Borrow<Q>,
    {
        let after = |(leaf, index): Place| (leaf, index + 1);
        let front = match range.start_bound() {
            Bound::Included(key) => self.locate(key).unwrap_or_else(|place| place),
            Bound::Excluded(key) => self.locate(key).map_or_else(|place| place, after),
            Bound::Unbounded => (0, 0),
        };
        let back = match range.end_bound() {
            Bound::Included(key) => self.locate(key).map_or_else(|place| place, after),
            Bound::Excluded(key) => self.locate(key).unwrap_or_else(|place| place),
            Bound::Unbounded => (self.leaves.len(), 0),
        };
        let leaves: &[_] = &self.leaves;
        Entries { leaves, front: entry_at(leaves, front), back: entry_at(leaves, back) }
    }
}

/// The place of an entry, or the end: not behind a leaf's last.
fn entry_at<T: Trace>(leaves: &[Vec<T>], (leaf, index): Place) -> Place {
    let is_behind = leaves.get(leaf).is_some_and(|entries| index == entries.len());
    if is_behind { (leaf + 1, 0) } else { (leaf, index) }
}

/// Entries from one place to before another.
struct Entries<'a, K: Trace, V: Trace> {
    leaves: &'a [Vec<(K, V)>],
    front: Place,
    back: Place,
}

impl<'a, K: Trace, V: Trace> Iterator for Entries<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        let (leaf, index) = self.front;
        let (key, value) = &self.leaves[leaf][index];
        self.front = entry_at(self.leaves, (leaf, index + 1));
        Some((key, value))
    }
}

impl<K: Trace, V: Trace> DoubleEndedIterator for Entries<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        self.back = match self.back {
            (leaf, 0) => (leaf - 1, self.leaves[leaf - 1].len() - 1),
            (leaf, index) => (leaf, index - 1),
        };
        let (key, value) = &self.leaves[self.back.0][self.back.1];
        Some((key, value))
    }
}

impl<K: Trace, V: Trace> Default for BTreeMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Trace + Ord, V: Trace> Extend<(K, V)> for BTreeMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, value)| _ = self.insert(key, value));
    }
}

impl<K: Trace + Ord, V: Trace> FromIterator<(K, V)> for BTreeMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Trace + fmt::Debug, V: Trace + fmt::Debug> fmt::Debug for BTreeMap<K, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LESS, Random};
    use super::*;
    use crate::Gc;
    use std::cmp::Ordering;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    type Model = std::collections::BTreeMap<u64, u64>;
    type Map = BTreeMap<Gc<u64>, Gc<u64>>;

    fn values<'a>(
        entries: impl DoubleEndedIterator<Item = (&'a Gc<u64>, &'a Gc<u64>)>,
    ) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        entries.map(|(key, value)| (**key, **value))
    }

    fn check(map: &Map, model: &Model) {
        assert_eq!(map.len(), model.len());
        let wanted = || model.iter().map(|(key, value)| (*key, *value));
        assert!(values(map.iter()).eq(wanted()));
        assert!(values(map.iter().rev()).eq(wanted().rev()));
        assert!(map.leaves.iter().all(|leaf| !leaf.is_empty() && leaf.len() <= MOST));
        let are_large = |both: &[Vec<_>]| both[0].len() + both[1].len() > MOST / 2;
        assert!(map.leaves.windows(2).all(are_large));
    }

    #[test]
    fn it_does_what_the_standard_librarys_does() {
        let mut random = Random(11);
        let (mut map, mut model) = (Map::new(), Model::new());
        let less = LESS as u64;
        for step in 0..40_000 / less {
            let key = random.below(4000 / less);
            // Grows and shrinks by turns.
            match random.below(8 + 8 * u64::from((step / (5000 / less)).is_multiple_of(2))) {
                0 => assert_eq!(
                    map.pop_first().map(|(key, value)| (*key, *value)),
                    model.pop_first()
                ),
                1 => {
                    assert_eq!(map.pop_last().map(|(key, value)| (*key, *value)), model.pop_last());
                }
                2..7 => assert_eq!(map.remove(&key).as_deref().copied(), model.remove(&key)),
                7 => {
                    let value = **map.get_or_insert_with(Gc::new(key), || Gc::new(step));
                    assert_eq!(value, *model.entry(key).or_insert(step));
                }
                _ => {
                    let before = map.insert(Gc::new(key), Gc::new(step));
                    assert_eq!(before.as_deref().copied(), model.insert(key, step));
                }
            }
            assert_eq!(map.get(&key).map(|one| **one), model.get(&key).copied());
            if step % 50 == 0 {
                let bound = |kind, key| match kind {
                    0 => Bound::Included(key),
                    1 => Bound::Excluded(key),
                    _ => Bound::Unbounded,
                };
                let low = bound(random.below(3), key);
                let high = bound(random.below(3), key + 1 + random.below(500 / less));
                let wanted = || model.range((low, high)).map(|(key, value)| (*key, *value));
                assert!(values(map.range((low, high))).eq(wanted()), "{low:?} {high:?}");
                assert!(values(map.range((low, high)).rev()).eq(wanted().rev()));
                // From both ends until they meet.
                let mut ends = map.range((low, high));
                let mut count = 0;
                while ends.next().is_some() {
                    count += 1 + usize::from(ends.next_back().is_some());
                }
                assert_eq!(count, wanted().count());
            }
            if step % (1000 / less) == 0 {
                check(&map, &model);
            }
            if step % (5000 / less) == 0 {
                crate::collect();
            }
        }
        check(&map, &model);
        let (low, high) = (9_u64, 3);
        assert!(map.range(low..high).next().is_none() && !needs_drop::<Map>());
        map.iter_mut().for_each(|(_, value)| *value = Gc::new(1));
        assert!(map.iter().all(|(_, value)| **value == 1));
        map.clear();
        assert!(map.pop_first().is_none() && map.pop_last().is_none() && map.iter().count() == 0);
    }

    #[test]
    fn keys_in_order_fill_leaves() {
        let all = 10_000 / LESS as u64;
        let mut map: Map = (0..all).map(|key| (Gc::new(key), Gc::new(key))).collect();
        assert_eq!(map.leaves.len(), (10_000 / LESS).div_ceil(MOST));
        (0..all).filter(|key| key % 50 != 0).for_each(|key| _ = map.remove(&key));
        check(&map, &(0..all).step_by(50).map(|key| (key, key)).collect());
    }

    /// Panics if it is compared with 13, and says what comes to its mind about 14.
    #[derive(PartialEq, Eq, Clone, Copy, crate::Trace)]
    struct Unlucky(u64);
    impl Ord for Unlucky {
        fn cmp(&self, other: &Self) -> Ordering {
            assert!(other.0 != 13, "unlucky");
            if other.0 == 14 { Ordering::Greater } else { self.0.cmp(&other.0) }
        }
    }
    impl PartialOrd for Unlucky {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }
    #[test]
    fn an_order_that_panics_or_is_none_changes_nothing_else() {
        let mut map = BTreeMap::new();
        (100..500).for_each(|key| _ = map.insert(Unlucky(key), Gc::new(key)));
        let changed = catch_unwind(AssertUnwindSafe(|| map.insert(Unlucky(13), Gc::new(1))));
        assert!(changed.is_err());
        let made = catch_unwind(AssertUnwindSafe(|| {
            map.get_or_insert_with(Unlucky(7), || panic!("no value"));
        }));
        assert!(made.is_err());
        assert!(map.iter().map(|(key, value)| (key.0, **value)).eq((100..500).map(|n| (n, n))));
        (0..200).for_each(|_| _ = map.insert(Unlucky(14), Gc::new(14)));
        (0..200).for_each(|_| _ = map.range(Unlucky(14)..Unlucky(200)).count());
        (100..500).for_each(|key| _ = map.remove(&Unlucky(key)));
        assert_eq!(map.len(), map.iter().count());
    }
}
