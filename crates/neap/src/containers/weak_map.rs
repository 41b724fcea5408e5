//! `WeakMap<K, V>`: values beside objects, by the objects' identity, that live as long as these.
//!
//! Invariant: an entry is an ephemeron of the core under the hidden address of its key: no word of
//! the table leads to a key. An address is used again when its object has died, so an entry counts
//! only if its ephemeron still has its key. Used by who owns it, from any thread.
//!
//! # Safety
//!
//! Key and value of an ephemeron are the objects that it was made with, or null.

#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ptr::NonNull;

use neap_core::api::handles::{self, DomainId, Handle};

use crate::Gc;
use crate::types::shape::Shape;
use crate::types::trace::{NoGc, Trace};

/// Values beside objects, found by an object's identity. A value lives as long as its key, also if
/// it leads to the key itself; an entry goes with its key.
///
/// ```
/// use neap::{Gc, WeakMap};
///
/// let mut notes = WeakMap::new();
/// let key = Gc::new(1);
/// notes.insert(key, Gc::new("about one"));
/// assert_eq!(*notes.get(key).unwrap(), "about one");
/// assert!(notes.get(Gc::new(1)).is_none());
/// ```
pub struct WeakMap<K, V> {
    entries: HashMap<Hidden, Handle>,
    /// Entries whose keys have died are looked for when there are so many.
    looked_at: usize,
    objects: PhantomData<(Gc<K>, Gc<V>)>,
}

/// An address, inverted: it keeps nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Hidden(usize);

fn hidden<K>(key: Gc<K>) -> Hidden {
    Hidden(!key.as_ptr().addr())
}

const FEWEST: usize = 32;

/// Whether the ephemeron still has its key.
fn is_alive(entry: Handle) -> bool {
    handles::get_ephemeron(entry).is_ok_and(|(key, _)| !key.is_null())
}

fn free(entry: Handle) {
    let freed = handles::free(entry);
    debug_assert!(freed.is_ok(), "an ephemeron of its own: {freed:?}");
}

impl<K, V> WeakMap<K, V> {
    /// An empty one.
    pub fn new() -> Self {
        Self { entries: HashMap::new(), looked_at: FEWEST, objects: PhantomData }
    }

    /// The value beside an object.
    pub fn get(&self, key: Gc<K>) -> Option<Gc<V>> {
        let (found, value) = handles::get_ephemeron(*self.entries.get(&hidden(key))?).ok()?;
        if found.is_null() {
            return None;
        }
        NonNull::new(value.cast::<V>()).map(Gc::of)
    }

    /// Puts a value beside an object, in place of the one that is there.
    pub fn insert(&mut self, key: Gc<K>, value: Gc<V>) {
        if self.entries.len() >= self.looked_at {
            self.forget_dead();
        }
        let (object, value) = (key.as_ptr().cast(), value.as_ptr().cast());
        let Ok(entry) = handles::allocate_ephemeron(DomainId::DEFAULT, object, value) else {
            handle_alloc_error(Layout::new::<Handle>())
        };
        if let Some(former) = self.entries.insert(hidden(key), entry) {
            free(former);
        }
    }

    /// Takes away the value beside an object.
    ///
    /// ```
    /// let (mut map, key) = (neap::WeakMap::new(), neap::Gc::new(1));
    /// map.insert(key, neap::Gc::new(2));
    /// assert_eq!(map.remove(key).as_deref(), Some(&2));
    /// assert!(map.get(key).is_none());
    /// ```
    pub fn remove(&mut self, key: Gc<K>) -> Option<Gc<V>> {
        let value = self.get(key);
        if let Some(entry) = self.entries.remove(&hidden(key)) {
            free(entry);
        }
        value
    }

    /// How many entries there are; some of their keys may have died.
    ///
    /// ```
    /// assert_eq!(neap::WeakMap::<u8, u8>::new().entries(), 0);
    /// ```
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    fn forget_dead(&mut self) {
        self.entries.retain(|_, entry| {
            let alive = is_alive(*entry);
            if !alive {
                free(*entry);
            }
            alive
        });
        self.looked_at = (self.entries.len() * 2).max(FEWEST);
    }
}

impl<K, V> Default for WeakMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> Drop for WeakMap<K, V> {
    fn drop(&mut self) {
        self.entries.drain().for_each(|(_, entry)| free(entry));
    }
}

// SAFETY: handles and hidden addresses are numbers; the destructor frees handles, on any thread.
unsafe impl<K: 'static, V: 'static> Trace for WeakMap<K, V> {
    const SHAPE: &'static Shape = &Shape::leaf::<Self>();
}
// SAFETY: a value is given out for a `Gc` of its key only.
unsafe impl<K, V> NoGc for WeakMap<K, V> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[inline(never)]
    fn apart<R>(f: impl FnOnce() -> R) -> R {
        black_box(f)()
    }

    #[test]
    #[cfg_attr(miri, ignore = "it asks the core, which is not there under miri")]
    fn values_live_with_their_keys_and_entries_go_with_them() {
        let mut map: WeakMap<usize, (Gc<usize>, usize)> = WeakMap::new();
        // Every value leads to its key.
        let keys: Vec<_> = (0..500).map(Gc::new).collect();
        keys.iter().for_each(|key| map.insert(*key, Gc::new((*key, **key * 2))));
        apart(|| (0..2000).map(Gc::new).for_each(|key| map.insert(key, Gc::new((key, 0)))));
        for _ in 0..3 {
            apart(|| black_box([0_u64; 1000]));
            crate::collect();
        }
        for key in &keys {
            let value = map.get(*key).unwrap();
            assert!(Gc::ptr_eq(value.0, *key) && value.1 == **key * 2);
        }
        map.forget_dead();
        assert!(map.entries() < 600, "{} entries", map.entries());
        assert!(map.entries() >= 500);
    }
}
