//! A map that threads share without a lock, whose values have cycles: each record has two parts
//! that lead back to it.
//!
//! Half of the operations put a record in the place of another, half follow a record to a part and
//! back. Invariant: a key is written by one thread, in the order of its versions, so the versions
//! at the end are known; buckets are written by all. Called by the programs of `bin/map`.

use std::time::{Duration, Instant};

use crate::{Longest, Outcome, Random, argument};

const THREADS: usize = 4;
/// How many keys there are.
pub const KEYS: usize = 1 << 16;
/// How many lists they are divided among.
pub const BUCKETS: usize = KEYS / 2;

/// A map in some way of managing memory.
pub trait Map: Sync {
    /// Puts a new record there.
    fn put(&self, key: usize, version: u64);
    /// Follows the record, if there is one, to both of its parts and back: the versions found.
    fn versions(&self, key: usize) -> Option<[u64; 2]>;
}

/// The list that a key is in.
pub fn bucket(key: usize) -> usize {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & (BUCKETS - 1)
}

fn work(map: &impl Map, thread: usize, operations: usize) -> Duration {
    let mut random = Random::new(thread as u64 + 1);
    let mut longest = Longest::begin();
    for operation in 0..operations as u64 {
        let key = random.below(KEYS);
        if operation % 2 == 0 {
            map.put(key / THREADS * THREADS + thread, operation);
        } else if let Some([first, second]) = map.versions(key) {
            assert_eq!(first, second, "parts of one record");
        }
        longest.end_of_one();
    }
    longest.get()
}

/// Runs the work: so many operations of each thread as the first argument says (5,000,000).
pub fn run(map: &impl Map) -> Outcome {
    let operations = argument(1, 5_000_000);
    let began = Instant::now();
    let longest = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(map, thread, operations))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).max()
    });
    let time = began.elapsed();
    let versions = (0..KEYS).map(|key| map.versions(key).map_or(0, |versions| versions[0]));
    let check = versions
        .zip(1..)
        .fold(0, |sum: u64, (version, place)| sum.wrapping_add(version.wrapping_mul(place)));
    Outcome { check, time, longest }
}
