//! The shared map on `Arc` and crossbeam-epoch, with the system's malloc: a part has a `Weak` to
//! its record, and entries that were replaced are dropped when no thread can be reading them.

use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Weak};

use crossbeam_epoch::{self as epoch, Atomic, Guard, Owned, Shared};
use neap_bench_rust::map::{BUCKETS, Map, bucket, run};

struct Record {
    version: u64,
    parts: [Arc<Part>; 2],
}

struct Part {
    record: Weak<Record>,
}

fn record(version: u64) -> Arc<Record> {
    Arc::new_cyclic(|record| {
        let parts = [0, 1].map(|_| Arc::new(Part { record: record.clone() }));
        Record { version, parts }
    })
}

struct Entry {
    key: usize,
    record: Arc<Record>,
    next: Atomic<Entry>,
}

fn entry<'guard>(list: Shared<'guard, Entry>) -> Option<&'guard Entry> {
    // SAFETY: it was read under the guard, from a list that entries leave before they are dropped.
    unsafe { list.as_ref() }
}

/// How many entries stand before that of the key, if it is in the list.
fn place_of<'guard>(
    mut list: Shared<'guard, Entry>,
    key: usize,
    guard: &'guard Guard,
) -> Option<usize> {
    let mut place = 0;
    while let Some(found) = entry(list) {
        if found.key == key {
            return Some(place);
        }
        (list, place) = (found.next.load(Acquire, guard), place + 1);
    }
    None
}

/// The list without the entry at a place: what stood before it is copied, what stands behind is
/// shared.
fn without<'guard>(
    list: Shared<'guard, Entry>,
    place: usize,
    guard: &'guard Guard,
) -> Shared<'guard, Entry> {
    let Some(old) = entry(list) else { return list };
    let next = old.next.load(Acquire, guard);
    if place == 0 {
        return next;
    }
    let next = Atomic::from(without(next, place - 1, guard));
    Owned::new(Entry { key: old.key, record: old.record.clone(), next }).into_shared(guard)
}

/// Has so many entries at the front of a list dropped, when no thread reads them any more.
fn retire<'guard>(mut list: Shared<'guard, Entry>, count: usize, guard: &'guard Guard) {
    for _ in 0..count {
        let Some(old) = entry(list) else { return };
        let next = old.next.load(Acquire, guard);
        // SAFETY: no list has the entry: this thread has put one without it in the place of the
        // only one that had, or has made the entry for a list that it could not put there.
        unsafe { guard.defer_destroy(list) };
        list = next;
    }
}

struct Buckets(Vec<Atomic<Entry>>);

impl Map for Buckets {
    fn put(&self, key: usize, version: u64) {
        let (place, record) = (&self.0[bucket(key)], record(version));
        let guard = &epoch::pin();
        let mut old = place.load(Acquire, guard);
        loop {
            let place_in_list = place_of(old, key, guard);
            let next = match place_in_list {
                Some(place) => without(old, place, guard),
                None => old,
            };
            let (record, next) = (record.clone(), Atomic::from(next));
            let new = Owned::new(Entry { key, record, next }).into_shared(guard);
            match place.compare_exchange(old, new, AcqRel, Acquire, guard) {
                Ok(_) => {
                    let gone = place_in_list.map_or(0, |place| place + 1);
                    return retire(old, gone, guard);
                }
                Err(failed) => {
                    retire(new, 1 + place_in_list.unwrap_or(0), guard);
                    old = failed.current;
                }
            }
        }
    }

    fn versions(&self, key: usize) -> Option<[u64; 2]> {
        let guard = &epoch::pin();
        let mut list = self.0[bucket(key)].load(Acquire, guard);
        while let Some(found) = entry(list) {
            if found.key == key {
                let back = |part: &Arc<Part>| part.record.upgrade().map(|record| record.version);
                let [first, second] = &found.record.parts;
                return Some([back(first)?, back(second)?]);
            }
            list = found.next.load(Acquire, guard);
        }
        None
    }
}

fn main() {
    run(&Buckets((0..BUCKETS).map(|_| Atomic::null()).collect())).print(None);
}
