//! The pointer to a container's memory, which is collected, would lie where the collector does not
//! look. So would what threads read and write without a lock.
use neap::{AtomicGc, BTreeMap, HashMap, String, Vec, VecDeque};

#[repr(C, packed)]
struct OfVector(u8, Vec<u64>);

#[repr(C, packed)]
struct OfQueue(u8, VecDeque<u64>);

#[repr(C, packed)]
struct OfTable(u8, HashMap<u64, u64>);

#[repr(C, packed)]
struct OfMap(u8, BTreeMap<u64, u64>);

#[repr(C, packed)]
struct OfText(u8, String);

#[repr(C, packed)]
struct OfPlace(u8, AtomicGc<u64>);

fn main() {}
