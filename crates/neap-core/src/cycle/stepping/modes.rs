//! The stopped cycle; what a step refuses; and the driver token itself.

use super::*;
use crate::cycle::driver::given_up;
use crate::cycle::modes::stop_the_world::{self, Length};
use crate::cycle::phase::Phase;
use crate::cycle::phases::reference_processing::References;
use crate::cycle::report::record;
use crate::refs::handles::domain::DomainId;
use crate::refs::handles::handle::Cache;
use crate::refs::handles::process::{self, SPACE};
use crate::refs::handles::slot::Kind as Slot;

#[test]
fn a_stopped_cycle_keeps_what_is_reachable() {
    let program = Program::new(None);
    let [parent, child, dead] = core::array::from_fn(|_| program.allocate());
    program.store(parent, 0, Some(child));
    program.set_root(0, Some(parent));
    let (driver, mut collector) = (&mut program.state.driver, COLLECTOR.lock());
    stop_the_world::run(driver, &mut collector, None, record::Kind::Stopped, Length::Any).unwrap();
    drop(collector);
    while !HEAP.inner().sweep_step(&HEAP) {}
    assert_eq!([parent, child, dead].map(|object| program.lives(object)), [true, true, false]);
    assert_eq!(COLLECTOR.lock().phase, Phase::Idle);
    let record = program.state.driver.record;
    assert!(record.live_bytes >= 2 * WORDS * 8 && record.pause_ns > 0);
}

/// Threads that fill blocks write to their pages ahead while cycles protect them, and no longer.
#[test]
fn a_stopped_cycle_leaves_nothing_to_be_written_ahead() {
    HEAP.state.lends_blocks.store(true, Relaxed);
    let mut program = Program::new(None);
    program.cycle(Generation::Full, |_, _| {});
    assert!(HEAP.state.protects.load(Relaxed));
    let (driver, mut collector) = (&mut program.state.driver, COLLECTOR.lock());
    stop_the_world::run(driver, &mut collector, None, record::Kind::Stopped, Length::Any).unwrap();
    assert!(!HEAP.state.protects.load(Relaxed));
}

/// One that was given up read the strong handles, and the next has its number.
#[test]
fn a_cycle_after_one_that_was_given_up_reads_everything_again() {
    let program = Program::new(None);
    let held = program.allocate();
    let (cache, target) = (Cache::new(), process::target(held.0).unwrap());
    SPACE.allocate(&cache, DomainId::DEFAULT, Slot::Strong, target, 0).unwrap();
    process::trace_strong(&mut References::new(&mut program.state.driver));
    let mut collector = COLLECTOR.lock();
    given_up::end(program.state, &mut collector);
    let driver = &mut program.state.driver;
    stop_the_world::run(driver, &mut collector, None, record::Kind::Stopped, Length::Any).unwrap();
    drop(collector);
    while !HEAP.inner().sweep_step(&HEAP) {}
    assert!(program.lives(held));
}

#[test]
fn there_is_one_driver_token() {
    let program = Program::new(None);
    let collector = &mut *COLLECTOR.lock();
    assert!(between_steps::take(collector).is_none(), "the test has it");
    let driver = core::ptr::from_ref(&program.state.driver);
    drop(program);
    // As in the child of a fork: whoever had it is gone.
    let again = between_steps::reclaim(collector).unwrap();
    assert_eq!(core::ptr::from_ref(&again.driver), driver);
    between_steps::put_back(collector, again);
    assert!(between_steps::take(collector).is_some());
}

#[test]
fn uncollectable_objects_are_roots() {
    let mut program = Program::new(None);
    let lives = program.allocate_bytes(Kind::Uncollectable, 32);
    let child = program.allocate();
    program.store(lives, 1, Some(child));
    program.cycle(Generation::Full, |_, _| {});
    assert!(program.lives(lives) && program.lives(child));
}
