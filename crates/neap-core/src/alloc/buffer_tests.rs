//! Buffers by themselves: what they hand out and count, what a stop takes from them. Called by the
//! test runner.
//!
//! # Safety
//!
//! Makes a thread's buffers of zeroed memory that is never given back.

#![allow(unsafe_code)]

use super::*;
use crate::heap::kind::Kind;

/// A thread's buffers for tests.
pub(crate) fn local() -> &'static Local {
    let memory = map::allocate(size_of::<Local>().next_multiple_of(4096)).unwrap();
    // SAFETY: zeroed memory of its own, large enough; all fields are valid as zeros.
    let local = unsafe { &*memory.pointer::<Local>() };
    local.initialize();
    local
}

#[test]
fn a_run_hands_out_its_cells_and_counts_them() {
    let local = local();
    let buffer = local.buffer(SpaceId(3)).unwrap();
    local.note_used(SpaceId(3));
    assert_eq!(buffer.bump(32), 0);
    local.install(buffer, 4096..4096 + 96, 32);
    assert_eq!(
        [buffer.bump(32), buffer.bump(32), buffer.bump(32), buffer.bump(32)],
        [4096, 4128, 4160, 0]
    );
    assert_eq!(local.totals(), (3, 96));
    local.install(buffer, 8192..8192, 32);
    assert_eq!(local.totals(), (3, 96));
}

/// While its thread goes from one block to another, far away and back.
#[test]
fn what_was_handed_out_does_not_jump() {
    const RUNS: usize = 1_000_000;
    const RUN_BYTES: usize = 96;
    let (begun, place) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let both = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let local = local();
            let buffer = local.buffer(SpaceId(3)).unwrap();
            local.note_used(SpaceId(3));
            place.store(core::ptr::from_ref(local) as usize, Relaxed);
            both.wait();
            for run in 1..=RUNS {
                begun.store(run, SeqCst);
                let start = [1 << 40, 1 << 20][run % 2];
                local.install(buffer, start..start + RUN_BYTES, 32);
                while buffer.bump(32) != 0 {}
            }
        });
        both.wait();
        // SAFETY: the other thread's, which stays; only atomics of it are read.
        let local = unsafe { &*(place.load(Relaxed) as *const Local) };
        let mut bytes = 0;
        while bytes < (RUNS * RUN_BYTES) as u64 {
            bytes = local.totals().1;
            assert!(bytes <= (begun.load(SeqCst) * RUN_BYTES) as u64, "{bytes}");
        }
    });
}

/// Of thousands of layouts a thread uses few: a stop looks at their buffers alone.
#[test]
fn typed_buffers_that_were_never_used_are_not_looked_at() {
    let local = local();
    let last = SpaceId(MOST_SPACES as u32 - 1);
    for id in [SpaceId(3), SpaceId(FIXED_SPACES as u32 + 70), last] {
        let buffer = local.buffer(id).unwrap();
        local.note_used(id);
        local.install(buffer, 4096..4096 + 96, 32);
        buffer.bump(32);
    }
    let mut seen = 0;
    local.for_each_buffer(|_| seen += 1);
    assert_eq!((seen, local.totals()), (3, (3, 96)));
    local.give_back_typed();
    local.for_each_buffer(|_| seen += 1);
    assert_eq!(seen, 4);
}

#[test]
fn what_a_stop_takes_from_a_buffer_was_not_allocated() {
    let heap = Heap::new();
    heap.reserve(64 << 20).unwrap();
    let local = local();
    for class_bytes in [16_usize, 4096, 32 << 10] {
        let id = SpaceId(crate::heap::classes::class_of(class_bytes) as u32);
        let buffer = local.buffer(id).unwrap();
        let all = || heap.state.allocated_since_cycle.load(Relaxed) + local.unreported.get();
        let before = all();
        crate::alloc::refill::refill(&heap, local, buffer, id).unwrap();
        assert!(all() - before >= 4 * class_bytes);
        buffer.bump(buffer.cell_bytes());
        local.keep_cells(&heap);
        // One that was handed out and one that stays.
        assert_eq!(all() - before, 2 * buffer.cell_bytes());
    }
}

/// Also where marking is under way, of which no sweep finds what is never collected.
#[test]
fn no_cell_of_a_thread_that_ended_stays_an_object() {
    let id = SpaceId::of(Kind::Uncollectable, crate::heap::classes::class_of(64));
    for marking in [false, true] {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let local = local();
        let buffer = local.buffer(id).unwrap();
        heap.state.marking.store(marking, Relaxed);
        crate::alloc::refill::refill(&heap, local, buffer, id).unwrap();
        let (kept, rest) = (buffer.bump(64), buffer.rest());
        assert!(heap.object_at(rest.start).is_some());
        local.let_go(&heap);
        assert!(heap.inner().free_deferred(&heap, usize::MAX));
        heap.state.marking.store(false, Relaxed);
        assert!(heap.object_at(kept).is_some());
        assert!(rest.step_by(64).all(|free| heap.object_at(free).is_none()));
        // What it handed out is reported, and what it gave back is not.
        assert!(marking || heap.state.allocated_since_cycle.load(Relaxed) == 64);
        heap.verify().unwrap();
    }
}

#[test]
fn typed_runs_are_made_on_demand() {
    let local = local();
    let id = SpaceId(FIXED_SPACES as u32 + 5);
    assert_eq!(local.buffer(id).unwrap().bump(8), 0);
    local.note_used(id);
    local.note_used(SpaceId(70));
    let mut buffers = 0;
    local.for_each_buffer(|buffer| buffers += buffer.block().is_none() as usize);
    assert_eq!(buffers, 2, "only those in use");
}

#[test]
fn what_was_let_go_before_freezing_is_no_longer_allocated_from() {
    let heap = Heap::new();
    heap.reserve(64 << 20).unwrap();
    let (local, stale) = (local(), local());
    let id = SpaceId(7);
    let allocate = |local: &Local| {
        let buffer = local.buffer(id).unwrap();
        if buffer.rest().is_empty() {
            crate::alloc::refill::refill(&heap, local, buffer, id).unwrap();
        }
        buffer.bump(buffer.cell_bytes())
    };
    let (first, other) = (allocate(local), allocate(stale));
    local.let_go(&heap);
    heap.inner().freeze(&heap);
    assert!(heap.object_at(first).unwrap().header.is_frozen());
    assert!(!heap.object_at(other).unwrap().header.is_frozen(), "another thread's block");
    let next = allocate(local);
    assert!(!heap.object_at(next).unwrap().header.is_frozen());
    heap.verify().unwrap();
    stale.let_go(&heap);
    heap.inner().freeze(&heap);
    stale.let_go(&heap);
    assert!(heap.object_at(other).is_some());
    heap.verify().unwrap();
}
