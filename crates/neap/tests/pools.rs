//! A `Gc` that only a thread of somebody's pool holds: in a scoped thread, in a job of rayon, in a
//! task of tokio that is suspended. Its object lives; those that nobody holds die.
//!
//! Invariant: a test is a process of its own. Objects are made by the pool's threads, which nobody
//! has told the collector of.

use std::sync::atomic::{AtomicUsize, Ordering::*};

use neap::{AtomicGc, Gc, Trace, Weak};
use rayon::prelude::*;

const PATTERN: u64 = 0x0123_4567_89ab_cdef;
const COUNT: usize = 2000;

#[derive(Trace)]
struct Node {
    pattern: u64,
    index: usize,
    other: AtomicGc<Node>,
}

fn node(index: usize, other: Option<Gc<Node>>) -> Gc<Node> {
    let node = Gc::new(Node { pattern: PATTERN, index, other: AtomicGc::new(None) });
    node.other.store(other, Release);
    node
}

/// A pair that leads to each other.
fn pair(index: usize) -> Gc<Node> {
    let first = node(index, None);
    first.other.store(Some(node(index, Some(first))), Release);
    first
}

fn check(pair: Gc<Node>, index: usize) {
    let other = pair.other.load(Acquire).expect("the pair is whole");
    assert!(Gc::ptr_eq(other.other.load(Acquire).expect("the pair is whole"), pair));
    for one in [pair, other] {
        assert_eq!((one.pattern, one.index), (PATTERN, index));
    }
}

fn garbage() {
    for index in 0..COUNT {
        std::hint::black_box(pair(index));
    }
}

#[test]
fn scoped_threads() {
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let made = &made;
            scope.spawn(move || {
                let own: Vec<_> = (0..COUNT).map(|index| pair(thread * COUNT + index)).collect();
                garbage();
                neap::collect();
                for (index, one) in own.iter().enumerate() {
                    check(*one, thread * COUNT + index);
                }
                made.fetch_add(own.len(), Relaxed);
            });
        }
    });
    assert_eq!(made.into_inner(), 4 * COUNT);
}

#[test]
fn jobs_of_rayon() {
    let weak: Vec<Weak<Node>> = (0..COUNT)
        .into_par_iter()
        .map(|index| {
            if index.is_multiple_of(100) {
                neap::collect();
            }
            let (here, there) = rayon::join(|| pair(index), || pair(index + COUNT));
            garbage_now_and_then(index);
            check(here, index);
            check(there, index + COUNT);
            Gc::downgrade(here)
        })
        .collect();
    let all: Vec<Gc<Node>> = (0..COUNT).into_par_iter().map(pair).collect();
    for _ in 0..3 {
        neap::collect();
    }
    all.par_iter().enumerate().for_each(|(index, one)| check(*one, index));
    let left = weak.iter().filter(|one| one.upgrade().is_some()).count();
    assert!(left * 10 <= COUNT, "{left} of {COUNT} stay");
}

fn garbage_now_and_then(index: usize) {
    if index.is_multiple_of(50) {
        garbage();
    }
}

#[test]
fn tasks_of_tokio() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
    let tasks: Vec<_> = (0..COUNT)
        .map(|index| {
            runtime.spawn(async move {
                let held = pair(index);
                // Between these only the task's own memory has it.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    if index.is_multiple_of(500) {
                        neap::collect();
                    }
                }
                check(held, index);
                held
            })
        })
        .collect();
    garbage();
    neap::collect();
    for (index, task) in tasks.into_iter().enumerate() {
        check(runtime.block_on(task).expect("no task panics"), index);
    }
}
