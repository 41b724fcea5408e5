//! A program that writes faster than rounds can scan: before each stop, to more pages than a round
//! is worth.
//!
//! Invariant: as of the folder. The writes between two stops are a fixed number, so what the last
//! pause finds does not depend on how fast the machine is.
//!
//! Not under miri: a stop's time is over before it has scanned anything.

#![cfg(not(miri))]

use core::ffi::c_void;

use super::*;
use crate::cycle::report::record::CaughtUp;
use crate::world::correction;

/// Objects, each on a page of its own: more than are protected in a stop from the first round on.
const OBJECTS: usize = 3000;
/// Of these, written between two stops: more than rounds take for few.
const WRITTEN: usize = 100;

/// A full cycle beside such a program, which moves the only pointer to a hidden object on with each
/// write. Gives the program and that object. `reported`: the watch is told of the writes;
/// `is_large`: the heap passes for one of a gigabyte.
fn cycle_beside_a_writer(reported: bool, is_large: bool) -> (Program, Object) {
    let mut program = Program::new(None);
    let table = program.allocate_bytes(Kind::Conservative, OBJECTS * 8);
    program.set_root(0, Some(table));
    let objects: Vec<Object> = (0..OBJECTS)
        .map(|index| {
            let object = program.allocate_apart();
            program.store(table, index, Some(object));
            object
        })
        .collect();
    // All that there is lies on pages that were protected.
    program.cycle(Generation::Full, |_, _| {});
    // Known to a register alone until all others were scanned.
    let hidden = program.allocate_apart();
    let (protected, written, mut at) = (program.protected.clone(), objects.clone(), 0);
    let store = |object: Object, value: usize| {
        let word = core::ptr::with_exposed_provenance_mut::<usize>(object.0 + 8);
        // SAFETY: a field of an object that is reachable; the collector's thread, which runs this,
        // reads nothing meanwhile.
        unsafe { word.write_volatile(value) };
    };
    // Stacks are left to pauses: the mutator is no thread that could be sent a signal.
    unsafe extern "C" fn as_noted(_: *mut *mut c_void, _: *mut c_void) {}
    correction::set(Some(as_noted));
    program.begin(Generation::Full);
    program.first_pause();
    // The first round, beside the program, finds much.
    objects.iter().for_each(|object| program.protected.note_store(object.0));
    *MEANWHILE.lock().unwrap() = Some(Box::new(move || {
        for _ in 0..WRITTEN {
            let next = (at + 7) % OBJECTS;
            for (object, value) in [(written[next], hidden.0), (written[at], 0)] {
                store(object, value);
                if reported {
                    protected.note_store(object.0);
                }
            }
            at = next;
        }
    }));
    if is_large {
        HEAP.state.scanned_bytes.store(1 << 30, Relaxed);
    }
    program.mark();
    program.remark();
    *MEANWHILE.lock().unwrap() = None;
    (program, hidden)
}

#[test]
fn a_writer_that_the_watch_does_not_report_hides_the_object() {
    let (program, hidden) = cycle_beside_a_writer(false, false);
    assert!(!program.lives(hidden), "the test below cannot fail");
}

#[test]
fn a_program_that_writes_faster_than_rounds_scan_is_caught_up_with() {
    let (program, hidden) = cycle_beside_a_writer(true, false);
    let record = program.state.driver.record;
    assert!(program.lives(hidden), "{record:?}");
    // Where scans are as fast as ever.
    if !cfg!(address_sanitizer) {
        assert_eq!(record.caught_up, CaughtUp::Passes);
        assert!(record.passes > 0 && record.short_stops >= record.passes);
        // What was written since the last short stop, not what rounds left.
        let remark = record.remark_pages;
        assert!((WRITTEN..2 * WRITTEN).contains(&remark), "{remark} pages in the last pause");
    }
}

/// As if a thread of the program's allocated all the time.
fn allocating<R>(f: impl FnOnce() -> R) -> R {
    ALLOCATES.store(true, Relaxed);
    let result = f();
    ALLOCATES.store(false, Relaxed);
    result
}

/// It wrote to every page before the first round.
#[test]
fn a_program_that_only_writes_is_waited_for_and_gets_no_second_round() {
    let (program, hidden) = cycle_beside_a_writer(true, false);
    let record = program.state.driver.record;
    assert!(program.lives(hidden), "{record:?}");
    assert!(record.waited_ns > 0, "{record:?}");
    assert_eq!(record.rounds, 1, "{record:?}");
    // Where scans are as fast as ever.
    let is_slow = cfg!(any(address_sanitizer, thread_sanitizer));
    assert!(record.caught_up == CaughtUp::Passes || is_slow, "{record:?}");
}

#[test]
fn one_that_allocates_is_not_waited_for() {
    let (program, hidden) = allocating(|| cycle_beside_a_writer(true, false));
    let record = program.state.driver.record;
    assert!(program.lives(hidden), "{record:?}");
    assert_eq!(record.waited_ns, 0, "{record:?}");
    assert!(record.rounds > 1, "{record:?}");
}

#[test]
fn helpers_ask_what_was_written_since_the_last_round() {
    COLLECTOR.lock().markers = 4;
    let (program, hidden) = cycle_beside_a_writer(true, true);
    let record = program.state.driver.record;
    assert_eq!(program.state.driver.workers.existing(), 3);
    assert!(program.lives(hidden), "{record:?}");
    let remark = record.remark_pages;
    // As above.
    let is_right = (WRITTEN..2 * WRITTEN).contains(&remark) || cfg!(address_sanitizer);
    assert!(is_right, "{remark} pages in the last pause");
}
