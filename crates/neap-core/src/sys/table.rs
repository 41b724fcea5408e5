//! A hash table that never stops to rehash: linear hashing over chains in one dense array.
//!
//! Invariant: every entry is in exactly one chain, the one its key hashes to, and chains hold
//! indices below `entries.len()`. Each insertion adds at most one bucket, so the longest operation
//! is short however many entries there are, and a cycle can walk `entries` in order. Removal
//! allocates nothing. As thread-safe as `Vec`.

use super::meta_vec::{MetaVec, NoMemory};

const NONE: u32 = u32::MAX;
/// Buckets of a table that has any.
const FIRST_BUCKETS: usize = 16;

/// What a [`Table`] holds.
pub(crate) trait Entry: Copy {
    /// What it is found by; changes by [`Table::change_key`] only while it is in a table.
    fn key(&self) -> usize;
    /// The table's own word: index of the next entry of the chain.
    fn next(&self) -> u32;
    /// Sets the table's own word.
    fn set_next(&mut self, next: u32);
}

/// Entries by key, each key once.
pub(crate) struct Table<E: Entry> {
    /// Index of each chain's first entry.
    buckets: MetaVec<u32>,
    entries: MetaVec<E>,
}

impl<E: Entry> Table<E> {
    pub(crate) const fn new() -> Self {
        Self { buckets: MetaVec::new(), entries: MetaVec::new() }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Which of `buckets` buckets a key belongs to.
    fn bucket(key: usize, buckets: usize) -> usize {
        let hash = ((key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        let wide = buckets.next_power_of_two();
        let index = hash & (wide - 1);
        if index < buckets { index } else { index & (wide / 2 - 1) }
    }

    /// Index of the entry with this key.
    pub(crate) fn find(&self, key: usize) -> Option<usize> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut index = self.buckets[Self::bucket(key, self.buckets.len())];
        while index != NONE {
            let entry = &self.entries[index as usize];
            if entry.key() == key {
                return Some(index as usize);
            }
            index = entry.next();
        }
        None
    }

    /// Adds an entry whose key is not there yet.
    pub(crate) fn insert(&mut self, mut entry: E) -> Result<(), NoMemory> {
        debug_assert!(self.find(entry.key()).is_none());
        if self.entries.len() >= NONE as usize {
            return Err(NoMemory);
        }
        self.entries.try_reserve(1)?;
        if self.buckets.is_empty() {
            self.buckets.try_resize(FIRST_BUCKETS, NONE)?;
        } else if self.entries.len() >= self.buckets.len() {
            self.split()?;
        }
        let bucket = Self::bucket(entry.key(), self.buckets.len());
        entry.set_next(self.buckets[bucket]);
        self.buckets[bucket] = self.entries.len() as u32;
        self.entries.push(entry);
        Ok(())
    }

    /// One bucket more: the entries that belong to it come from one other.
    fn split(&mut self) -> Result<(), NoMemory> {
        let new = self.buckets.len();
        self.buckets.try_push(NONE)?;
        let old = new - (1 << new.ilog2());
        let mut index = self.buckets[old];
        self.buckets[old] = NONE;
        while index != NONE {
            let entry = &mut self.entries[index as usize];
            let following = entry.next();
            let bucket = Self::bucket(entry.key(), new + 1);
            entry.set_next(self.buckets[bucket]);
            self.buckets[bucket] = index;
            index = following;
        }
        Ok(())
    }

    /// Makes whoever points to entry `from` point to `to`.
    fn redirect(&mut self, from: u32, to: u32) {
        let bucket = Self::bucket(self.entries[from as usize].key(), self.buckets.len());
        let mut index = self.buckets[bucket];
        if index == from {
            self.buckets[bucket] = to;
            return;
        }
        loop {
            let entry = &mut self.entries[index as usize];
            if entry.next() == from {
                entry.set_next(to);
                return;
            }
            index = entry.next();
        }
    }

    /// All entries, in the order of their indices.
    pub(crate) fn entries(&self) -> &[E] {
        &self.entries
    }

    /// The entry at an index; its key must not be changed.
    pub(crate) fn at_mut(&mut self, index: usize) -> &mut E {
        &mut self.entries[index]
    }

    /// Changes the key of the entry at an index, to one that is not there yet.
    pub(crate) fn change_key(&mut self, index: usize, change: impl FnOnce(&mut E)) {
        let following = self.entries[index].next();
        self.redirect(index as u32, following);
        change(&mut self.entries[index]);
        self.link(index);
    }

    /// Puts an entry that is in no chain into the one that its key hashes to.
    fn link(&mut self, index: usize) {
        let bucket = Self::bucket(self.entries[index].key(), self.buckets.len());
        let first = core::mem::replace(&mut self.buckets[bucket], index as u32);
        self.entries[index].set_next(first);
    }

    /// Two entries get each other's index.
    pub(crate) fn exchange(&mut self, one: usize, other: usize) {
        if one == other {
            return;
        }
        for index in [one, other] {
            let following = self.entries[index].next();
            self.redirect(index as u32, following);
        }
        self.entries.swap(one, other);
        self.link(one);
        self.link(other);
    }

    /// Takes an entry out by index; the last one gets its index.
    pub(crate) fn remove_at(&mut self, index: usize) -> E {
        let following = self.entries[index].next();
        self.redirect(index as u32, following);
        let last = self.entries.len() - 1;
        if index != last {
            self.redirect(last as u32, index as u32);
        }
        self.entries.swap_remove(index)
    }

    /// Takes any entry out.
    pub(crate) fn pop(&mut self) -> Option<E> {
        self.len().checked_sub(1).map(|last| self.remove_at(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Clone, Copy)]
    struct Pair {
        key: usize,
        value: usize,
        next: u32,
    }
    impl Entry for Pair {
        fn key(&self) -> usize {
            self.key
        }
        fn next(&self) -> u32 {
            self.next
        }
        fn set_next(&mut self, next: u32) {
            self.next = next;
        }
    }

    #[test]
    fn agrees_with_a_map_over_random_operations() {
        let (mut table, mut map) = (Table::<Pair>::new(), HashMap::new());
        let mut seed = 0x1234_5678_9ABC_DEF1_u64;
        for step in 0..200_000_usize {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let key = (seed as usize >> 8) % 3000 * 16;
            if seed.is_multiple_of(11) && table.len() > 0 && !map.contains_key(&key) {
                let index = step % table.len();
                let old = table.entries()[index].key;
                table.change_key(index, |pair| pair.key = key);
                let value = map.remove(&old).expect("known to both");
                map.insert(key, value);
            } else if seed.is_multiple_of(7) && table.len() > 0 {
                let [one, other] = [seed as usize >> 16, step].map(|place| place % table.len());
                let keys = [one, other].map(|index| table.entries()[index].key);
                table.exchange(one, other);
                assert_eq!([other, one].map(|index| table.entries()[index].key), keys);
            } else if seed.is_multiple_of(3) {
                let removed = table.find(key).map(|index| table.remove_at(index).value);
                assert_eq!(removed, map.remove(&key));
            } else if let Some(index) = table.find(key) {
                table.at_mut(index).value = step;
                map.insert(key, step).expect("known to both");
            } else {
                table.insert(Pair { key, value: step, next: 0 }).unwrap();
                assert_eq!(map.insert(key, step), None);
            }
            assert_eq!(table.len(), map.len());
        }
        for (key, value) in &map {
            let index = table.find(*key).unwrap();
            assert_eq!(table.entries()[index].value, *value);
        }
        let any = table.pop().expect("there are some");
        assert_eq!(map.remove(&any.key), Some(any.value));
    }

    #[test]
    fn chains_stay_short_at_a_million() {
        let mut table = Table::new();
        for key in 0..1_000_000 {
            table.insert(Pair { key: 0x7000_0000_0000 + key * 32, value: key, next: 0 }).unwrap();
        }
        let mut longest = 0;
        for bucket in 0..table.buckets.len() {
            let (mut index, mut length) = (table.buckets[bucket], 0);
            while index != NONE {
                index = table.entries[index as usize].next;
                length += 1;
            }
            longest = longest.max(length);
        }
        assert!(longest < 24, "{longest}");
    }
}
