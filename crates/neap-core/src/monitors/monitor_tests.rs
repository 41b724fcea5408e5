//! What a child of `fork` makes of monitors, without forking. Called by the test runner.
//!
//! # Safety
//!
//! Reaches a thread's own record where no stop comes.

#![allow(unsafe_code)]

use super::*;
use crate::heap::kind::Kind;
use crate::heap::spaces::SpaceId;
use crate::heap::{HEAP, classes};
use crate::world::current;

/// Objects of 64 bytes.
fn objects(count: usize) -> Vec<usize> {
    let id = SpaceId::of(Kind::Conservative, classes::class_of(64));
    let mut objects = Vec::new();
    while objects.len() < count {
        let block = HEAP.inner().fresh_block(&HEAP, id, 0, true).unwrap();
        let cells = HEAP.header(block).cells();
        HEAP.bits(block).set_range(0..cells, false, true, true);
        let start = HEAP.address(block);
        objects.extend((0..cells as usize).map(|cell| start.add(cell * 64).0));
    }
    objects.truncate(count);
    objects
}

/// Runs on another thread, which never ends.
fn on_another(does: impl FnOnce() + Send + 'static) {
    let (is_done, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        does();
        is_done.send(()).unwrap();
        loop {
            std::thread::park();
        }
    });
    done.recv().unwrap();
}

#[test]
fn a_child_knows_its_monitors_from_others_however_many_there_are() {
    const EACH: usize = if cfg!(miri) { 20 } else { 200_000 };
    HEAP.reserve(64 << 20).unwrap();
    let mut own = objects(EACH * 2);
    let others = own.split_off(EACH);
    let their = others.clone();
    on_another(move || their.iter().for_each(|object| assert_eq!(enter(*object, None), Ok(true))));
    for object in own.iter().chain(&own) {
        assert_eq!(enter(*object, None), Ok(true));
    }
    assert_eq!(enter(others[0], Some(0)), Ok(false));
    let began = Instant::now();
    after_fork(current::get());
    // Where each is looked for among all it takes more than ten.
    assert!(cfg!(miri) || began.elapsed().as_secs() < 2);
    // Once for each time that it was entered.
    for object in own.iter().chain(&own) {
        assert_eq!(exit(*object), Ok(()));
    }
    assert!(own.iter().all(|object| exit(*object) == Err(MonitorError::NotOwner)));
    for object in others {
        assert_eq!(enter(object, Some(0)), Ok(true));
    }
}

/// A thread of the parent had changed the word and not its list yet.
#[test]
fn a_child_knows_who_is_in_a_monitor_though_a_thread_was_entering_or_leaving() {
    HEAP.reserve(16 << 20).unwrap();
    let [entered, left] = objects(2)[..] else { unreachable!() };
    let word = lock_table::of(entered).unwrap();
    word.store(Lock::Thin { thread: (1 << 22) - 1, depth: 1 }.word(), Relaxed);
    assert_eq!(enter(entered, Some(0)), Ok(false), "this is no child");
    assert_eq!(enter(left, Some(0)), Ok(true));
    on_another(move || {
        let record = per_thread::of(attach::current()).unwrap();
        // SAFETY: this thread's record, which no stop looks at.
        let held = unsafe { record.held() };
        held.try_reserve(1).unwrap();
        held.push(left);
    });
    after_fork(current::get());
    assert_eq!(exit(left), Ok(()), "[refs.inv.monitor]");
    assert_eq!(enter(entered, Some(0)), Ok(true));
    for object in [entered, left] {
        assert_eq!(exit(object).is_ok(), object == entered);
    }
}
