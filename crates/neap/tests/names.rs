//! Reports call objects by their Rust types: a heap snapshot of objects of types of this file.
//!
//! Invariant: each object is held until the snapshot is written. Called by the tests' runner.

use std::cell::Cell;
use std::ffi::CString;

use neap::{Gc, HashMap, Trace};

#[derive(Trace)]
struct Buoy {
    next: Cell<Option<Gc<Self>>>,
}

/// Scanned as a [`Buoy`] is.
#[derive(Trace)]
struct Beacon {
    #[allow(dead_code)]
    next: Cell<Option<Gc<Self>>>,
}

/// Nothing in it is scanned.
#[derive(Trace)]
struct Reading(#[allow(dead_code)] u64);

fn snapshot() -> String {
    let path = std::env::temp_dir().join(format!("neap-names-{}", std::process::id()));
    let name = CString::new(path.to_str().unwrap()).unwrap();
    neap::mutator::write_heap_snapshot(&name).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    text
}

#[test]
fn a_heap_snapshot_has_the_names_of_types() {
    let buoy = Gc::new(Buoy { next: Cell::new(None) });
    buoy.next.set(Some(Gc::new(Buoy { next: Cell::new(None) })));
    let beacon = Gc::new(Beacon { next: Cell::new(None) });
    let reading = Gc::new(Reading(7));
    let vector: neap::Vec<Gc<Buoy>> = [buoy, buoy].into_iter().collect();
    let map: HashMap<u32, Gc<Buoy>> = [(1, buoy)].into_iter().collect();
    let slice: Gc<[Reading]> = Gc::from_fn(3, |index| Reading(index as u64));
    let text = snapshot();
    for name in ["Buoy", "Beacon", "Reading"] {
        assert!(text.contains(&format!("\"names::{name}\"")), "{name} is not in it");
    }
    for array in ["neap::gc::Gc<names::Buoy>", "names::Reading", "(u32, neap::gc::Gc<names::Buoy>)"]
    {
        assert!(text.contains(&format!("\"[{array}]\"")), "[{array}] is not in it");
    }
    std::hint::black_box((buoy, beacon, reading, vector, map, slice));
}
