//! `HashMap<K, V>`: a hash table whose memory is collected.
//!
//! Invariant: as [`Vec`](crate::Vec): keys and values need no drop, so neither does the table.
//! Where in its memory they lie is the table's own affair: all words of it are looked at. A slot is
//! zero before it is given up, and entries move to fresh memory only, so what was taken out keeps
//! nothing. Used by any thread.
//!
//! # Safety
//!
//! Every slot that the table counts has an entry: one that is zeroed is given up before code of the
//! program runs again.

#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::mem::{ManuallyDrop, MaybeUninit, needs_drop, replace};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::memory::buffer::AnywhereIn;
use crate::memory::seen::seen;
use crate::types::aligned::Aligned;
use crate::types::trace::Trace;

type Table<K, V> = HashTable<Slot<K, V>, AnywhereIn<(K, V)>>;

/// The place of an entry.
#[repr(transparent)]
struct Slot<K, V>(MaybeUninit<(K, V)>);

impl<K, V> Slot<K, V> {
    fn entry(&self) -> &(K, V) {
        // SAFETY: the table counts the slot.
        unsafe { self.0.assume_init_ref() }
    }

    fn entry_mut(&mut self) -> &mut (K, V) {
        // SAFETY: as above.
        unsafe { self.0.assume_init_mut() }
    }

    /// Takes the entry out.
    ///
    /// # Safety
    ///
    /// The slot is given up next.
    unsafe fn take(&mut self) -> (K, V) {
        // SAFETY: as above.
        unsafe { replace(&mut self.0, MaybeUninit::zeroed()).assume_init() }
    }
}

/// A hash table whose memory is collected: it may be part of a collected object, hold any `Gc`, and
/// be on a cycle. Keys and values must need no drop; `Gc<str>` is a key as `String` is elsewhere.
///
/// ```
/// use neap::{Gc, HashMap};
///
/// let mut ages: HashMap<Gc<str>, u32> = HashMap::new();
/// ages.insert("Ada".into(), 36);
/// assert_eq!(ages.get("Ada"), Some(&36));
/// ```
pub struct HashMap<K: Trace, V: Trace> {
    table: ManuallyDrop<Table<K, V>>,
    hasher: DefaultHashBuilder,
    _aligned: Aligned,
}

/// Entries for which an empty table makes room.
const FEWEST: usize = 3;

impl<K: Trace, V: Trace> HashMap<K, V> {
    const MAY_BE: () = assert!(
        !needs_drop::<(K, V)>(),
        "keys and values of a neap::HashMap must need no drop: use Gc<K>, Gc<V>"
    );

    /// An empty one, without memory.
    pub fn new() -> Self {
        let () = Self::MAY_BE;
        let table = ManuallyDrop::new(Table::new_in(AnywhereIn::NEW));
        Self { table, hasher: DefaultHashBuilder::default(), _aligned: Aligned }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        if const { !<(K, V)>::SHAPE.is_leaf() } {
            // SAFETY: all are given up in the next line.
            self.table.iter_mut().for_each(|slot| _ = unsafe { slot.take() });
        }
        self.table.clear();
    }

    /// All entries, in no order.
    ///
    /// ```
    /// let map: neap::HashMap<u8, u8> = [(1, 2), (3, 4)].into_iter().collect();
    /// assert_eq!(map.iter().map(|(key, value)| key * value).sum::<u8>(), 14);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.seen().table.iter().map(|slot| {
            let (key, value) = slot.entry();
            (key, value)
        })
    }

    /// Keeps the entries of which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.seen();
        self.table.retain(|slot| {
            let (key, value) = slot.entry_mut();
            let keeps = keep(key, value);
            if !keeps {
                // SAFETY: given up by the table, when it hears of it.
                let _ = unsafe { slot.take() };
            }
            keeps
        });
    }

    /// Before a reference into its memory is given out.
    fn seen(&self) -> &Self {
        if const { !<(K, V)>::SHAPE.is_leaf() } {
            seen(self);
        }
        self
    }
}

impl<K: Trace + Eq + Hash, V: Trace> HashMap<K, V> {
    /// Puts a value under a key; gives the one that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.entry(&key) {
            Entry::Occupied(mut found) => Some(replace(&mut found.get_mut().entry_mut().1, value)),
            Entry::Vacant(place) => {
                place.insert(Slot(MaybeUninit::new((key, value))));
                None
            }
        }
    }

    /// What the table has for a key, with room for one more entry.
    fn entry(&mut self, key: &K) -> Entry<'_, Slot<K, V>, AnywhereIn<(K, V)>> {
        if self.table.len() == self.table.capacity() {
            self.grow();
        }
        self.seen();
        let hash = |key: &K| self.hasher.hash_one(key);
        let is_key = |slot: &Slot<K, V>| slot.entry().0 == *key;
        self.table.entry(hash(key), is_key, |slot| hash(&slot.entry().0))
    }

    /// Moves all to fresh memory with room for more. The table itself would move entries within
    /// its memory where many were taken out, and leave their words behind.
    #[cold]
    fn grow(&mut self) {
        let room = (2 * self.len()).max(FEWEST);
        let mut table = Table::with_capacity_in(room, AnywhereIn::NEW);
        let hash = |slot: &Slot<K, V>| self.hasher.hash_one(&slot.entry().0);
        for slot in self.table.iter() {
            // SAFETY: an entry needs no drop, and counts in the old table until this is done.
            let moved = unsafe { core::ptr::from_ref(slot).read() };
            table.insert_unique(hash(slot), moved, hash);
        }
        drop(replace(&mut *self.table, table));
    }

    /// The value under a key.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let slot = self.seen().table.find(hash, |slot| slot.entry().0.borrow() == key)?;
        Some(&slot.entry().1)
    }

    /// The value under a key, to be changed.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.seen();
        let hash = self.hasher.hash_one(key);
        let slot = self.table.find_mut(hash, |slot| slot.entry().0.borrow() == key)?;
        Some(&mut slot.entry_mut().1)
    }

    /// Whether there is a value under a key.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Takes the value under a key.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.seen();
        let hash = self.hasher.hash_one(key);
        let found = self.table.find_entry(hash, |slot| slot.entry().0.borrow() == key);
        let mut entry = found.ok()?;
        // SAFETY: given up in the next line.
        let (_, value) = unsafe { entry.get_mut().take() };
        entry.remove();
        Some(value)
    }

    /// The value under a key, which is made if there is none.
    ///
    /// ```
    /// let mut map: neap::HashMap<u8, u8> = neap::HashMap::new();
    /// *map.get_or_insert_with(1, || 5) += 1;
    /// assert_eq!(map.get(&1), Some(&6));
    /// ```
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let found = match self.entry(&key) {
            Entry::Occupied(found) => found,
            Entry::Vacant(place) => place.insert(Slot(MaybeUninit::new((key, make())))),
        };
        &mut found.into_mut().entry_mut().1
    }
}

impl<K: Trace, V: Trace> Default for HashMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Trace + Eq + Hash, V: Trace> Extend<(K, V)> for HashMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, value)| _ = self.insert(key, value));
    }
}

impl<K: Trace + Eq + Hash, V: Trace> FromIterator<(K, V)> for HashMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Trace + fmt::Debug, V: Trace + fmt::Debug> fmt::Debug for HashMap<K, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::LESS;
    use super::*;
    use crate::Gc;

    #[test]
    fn keys_and_values_are_alive_while_it_grows_and_shrinks() {
        let mut map: HashMap<Gc<str>, Gc<usize>> = HashMap::new();
        for index in 0..20_000 / LESS {
            map.insert(index.to_string().into(), Gc::new(index));
            if index % (5000 / LESS) == 0 {
                crate::collect();
            }
        }
        map.retain(|_, value| **value % 2 == 0);
        crate::collect();
        assert_eq!(map.len(), 10_000 / LESS);
        assert!(map.iter().all(|(key, value)| **key == *value.to_string()));
        assert!(map.get("1").is_none() && map.contains_key("2"));
        assert_eq!(map.remove("2").as_deref(), Some(&2));
        assert!(!needs_drop::<HashMap<Gc<str>, Gc<usize>>>());
    }

    #[inline(never)]
    fn apart<R>(f: impl FnOnce() -> R) -> R {
        std::hint::black_box(f)()
    }

    /// So many of the objects that were taken out of a table are alive after a collection.
    fn kept_by(take: fn(&mut HashMap<usize, Gc<usize>>)) -> usize {
        let mut map: HashMap<usize, Gc<usize>> = HashMap::new();
        let weak: std::vec::Vec<_> = apart(|| {
            let weak = (0..1000).map(|key| {
                let value = Gc::new(key);
                map.insert(key, value);
                Gc::downgrade(value)
            });
            weak.collect()
        });
        apart(|| take(&mut map));
        (0..2).for_each(|_| _ = apart(|| (std::hint::black_box([0_u64; 2000]), crate::collect())));
        let kept = apart(|| weak.iter().filter(|one| one.upgrade().is_some()).count());
        let of_map = map.len();
        std::hint::black_box(map);
        kept - of_map.min(kept)
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing is found dead under miri")]
    fn what_was_taken_out_is_kept_no_more() {
        assert!(kept_by(|map| map.clear()) < 100);
        assert!(kept_by(|map| map.retain(|key, _| key % 10 == 0)) < 100);
        assert!(kept_by(|map| (0..900).for_each(|key| _ = map.remove(&key))) < 100);
        // Where many were taken out, the others move.
        let moved = kept_by(|map| {
            (0..700).for_each(|key| _ = map.remove(&key));
            let one = *map.get(&700).unwrap();
            (2000..30_000).for_each(|key| {
                map.insert(key, one);
                map.remove(&key);
            });
            map.clear();
            map.insert(0, one);
        });
        assert!(moved < 100, "{moved}");
    }
}
