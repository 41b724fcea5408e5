//! A large object that reaches into a chunk which the watch does not know, since it grew there
//! after chunks were registered, or since the system refuses to register that one.

#![cfg(not(miri))]

use super::*;
use crate::addr::{CHUNK_BYTES, FRAME_BYTES};
use crate::alloc::{large, resize};
use crate::heap::blocks::header::NO_LAYOUT;
use core::sync::atomic::AtomicU32;

/// What happens when a chunk is to be registered, and whether that is refused.
type Register = Arc<Mutex<Option<Box<dyn FnOnce() -> bool + Send>>>>;

/// The software watch, with something in the way of registering.
#[derive(Clone)]
struct Hindered(Protected, Register);

impl Watch for Hindered {
    fn register(&mut self, range: &Range<usize>) -> Result<(), Refusal> {
        if self.1.lock().unwrap().take().is_some_and(|first| first()) {
            return Err(Refusal::new("register", rustix::io::Errno::NOMEM));
        }
        self.0.register(range)
    }
    fn unprotect(&mut self, range: &Range<usize>) {
        self.0.unprotect(range)
    }
    fn take_written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        self.0.take_written(range, written)
    }
    fn written(
        &self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Refusal> {
        self.0.written(range, written)
    }
}

fn large(frames: usize) -> Object {
    static NOTE: AtomicU32 = AtomicU32::new(0);
    let bytes = frames * FRAME_BYTES;
    let pages = large::take(&HEAP, &NOTE, Kind::Conservative, NO_LAYOUT, bytes).unwrap();
    large::publish(&HEAP, &NOTE, &pages);
    Object(pages.start.0)
}

fn grow(object: Object) {
    let cell = HEAP.object_at(object.0).unwrap();
    assert!(resize::in_place(&HEAP, &cell, 140 * FRAME_BYTES));
}

/// Whether an object lives that is stored into the new end of a large one after that was scanned.
fn survives(register: impl FnOnce(Object) -> bool + Send + 'static, grows_before: bool) -> bool {
    let watch = Hindered(Protected::default(), Arc::new(Mutex::new(None)));
    let mode = Mode::Tested(Box::new(IncrementalUpdate::new(&HEAP, watch.clone())));
    let mut program = Program::new(Some(mode));
    program.protected = watch.0.clone();
    let hidden = program.allocate();
    program.set_root(2, Some(hidden));
    let object = large(100);
    program.set_root(0, Some(object));
    program.cycle(Generation::Full, |_, _| {});
    // A chunk in use that the watch does not know; the two before it are free.
    let between = large(256);
    let apart = large(100);
    program.set_root(1, Some(apart));
    program.free(between);
    assert_eq!((apart.0 - HEAP.base().0) / CHUNK_BYTES, 3);
    // Known to a register alone from here on.
    program.set_root(2, None);
    if grows_before {
        grow(object);
    }
    *watch.1.lock().unwrap() = Some(Box::new(move || register(object)));
    program.begin(Generation::Full);
    program.first_pause();
    program.mark();
    HEAP.verify().unwrap();
    // In the last frame, which is in the second chunk.
    program.store(object, (140 * FRAME_BYTES - 64) / 8, Some(hidden));
    program.remark();
    program.lives(hidden)
}

#[test]
fn an_object_that_grew_before_its_chunk_was_registered() {
    assert!(survives(|_| false, true));
}

#[test]
fn an_object_that_grows_after_chunks_were_registered() {
    let grows = |object| {
        grow(object);
        false
    };
    assert!(survives(grows, false), "[heap.inv.protected]");
}

#[test]
fn an_object_whose_second_chunk_the_system_does_not_watch() {
    assert!(survives(|_| true, true), "[heap.inv.protected]");
}
