//! Weak handles that are read while references are processed beside the program: nobody is given an
//! object that is marked and leads to one that is not `[refs.inv.followed]`.
//!
//! Not under miri: it knows neither what pins an object nor how who reads waits.

#![cfg(not(miri))]

use std::thread;
use std::time::Duration;

use super::*;
use crate::heap::state::reference_processing;
use crate::refs::handles::domain::DomainId;
use crate::refs::handles::handle::{Cache, Handle};
use crate::refs::handles::process::{self, SPACE};
use crate::refs::handles::slot::Kind as Slot;

fn slot(cache: &Cache, kind: Slot, object: Object, value: Option<Object>) -> Handle {
    let target = |object: Object| process::target(object.0).unwrap();
    let value = value.map_or(0, target);
    SPACE.allocate(cache, DomainId::DEFAULT, kind, target(object), value).unwrap()
}

/// The value of an ephemeron begins a long list, which takes a while to mark.
#[test]
fn who_reads_waits_until_what_an_ephemeron_keeps_was_followed() {
    const LENGTH: usize = 200_000;
    let mut program = Program::new(None);
    let [key, value] = core::array::from_fn(|_| program.allocate());
    let mut last = value;
    for _ in 0..LENGTH {
        let next = program.allocate();
        program.store(last, 0, Some(next));
        last = next;
    }
    program.set_root(0, Some(key));
    let cache = Cache::new();
    let weak = slot(&cache, Slot::Weak, value, None);
    slot(&cache, Slot::Ephemeron, key, Some(value));
    program.begin(Generation::Full);
    program.first_pause();
    program.mark();
    let (driver, mode) = program.parts();
    assert!(mode.remark(driver, &mut COLLECTOR.lock(), None) == Left::Conclusion);
    let reader = thread::spawn(move || {
        let given = process::get(weak);
        (given, HEAP.is_marked(last.0))
    });
    thread::sleep(Duration::from_millis(50));
    assert!(!reader.is_finished() && !HEAP.is_marked(value.0));
    mode.conclude(driver, &mut COLLECTOR.lock());
    assert_eq!(reader.join().unwrap(), (Ok(value.0), true), "[refs.inv.followed]");
    while !HEAP.inner().sweep_step(&HEAP) {}
    assert!(program.lives(key) && program.lives(value) && program.lives(last));
}

/// Marked objects, while what is marked may not be scanned yet: values of ephemerons are followed,
/// or, for handles that track resurrection, finalizers' objects.
#[test]
fn who_reads_waits_while_marks_are_followed() {
    let mut program = Program::new(None);
    let object = program.allocate();
    program.set_root(0, Some(object));
    let cache = Cache::new();
    let long = slot(&cache, Slot::WeakLong, object, None);
    let short = slot(&cache, Slot::Weak, object, None);
    program.cycle(Generation::Full, |_, _| {});
    assert!(HEAP.is_marked(object.0));
    let waits = |handle: Handle, phase: u32, next: u32| {
        process::set_progress(phase);
        let reader = thread::spawn(move || process::get(handle));
        thread::sleep(Duration::from_millis(200));
        assert!(!reader.is_finished(), "[refs.inv.followed]");
        process::set_progress(next);
        assert_eq!(reader.join().unwrap(), Ok(object.0));
    };
    use reference_processing::*;
    waits(short, FOLLOWING, EPHEMERONS);
    waits(long, FOLLOWING, SHORT);
    waits(long, RESURRECTING, LONG);
    process::set_progress(RESURRECTING);
    assert_eq!(process::get(short), Ok(object.0), "it was marked before");
    process::set_progress(NO);
}
