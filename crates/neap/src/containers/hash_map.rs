//! `HashMap<K, V>`: a hash table whose memory is collected.
//!
//! Invariant: as [`Vec`](crate::Vec): keys and values need no drop, so neither does the table.
//! Where in its memory they lie is the table's own affair: all words of it are looked at. Used by
//! any thread.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::mem::{ManuallyDrop, needs_drop};

use hashbrown::DefaultHashBuilder;

use crate::memory::buffer::AnywhereIn;
use crate::types::aligned::Aligned;
use crate::types::trace::Trace;

type Table<K, V> = hashbrown::HashMap<K, V, DefaultHashBuilder, AnywhereIn<(K, V)>>;

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
pub struct HashMap<K: Trace, V: Trace>(ManuallyDrop<Table<K, V>>, Aligned);

impl<K: Trace, V: Trace> HashMap<K, V> {
    const MAY_BE: () = assert!(
        !needs_drop::<(K, V)>(),
        "keys and values of a neap::HashMap must need no drop: use Gc<K>, Gc<V>"
    );

    /// An empty one, without memory.
    pub fn new() -> Self {
        let () = Self::MAY_BE;
        let table = Table::with_hasher_in(DefaultHashBuilder::default(), AnywhereIn::NEW);
        Self(ManuallyDrop::new(table), Aligned)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All entries, in no order.
    ///
    /// ```
    /// let map: neap::HashMap<u8, u8> = [(1, 2), (3, 4)].into_iter().collect();
    /// assert_eq!(map.iter().map(|(key, value)| key * value).sum::<u8>(), 14);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter()
    }

    /// Keeps the entries of which `keep` says so.
    pub fn retain(&mut self, keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain(keep);
    }
}

impl<K: Trace + Eq + Hash, V: Trace> HashMap<K, V> {
    /// Puts a value under a key; gives the one that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// The value under a key.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// The value under a key, to be changed.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// Whether there is a value under a key.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// Takes the value under a key.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }

    /// The value under a key, which is made if there is none.
    ///
    /// ```
    /// let mut map: neap::HashMap<u8, u8> = neap::HashMap::new();
    /// *map.get_or_insert_with(1, || 5) += 1;
    /// assert_eq!(map.get(&1), Some(&6));
    /// ```
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.0.entry(key).or_insert_with(make)
    }
}

impl<K: Trace, V: Trace> Default for HashMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Trace + Eq + Hash, V: Trace> Extend<(K, V)> for HashMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.0.extend(entries);
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
        self.0.fmt(formatter)
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
}
