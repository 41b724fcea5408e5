//! Models of handles, every interleaving of which loom tries: slots are given out once, also while
//! buckets grow; a freed slot is found again; a handle that is read is what it was made with or
//! expired, never another's; a domain that is closed keeps no handle, whoever allocates or frees in
//! it meanwhile.
//!
//! Invariant: the models use the very files that the core is built of, with loom's atomics in place
//! of core's, segments of two slots and a first bucket of one segment. Run by `make loom` with
//! `--cfg loom`; without it there is nothing here.

#![cfg(loom)]

mod sync {
    //! What the files under test import as `crate::sync`.
    pub use loom::sync::atomic;
}

#[path = "../src/refs/handles/buckets.rs"]
#[allow(dead_code)]
mod buckets;
#[path = "../src/refs/handles/domain.rs"]
#[allow(dead_code)]
mod domain;
#[path = "../src/refs/handles/handle.rs"]
#[allow(dead_code)]
mod handle;
#[path = "../src/refs/handles/segment.rs"]
#[allow(dead_code)]
mod segment;
#[path = "../src/refs/handles/slot.rs"]
#[allow(dead_code)]
mod slot;

use domain::{DomainId, Space};
use handle::{Cache, Handle, HandleError, replace};
use loom::sync::Arc;
use loom::thread;
use segment::{Class, SLOTS};
use slot::Kind;

const DEFAULT: DomainId = DomainId::DEFAULT;

fn allocate(space: &Space, cache: &Cache, domain: DomainId, target: u64) -> Handle {
    space.allocate(cache, domain, Kind::Weak, target, 0).unwrap()
}

fn target(space: &Space, handle: Handle) -> Option<u64> {
    space.look_up(handle).ok().map(|(_, _, word)| word.target())
}

/// Runs `f` on a thread of the model, with the space and a cache of its own.
fn spawn<R: Send + 'static>(
    space: &Arc<Space>,
    f: impl FnOnce(&Space, &Cache) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let space = space.clone();
    thread::spawn(move || {
        let cache = Cache::new();
        let result = f(&space, &cache);
        cache.leave_all(&space);
        result
    })
}

/// Frees all, and finds that every slot can be had again without another segment.
fn assert_nothing_lost(space: &Space, handles: &[Handle]) {
    let cache = Cache::new();
    for &handle in handles {
        space.free_handle(&cache, handle).unwrap();
        assert_eq!(space.free_handle(&cache, handle), Err(HandleError::Stale));
    }
    let segments = space.buckets.count();
    let again: Vec<Handle> =
        (0..segments * SLOTS).map(|_| allocate(space, &cache, DEFAULT, 5)).collect();
    assert_eq!(space.buckets.count(), segments, "a slot was lost");
    for (index, handle) in again.iter().enumerate() {
        assert!(!again[..index].contains(handle), "a slot was given twice");
    }
    cache.leave_all(space);
}

#[test]
fn two_that_allocate_get_different_slots_while_buckets_grow() {
    loom::model(|| {
        let space = Arc::new(Space::new());
        let other = spawn(&space, |space, cache| allocate(space, cache, DEFAULT, 1));
        let cache = Cache::new();
        let mine = allocate(&space, &cache, DEFAULT, 2);
        cache.leave_all(&space);
        let theirs = other.join().unwrap();
        assert_ne!(mine, theirs);
        assert_eq!((target(&space, theirs), target(&space, mine)), (Some(1), Some(2)));
        assert_nothing_lost(&space, &[mine, theirs]);
    });
}

#[test]
fn one_grows_past_a_bucket_while_another_allocates() {
    loom::model(|| {
        let space = Arc::new(Space::new());
        let other = spawn(&space, |space, cache| allocate(space, cache, DEFAULT, 1));
        let cache = Cache::new();
        let mut all: Vec<Handle> = (0..SLOTS as u64 + 1)
            .map(|turn| allocate(&space, &cache, DEFAULT, 10 + turn))
            .collect();
        cache.leave_all(&space);
        for (turn, &handle) in all.iter().enumerate() {
            assert_eq!(target(&space, handle), Some(10 + turn as u64));
        }
        all.push(other.join().unwrap());
        assert_nothing_lost(&space, &all);
    });
}

#[test]
fn a_slot_freed_elsewhere_comes_back_to_a_full_segment() {
    loom::model(|| {
        let space = Arc::new(Space::new());
        let cache = Cache::new();
        let mut mine: Vec<Handle> =
            (0..SLOTS as u64).map(|turn| allocate(&space, &cache, DEFAULT, turn + 1)).collect();
        let given = mine.pop().unwrap();
        let other = spawn(&space, move |space, cache| space.free_handle(cache, given).unwrap());
        // The segment is full, or is found not to be.
        let last = allocate(&space, &cache, DEFAULT, 9);
        assert_ne!(last, given);
        mine.push(last);
        cache.leave_all(&space);
        other.join().unwrap();
        assert_nothing_lost(&space, &mine);
    });
}

#[test]
fn two_that_free_the_same_handle_free_it_once() {
    loom::model(|| {
        let space = Arc::new(Space::new());
        let cache = Cache::new();
        let handle = allocate(&space, &cache, DEFAULT, 1);
        let other = spawn(&space, move |space, cache| space.free_handle(cache, handle).is_ok());
        let mine = space.free_handle(&cache, handle).is_ok();
        cache.leave_all(&space);
        assert_ne!(mine, other.join().unwrap());
        assert_nothing_lost(&space, &[]);
    });
}

#[test]
fn a_read_gives_the_target_or_null_while_the_handle_expires_and_is_reused() {
    loom::model(|| {
        let space = Arc::new(Space::new());
        let cache = Cache::new();
        let handle = allocate(&space, &cache, DEFAULT, 1);
        // What the cycle does to a handle whose object is dead.
        let cycle = spawn(&space, |space, _| {
            for segment in space.buckets.of_class(Class::Weak) {
                for index in segment.used() {
                    let word =
                        slot::Word(segment.slot(index).load(loom::sync::atomic::Ordering::Acquire));
                    if word.kind() == Kind::Weak && word.target() == 1 {
                        replace(segment, index, word, word.with_target(0));
                    }
                }
            }
        });
        let reader = spawn(&space, move |space, _| target(space, handle));
        space.free_handle(&cache, handle).unwrap();
        let next = allocate(&space, &cache, DEFAULT, 2);
        cache.leave_all(&space);
        cycle.join().unwrap();
        assert!(matches!(reader.join().unwrap(), None | Some(0 | 1)));
        assert_eq!(target(&space, next), Some(2), "the cycle touched another's handle");
        assert_eq!(target(&space, handle), None);
    });
}

#[test]
fn closing_a_domain_leaves_no_handle_that_is_made_meanwhile() {
    loom::model(|| {
        let space = Arc::new(Space::new());
        let domain = space.open().unwrap();
        let other =
            spawn(&space, move |space, cache| space.allocate(cache, domain, Kind::Strong, 1, 0));
        let freed = space.close(domain, || (), |_| {}).unwrap();
        let made = other.join().unwrap();
        assert!(freed <= 1);
        if let Ok(handle) = made {
            assert_eq!(target(&space, handle), None, "alive in a closed domain");
        }
        for segment in space.buckets.of_class(Class::Strong) {
            for index in segment.used() {
                let word = segment.slot(index).load(loom::sync::atomic::Ordering::Relaxed);
                assert_eq!(slot::Word(word).kind(), Kind::Free);
            }
        }
    });
}

#[test]
fn a_segment_that_is_kept_over_a_closing_is_walked_by_the_next_one() {
    loom::model(|| {
        let space = Arc::new(Space::new());
        let first = space.open().unwrap();
        // The next one that has the record.
        let second = DomainId(first.0 + (2 << 32));
        // It gives its segments up at the end, at any time.
        let other = spawn(&space, move |space, cache| {
            [first, second].map(|domain| space.allocate(cache, domain, Kind::Strong, 1, 0).is_ok())
        });
        let mut freed = space.close(first, || (), |_| {}).unwrap();
        assert_eq!(space.open(), Some(second));
        freed += space.close(second, || (), |_| {}).unwrap();
        let made = other.join().unwrap();
        assert!(freed >= made[0] as usize + made[1] as usize, "one was skipped");
        for segment in space.buckets.of_class(Class::Strong) {
            for index in segment.used() {
                let word = segment.slot(index).load(loom::sync::atomic::Ordering::Relaxed);
                assert_eq!(slot::Word(word).kind(), Kind::Free, "alive in a closed domain");
            }
        }
    });
}

#[test]
fn freeing_a_handle_while_its_domain_is_closed_frees_it_once() {
    loom::model(|| {
        let space = Arc::new(Space::new());
        let cache = Cache::new();
        let domain = space.open().unwrap();
        let handle = allocate(&space, &cache, domain, 1);
        let other = spawn(&space, move |space, cache| space.free_handle(cache, handle).is_ok());
        let freed = space.close(domain, || (), |_| {}).unwrap();
        assert_eq!(freed, !other.join().unwrap() as usize);
        // The record and its segment serve the next domain, every slot once.
        let next = space.open().unwrap();
        let all: Vec<Handle> =
            (0..SLOTS as u64).map(|turn| allocate(&space, &cache, next, turn + 1)).collect();
        assert_eq!(space.buckets.count(), 1, "a slot was lost");
        assert_ne!(all[0], all[1]);
        cache.leave_all(&space);
    });
}
