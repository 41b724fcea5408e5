//! Incremental update under a watch in software: the races that the model has, one step at a time.
//!
//! Invariant: each test fails if what it is about is left out; where that is the watch's report, it
//! is left out once and the object is seen to be lost.

use super::*;
use crate::addr::FRAME_BYTES;
use crate::check;

fn full(program: &mut Program) {
    program.cycle(Generation::Full, |_, _| {});
}

#[test]
fn what_is_reachable_stays_and_the_rest_goes() {
    let mut program = Program::new(None);
    let [parent, child, dead] = core::array::from_fn(|_| program.allocate());
    program.store(parent, 1, Some(child));
    program.store(dead, 1, Some(child));
    program.set_root(3, Some(parent));
    full(&mut program);
    assert_eq!([parent, child, dead].map(|object| program.lives(object)), [true, true, false]);
    let record = program.state.driver.record;
    assert_eq!((record.number, record.mutators), (1, 1));
    assert!(record.pause_ns > 0 && record.first_ns > 0);
    program.set_root(3, None);
    full(&mut program);
    assert!(!program.lives(parent) && !program.lives(child));
}

/// The pointer to `hidden` moves from an object that is not scanned yet into one that is.
/// `reported`: the watch is told of the store.
fn hide(reported: bool) -> bool {
    let mut program = Program::new(None);
    let [seen, unseen] = core::array::from_fn(|_| program.allocate_apart());
    let hidden = program.allocate_apart();
    program.set_root(0, Some(seen));
    // An older cycle: all that there is lies on pages that were protected, and was scanned.
    program.store(seen, 0, Some(hidden));
    full(&mut program);
    program.begin(Generation::Full);
    program.first_pause();
    // The program takes the pointer away, and puts it back when the object was scanned.
    program.store(seen, 0, None);
    program.set_root(1, Some(unseen));
    program.mark();
    program.write(seen, 7, hidden.0);
    if reported {
        program.protected.note_store(seen.0);
    }
    program.set_root(1, None);
    program.remark();
    program.lives(hidden)
}

#[test]
fn a_store_between_scan_and_remark_keeps_the_object() {
    assert!(hide(true));
}

#[test]
fn a_store_that_the_watch_does_not_report_loses_it() {
    assert!(!hide(false), "the test above cannot fail");
}

#[test]
fn what_is_allocated_in_any_step_stays_while_it_is_known() {
    let mut program = Program::new(None);
    let keeper = program.allocate();
    program.set_root(0, Some(keeper));
    let mut kept = Vec::new();
    program.cycle(Generation::Full, |program, step| {
        let object = program.allocate();
        if step == 3 {
            program.set_root(step, Some(object));
        } else {
            program.store(keeper, step, Some(object));
        }
        kept.push(object);
    });
    assert_eq!(kept.len(), 4);
    assert!(kept.iter().all(|object| program.lives(*object)));
    full(&mut program);
    assert!(kept.iter().all(|object| program.lives(*object)));
    (0..3).for_each(|field| program.store(keeper, field, None));
    program.set_root(3, None);
    full(&mut program);
    assert!(!kept.iter().any(|object| program.lives(*object)));
}

/// A new object lies where one was freed that a marked object points to: a dead old one, or one
/// that stays marked in full cycles, though it may well be dead, as a frozen one does.
fn a_place_is_used_again_that_was_freed(stays_marked: bool) {
    check::set_level(check::MARKS);
    let mut program = Program::new(None);
    let [old, freed] = core::array::from_fn(|_| program.allocate_apart());
    program.store(old, 0, Some(freed));
    program.set_root(0, Some(old));
    program.cycle(Generation::Full, |_, _| {});
    program.free(freed);
    if stays_marked {
        program.cycle(Generation::Full, |_, _| {});
    } else {
        program.set_root(0, None);
    }
    let again = (0..1000).map(|_| program.allocate_apart()).find(|new| *new == freed);
    assert_eq!(again, Some(freed));
    program.cycle(Generation::Minor, |_, _| {});
    assert!(program.lives(old) && !program.lives(freed));
}

#[test]
fn the_check_of_marks_knows_that_a_freed_cell_may_be_used_again() {
    a_place_is_used_again_that_was_freed(false);
}

#[test]
fn the_check_of_marks_knows_what_was_freed_before_all_marks_were_cleared() {
    a_place_is_used_again_that_was_freed(true);
}

#[test]
fn a_minor_cycle_follows_written_pages_and_keeps_old_objects() {
    let mut program = Program::new(None);
    let [old, dead_old] = core::array::from_fn(|_| program.allocate_apart());
    program.set_root(0, Some(old));
    program.set_root(1, Some(dead_old));
    full(&mut program);
    assert!(program.state.mode.as_mut().unwrap().steps().has_minor_cycles());
    let [young, dead_young] = core::array::from_fn(|_| program.allocate());
    program.store(old, 0, Some(young));
    program.set_root(1, Some(dead_young));
    program.set_root(1, None);
    program.cycle(Generation::Minor, |_, _| {});
    assert!(program.lives(old) && program.lives(young) && !program.lives(dead_young));
    assert!(program.lives(dead_old), "it is old, and a minor cycle looks at no old object");
    assert!(program.state.driver.record.remembered_pages > 0);
    full(&mut program);
    assert!(program.lives(young) && !program.lives(dead_old));
}

#[test]
fn what_is_not_watched_between_cycles_is_found_by_a_full_one() {
    let mut program = Program::new(None);
    let old = program.allocate_apart();
    program.set_root(0, Some(old));
    full(&mut program);
    let watches =
        |program: &mut Program| program.state.mode.as_mut().unwrap().steps().has_minor_cycles();
    program.state.mode.as_mut().unwrap().steps().stop_watching();
    assert!(!watches(&mut program), "what is written from now on is not known");
    let inner = HEAP.inner();
    let is_unprotected = |chunk: usize| inner.frames.scanned_in_chunk(chunk).0 == 0;
    assert!((0..inner.frames.chunks()).all(is_unprotected));
    drop(inner);
    let young = program.allocate();
    program.store(old, 0, Some(young));
    let mut late = None;
    program.cycle(Generation::Full, |program, step| {
        if step == 2 {
            late = Some(program.allocate());
            program.store(old, 1, late);
        }
    });
    assert!(watches(&mut program));
    assert!(program.lives(young) && late.is_some_and(|late| program.lives(late)));
}

#[test]
fn what_the_program_frees_of_the_young_is_not_taken_off_the_old() {
    const OLD: usize = 2 * PAGE_BYTES;
    let mut program = Program::new(None);
    let old = [(); 2].map(|()| program.allocate_apart());
    program.store(old[0], 0, Some(old[1]));
    program.set_root(0, Some(old[0]));
    full(&mut program);
    let live = || HEAP.state.live_bytes.load(Relaxed);
    let most = live() + FRAME_BYTES;
    for _ in 0..8 {
        for _ in 0..1000 {
            program.free(program.allocate());
        }
        program.cycle(Generation::Minor, |_, _| {});
        // Beside the old there are the cells that the thread holds.
        assert!((OLD..=most).contains(&live()), "{}", live());
    }
    let before = live();
    program.free(old[1]);
    program.cycle(Generation::Minor, |_, _| {});
    assert_eq!(live(), before - PAGE_BYTES, "what is freed of the old is taken off");
}

#[test]
fn a_watch_that_refuses_ends_in_a_scan_of_everything() {
    /// Refuses every question.
    struct Refusing;
    impl Watch for Refusing {
        fn register(&mut self, _: &Range<usize>) -> Result<(), Refusal> {
            Ok(())
        }
        fn unprotect(&mut self, _: &Range<usize>) {}
        fn take_written(
            &mut self,
            _: &Range<usize>,
            _: &mut dyn FnMut(Range<usize>),
        ) -> Result<(), Refusal> {
            Ok(())
        }
        fn written(
            &self,
            _: &Range<usize>,
            _: &mut dyn FnMut(Range<usize>),
        ) -> Result<(), Refusal> {
            Err(Refusal::new("a test", rustix::io::Errno::NOSYS))
        }
    }
    let mode = Mode::Tested(Box::new(IncrementalUpdate::new(&HEAP, Refusing)));
    let mut program = Program::new(Some(mode));
    let [parent, child] = core::array::from_fn(|_| program.allocate());
    program.set_root(0, Some(parent));
    program.begin(Generation::Full);
    program.first_pause();
    program.mark();
    program.store(parent, 2, Some(child));
    program.remark();
    assert!(program.lives(parent) && program.lives(child));
}
