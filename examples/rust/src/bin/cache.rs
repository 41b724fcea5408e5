//! A cache that threads share, which forgets what was used least recently. Its entries are in a
//! list with pointers both ways, and each knows its cache: cycles everywhere, and nobody takes them
//! apart.
//!
//! Invariant: the lock protects the table and the list; an entry is in both or in neither. A reader
//! keeps an entry that was forgotten meanwhile, for as long as it looks at it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use neap::{Gc, HashMap, Trace};

type Link = Option<Gc<Entry>>;

#[derive(Trace)]
struct Entry {
    key: u64,
    value: Gc<str>,
    cache: Gc<Cache>,
    links: Mutex<Links>,
}

#[derive(Clone, Copy, Default, Trace)]
struct Links {
    newer: Link,
    older: Link,
}

#[derive(Trace)]
struct Cache {
    room: usize,
    state: Mutex<State>,
}

#[derive(Default, Trace)]
struct State {
    table: HashMap<u64, Gc<Entry>>,
    newest: Link,
    oldest: Link,
    hits: u64,
    misses: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn unlink(&mut self, entry: Gc<Entry>) {
        let links = std::mem::take(&mut *lock(&entry.links));
        match links.newer {
            Some(newer) => lock(&newer.links).older = links.older,
            None => self.newest = links.older,
        }
        match links.older {
            Some(older) => lock(&older.links).newer = links.newer,
            None => self.oldest = links.newer,
        }
    }

    fn link_newest(&mut self, entry: Gc<Entry>) {
        *lock(&entry.links) = Links { newer: None, older: self.newest };
        match self.newest {
            Some(newest) => lock(&newest.links).newer = Some(entry),
            None => self.oldest = Some(entry),
        }
        self.newest = Some(entry);
    }
}

impl Cache {
    fn new(room: usize) -> Gc<Self> {
        Gc::new(Self { room, state: Mutex::default() })
    }

    fn get(this: Gc<Self>, key: u64, make: impl FnOnce() -> Gc<str>) -> Gc<Entry> {
        let mut state = lock(&this.state);
        if let Some(entry) = state.table.get(&key).copied() {
            state.hits += 1;
            state.unlink(entry);
            state.link_newest(entry);
            return entry;
        }
        state.misses += 1;
        let links = Mutex::default();
        let entry = Gc::new(Entry { key, value: make(), cache: this, links });
        state.table.insert(key, entry);
        state.link_newest(entry);
        if state.table.len() > this.room
            && let Some(oldest) = state.oldest
        {
            state.unlink(oldest);
            state.table.remove(&oldest.key);
        }
        entry
    }
}

fn main() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 50_000;
    let cache = Cache::new(500);
    let work = |thread: u64| {
        let mut seed = thread + 1;
        for _ in 0..TURNS {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = ((seed >> 33) % 1000).min((seed >> 43) % 1000);
            let entry = Cache::get(cache, key, || format!("value of {key}").into());
            assert!(entry.key == key && Gc::ptr_eq(entry.cache, cache));
            assert_eq!(entry.value.strip_prefix("value of ").unwrap().parse(), Ok(key));
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| {
            scope.spawn(move || work(thread));
        });
    });
    let state = lock(&cache.state);
    let mut in_list = 0;
    let mut next = state.newest;
    while let Some(entry) = next {
        in_list += 1;
        next = lock(&entry.links).older;
    }
    println!("entries: {} in the table, {in_list} in the list", state.table.len());
    println!("requests: {}", state.hits + state.misses);
    println!("most were hits: {}", state.hits > state.misses);
}
