//! Whole cycles through the way in: the collector's thread, the handshake with the program's
//! threads, idle collections, freezing, and a forked child, under every watch that works here.
//!
//! Invariant: one test is one process. A graph hangs on a registered root that no stack shows: its
//! addresses are kept inverted elsewhere. `cycle/stepping` steps the same modes by hand.
//!
//! # Safety
//!
//! Objects are read and written within the words that they were allocated with; a forked child ends
//! without cleaning up.

#![cfg(not(any(loom, miri)))]
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use neap_core::api::{self, Kind, handles};
use neap_core::probe;

const OBJECTS: usize = 20_000;
/// Words of an object: the next one, and what it is.
const WORDS: usize = 4;

/// The root: registered, and the only pointer to the list.
static ROOT: AtomicUsize = AtomicUsize::new(0);

fn begin(watch: &str) -> bool {
    api::set_option(b"watch", watch.as_bytes()).unwrap();
    api::set_option(b"idle", b"50").unwrap();
    api::initialize();
    let start = (&raw const ROOT) as usize;
    assert!(api::add_roots(start..start + 8));
    let works = |tried: &probe::Tried| tried.name == watch && tried.refused.is_none();
    probe::watches().iter().any(works)
}

/// A list of so many objects in front of what the root leads to; each is asked to be weakly known.
#[inline(never)]
fn grow(objects: usize, label: usize) -> Vec<handles::Handle> {
    (0..objects)
        .map(|_| {
            let object = api::allocate(WORDS * 8, Kind::Conservative).cast::<usize>();
            // SAFETY: four words that were just allocated.
            unsafe {
                object.write(ROOT.load(Relaxed));
                object.add(1).write(label);
            }
            ROOT.store(object as usize, Relaxed);
            weak(object as usize)
        })
        .collect()
}

fn weak(object: usize) -> handles::Handle {
    let domain = handles::open_domain;
    static DOMAIN: std::sync::OnceLock<handles::DomainId> = std::sync::OnceLock::new();
    let domain = *DOMAIN.get_or_init(|| domain().unwrap());
    handles::allocate(domain, handles::HandleKind::Weak, object as *const _).unwrap()
}

/// Walks the list; gives how many objects publish the label.
#[inline(never)]
fn count(label: usize) -> usize {
    let (mut at, mut seen) = (ROOT.load(Relaxed), 0);
    while at != 0 {
        // SAFETY: an object of the list.
        let [next, own] = unsafe { *(at as *const [usize; 2]) };
        seen += (own == label) as usize;
        at = next;
    }
    seen
}

fn alive(handles: &[handles::Handle]) -> usize {
    handles.iter().filter(|handle| !handles::get(**handle).unwrap().is_null()).count()
}

/// Garbage beyond the trigger, on this thread and another, until so many cycles have run.
fn churn(cycles: u64) {
    let wanted = api::statistics().cycles + cycles;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while api::statistics().cycles < wanted {
                    for _ in 0..10_000 {
                        core::hint::black_box(api::allocate(64, Kind::Conservative));
                    }
                }
            });
        }
    });
}

/// What is to hold under every watch.
fn lives_and_dies(watch: &str) {
    if !begin(watch) {
        return println!("# SKIP the {watch} watch does not work here");
    }
    let kept = grow(OBJECTS, 7);
    let before = ROOT.load(Relaxed);
    let dropped = grow(OBJECTS, 8);
    // From here on nothing leads to the second half.
    ROOT.store(before, Relaxed);
    assert!(api::collect());
    assert_eq!((alive(&kept), count(7)), (OBJECTS, OBJECTS));
    assert!(alive(&dropped) < OBJECTS / 100, "{} of what was dropped live", alive(&dropped));
    churn(8);
    assert_eq!((alive(&kept), count(7)), (OBJECTS, OBJECTS));

    assert!(api::freeze());
    assert!(api::frozen_bytes() >= OBJECTS * WORDS * 8);
    let young = grow(100, 9);
    assert!(api::collect());
    assert_eq!((alive(&young), count(7), count(9)), (100, OBJECTS, 100));
    assert!(api::unfreeze());

    // SAFETY: the child does what a forked child may, and ends without cleaning up.
    match unsafe { libc::fork() } {
        0 => {
            let more = grow(100, 10);
            let collected = api::collect();
            let right = collected && alive(&more) == 100 && count(7) == OBJECTS && count(10) == 100;
            // SAFETY: ends the child.
            unsafe { libc::_exit(if right { 0 } else { 1 }) }
        }
        child => {
            churn(2);
            let mut status = 0;
            // SAFETY: a child of this process.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    assert_eq!((alive(&kept), count(7), count(10)), (OBJECTS, OBJECTS, 0));
}

#[test]
fn with_the_world_stopped() {
    lives_and_dies("none");
}

#[test]
fn under_pagemap() {
    lives_and_dies("pagemap");
}

#[test]
fn under_mprotect() {
    lives_and_dies("mprotect");
}

#[test]
fn under_fork() {
    lives_and_dies("fork");
}

#[test]
fn under_snapshot() {
    lives_and_dies("snapshot");
}

/// The program's threads are offered the stops: their functions are called there.
#[test]
fn the_programs_threads_take_the_steps_that_call_them() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    static ELSEWHERE: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn named(tracer: &mut api::Tracer<'_>) {
        let name = std::thread::current().name().map(str::to_owned);
        ELSEWHERE.fetch_add(name.is_none_or(|name| !name.starts_with("program")) as u32, Relaxed);
        CALLS.fetch_add(1, Relaxed);
        tracer.word(!NAMED.load(Relaxed));
    }
    /// Inverted: no word of this shows an object.
    static NAMED: AtomicUsize = AtomicUsize::new(0);
    if !begin("pagemap") {
        return println!("# SKIP the pagemap watch does not work here");
    }
    api::set_root_callback(Some(named));
    let work = || {
        std::thread::Builder::new()
            .name("program".into())
            .spawn(|| {
                let object = api::allocate(WORDS * 8, Kind::Conservative) as usize;
                let handle = weak(object);
                NAMED.store(!object, Relaxed);
                churn_here(6);
                handle
            })
            .unwrap()
    };
    let handle = work().join().unwrap();
    assert!(CALLS.load(Relaxed) > 0, "nobody was asked for roots");
    assert_eq!(ELSEWHERE.load(Relaxed), 0, "a thread that is not the program's was asked");
    assert_eq!(alive(&[handle]), 1);
}

/// As [`churn`] on the calling thread alone.
fn churn_here(cycles: u64) {
    let wanted = api::statistics().cycles + cycles;
    grow(OBJECTS, 1);
    while api::statistics().cycles < wanted {
        core::hint::black_box(api::allocate(64, Kind::Conservative));
    }
}

#[test]
fn an_idle_program_is_collected() {
    begin("none");
    grow(OBJECTS, 1);
    // A heap with less in memory is left alone.
    let large = api::allocate(24 << 20, Kind::Conservative);
    assert!(!large.is_null());
    churn(2);
    let cycles = api::statistics().cycles;
    let seen = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        api::statistics().cycles > cycles
    });
    core::hint::black_box(large);
    assert!(seen, "an idle program was not collected in ten seconds");
}
