//! Marking a snapshot: what was reachable when it was taken is marked, whatever the program does
//! meanwhile. By a child process and by before-images, which miri has neither of.

#![cfg(not(miri))]

use super::*;
use crate::addr::Address;
use crate::alloc::free::free;
use crate::check::skip;
use crate::cycle::modes::fork::Fork;
use crate::refs::links::link::{self, Length};
use crate::watch::choose::Watching;

/// The only pointer to an object moves into one that was allocated after the snapshot.
fn moved_pointer_is_kept(mode: Mode) {
    let mut program = Program::new(Some(mode));
    let [parent, child, dead] = core::array::from_fn(|_| program.allocate());
    program.store(parent, 0, Some(child));
    program.set_root(0, Some(parent));
    program.begin(Generation::Full);
    program.first_pause();
    let new = program.allocate();
    program.store(new, 0, Some(child));
    program.store(parent, 0, None);
    program.set_root(1, Some(new));
    program.mark();
    program.remark();
    let all = [parent, child, new, dead].map(|object| program.lives(object));
    assert_eq!(all, [true, true, true, false]);
    // A second cycle from the roots as they are then.
    program.set_root(1, None);
    program.cycle(Generation::Full, |_, _| {});
    assert!(program.lives(parent) && !program.lives(child) && !program.lives(new));
}

#[test]
fn a_child_marks_the_snapshot() {
    moved_pointer_is_kept(Mode::Fork(Fork::new()));
}

#[test]
fn before_images_are_marked() {
    let mode = Mode::open(Watching::Snapshot, &HEAP);
    match mode {
        Some(mode) => moved_pointer_is_kept(mode),
        None => skip("the kernel refuses what the snapshot watch needs"),
    }
}

/// A link that had no need to be looked at again gives the program its object back.
fn what_a_link_reveals_is_kept(mode: Mode) {
    let mut program = Program::new(Some(mode));
    let object = program.allocate();
    let word = AtomicUsize::new(!object.0);
    let address = core::ptr::from_ref(&word).expose_provenance();
    // SAFETY: the word is there until the object is not.
    unsafe { link::register(Length::Long, address, object.0).unwrap() };
    program.set_root(0, Some(object));
    program.cycle(Generation::Full, |_, _| {});
    program.set_root(0, None);
    program.cycle(Generation::Full, |program, step| {
        if step == 1 {
            HEAP.state.note_revealed();
            program.set_root(0, Some(Object(!word.load(Relaxed))));
        }
    });
    assert!(program.lives(object) && word.load(Relaxed) == !object.0);
    program.set_root(0, None);
    program.cycle(Generation::Full, |_, _| {});
    assert!(!program.lives(object) && word.load(Relaxed) == 0);
}

#[test]
fn a_link_reveals_an_object_while_a_child_marks() {
    what_a_link_reveals_is_kept(Mode::Fork(Fork::new()));
}

#[test]
fn a_link_reveals_an_object_while_before_images_are_marked() {
    match Mode::open(Watching::Snapshot, &HEAP) {
        Some(mode) => what_a_link_reveals_is_kept(mode),
        None => skip("the kernel refuses what the snapshot watch needs"),
    }
}

#[test]
fn a_fork_in_any_step_leaves_parent_and_child_with_a_working_heap() {
    let mut program = Program::new(None);
    let [parent, child] = core::array::from_fn(|_| program.allocate());
    program.store(parent, 0, Some(child));
    program.set_root(0, Some(parent));
    let collects = |program: &mut Program| {
        crate::cycle::after_fork();
        program.state = between_steps::begin(&mut COLLECTOR.lock());
        program.state.driver.world = &FakeWorld;
        let dead = program.allocate();
        program.state.mode = Some(Mode::Fork(Fork::new()));
        program.cycle(Generation::Full, |_, _| {});
        program.lives(parent) && program.lives(child) && !program.lives(dead)
    };
    let mut children = Vec::new();
    program.cycle(Generation::Full, |program, _| {
        // SAFETY: the child does what a forked child of a program may, and ends without cleaning
        // up.
        match unsafe { libc::fork() } {
            0 => {
                let right = collects(program);
                // SAFETY: ends the child.
                unsafe { libc::_exit(if right { 0 } else { 1 }) }
            }
            child => children.push(child),
        }
    });
    assert!(program.lives(parent) && program.lives(child));
    for child in children {
        let mut status = 0;
        // SAFETY: a child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child ended with {status:#x}");
    }
}

/// What the program frees while a cycle marks is freed when it runs again, if it is much: each of
/// thousands takes a while.
fn many_frees_wait_for_the_end_of_the_stop(mode: Option<Mode>) {
    let mut program = Program::new(mode);
    let kept = program.allocate();
    program.set_root(0, Some(kept));
    program.begin(Generation::Full);
    program.first_pause();
    let freed: Vec<Object> = (0..2000).map(|_| program.allocate()).collect();
    for object in &freed {
        free(&HEAP, Address(object.0)).unwrap();
    }
    program.mark();
    let (driver, mode) = program.parts();
    let left = mode.remark(driver, &mut COLLECTOR.lock(), None);
    assert!(left == Left::Conclusion);
    assert!(HEAP.inner().deferred_frees.are_many() && program.lives(freed[0]));
    let born = program.allocate();
    program.set_root(1, Some(born));
    let (driver, mode) = program.parts();
    mode.conclude(driver, &mut COLLECTOR.lock());
    while !HEAP.inner().sweep_step(&HEAP) {}
    assert!(program.lives(kept) && program.lives(born) && !program.lives(freed[0]));
    program.cycle(Generation::Full, |_, _| {});
    assert!(program.lives(kept) && program.lives(born));
}

#[test]
fn many_frees_wait_while_a_child_marks() {
    many_frees_wait_for_the_end_of_the_stop(Some(Mode::Fork(Fork::new())));
}

#[test]
fn many_frees_wait_under_incremental_update() {
    many_frees_wait_for_the_end_of_the_stop(None);
}
