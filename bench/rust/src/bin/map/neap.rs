//! The shared map on Neap: what is put away is forgotten, and a cycle is nothing special.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use neap::{AtomicGc, Gc, Trace};
use neap_bench_rust::map::{BUCKETS, Map, bucket, run};

#[derive(Trace)]
struct Record {
    version: u64,
    parts: [Gc<Part>; 2],
}

#[derive(Trace)]
struct Part {
    record: AtomicGc<Record>,
}

fn record(version: u64) -> Gc<Record> {
    let parts = [0, 1].map(|_| Gc::new(Part { record: AtomicGc::none() }));
    let record = Gc::new(Record { version, parts });
    parts.iter().for_each(|part| part.record.store(Some(record), Release));
    record
}

#[derive(Trace)]
struct Entry {
    key: usize,
    record: Gc<Record>,
    next: List,
}
type List = Option<Gc<Entry>>;

fn find(mut list: List, key: usize) -> List {
    while let Some(entry) = list
        && entry.key != key
    {
        list = entry.next;
    }
    list
}

/// The list without an entry that is in it: what stood before it is copied, what stands behind is
/// shared.
fn without(list: List, gone: Gc<Entry>) -> List {
    let entry = list?;
    if Gc::ptr_eq(entry, gone) {
        return entry.next;
    }
    let next = without(entry.next, gone);
    Some(Gc::new(Entry { key: entry.key, record: entry.record, next }))
}

struct Shared(Gc<[AtomicGc<Entry>]>);

impl Map for Shared {
    fn put(&self, key: usize, version: u64) {
        let (place, record) = (&self.0[bucket(key)], record(version));
        let mut old = place.load(Acquire);
        loop {
            let next = match find(old, key) {
                Some(gone) => without(old, gone),
                None => old,
            };
            let new = Gc::new(Entry { key, record, next });
            match place.compare_exchange(old, Some(new), AcqRel) {
                Ok(_) => return,
                Err(found) => old = found,
            }
        }
    }

    fn versions(&self, key: usize) -> Option<[u64; 2]> {
        let entry = find(self.0[bucket(key)].load(Acquire), key)?;
        let back = |part: Gc<Part>| part.record.load(Acquire).expect("it was set").version;
        Some(entry.record.parts.map(back))
    }
}

fn main() {
    let shared = Shared(Gc::from_fn(BUCKETS, |_| AtomicGc::none()));
    run(&shared).print(Some(neap::statistics().longest_stop));
}
