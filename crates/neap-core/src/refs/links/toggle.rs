//! Toggle references: objects that a callback of the program holds strongly or weakly, anew before
//! every cycle.
//!
//! Invariant: a strong one is a root; a weak one is dropped in the cycle that finds its object
//! dead; beside the program, in the second one: after it said 'weak' and before the stop it may
//! have changed its mind and dropped what else kept the object. [`ask`] is called world running,
//! before the stop in which a snapshot is taken, or the one that reads the roots for the last
//! time: what it makes strong is a root there. The rest as in `refs`.
//!
//! # Safety
//!
//! Calls the program's function with objects that are registered, hence not found dead yet.

#![allow(unsafe_code)]

use core::ffi::c_void;

use crate::refs::handles::retargeted;
use crate::refs::{Marking, NoMemory};
use crate::sys::meta_vec::MetaVec;
use crate::sys::program_call::{self, Lost};
use crate::sys::side_stack;

/// What a callback says of an object; the values are those of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub i32);
impl Status {
    /// Forget the object.
    pub const DROP: Self = Self(0);
    /// Keep it alive.
    pub const STRONG: Self = Self(1);
    /// Let it die.
    pub const WEAK: Self = Self(2);
}

/// Decides about one object. Must not call into the collector.
pub type Callback = unsafe extern "C" fn(object: *mut c_void) -> Status;

#[derive(Clone, Copy)]
struct Toggle {
    object: usize,
    strong: bool,
    /// How many cycles beside the program found the object dead, one after another; 2 for more.
    dead: u8,
}

/// All toggle references.
pub(crate) struct Toggles {
    list: MetaVec<Toggle>,
    callback: Option<Callback>,
}

impl Toggles {
    pub(crate) const fn new() -> Self {
        Self { list: MetaVec::new(), callback: None }
    }

    /// Forgets those that `keep` refuses.
    fn retain(&mut self, mut keep: impl FnMut(&mut Toggle) -> bool) {
        let mut index = 0;
        while index < self.list.len() {
            if keep(&mut self.list[index]) {
                index += 1;
            } else {
                retargeted::note([self.list.swap_remove(index).object]);
            }
        }
    }

    fn add(&mut self, object: usize, strong: bool) -> Result<(), NoMemory> {
        self.list.try_push(Toggle { object, strong, dead: 0 })
    }

    fn ask(&mut self) {
        let Some(callback) = self.callback else { return };
        self.retain(|toggle| {
            // SAFETY: the object is registered, so it has not been found dead; the callback was
            // given for this.
            let status = side_stack::off(|| unsafe {
                let words = [toggle.object, 0, 0, 0];
                program_call::call("toggle callback", Lost::Nothing, callback as usize, words)
            });
            // It stays where it is not said what becomes of it.
            let status = status.map_or(Status::STRONG, |status| Status(status as i32));
            toggle.strong = status == Status::STRONG;
            status != Status::DROP
        });
    }

    /// Marks the objects of strong ones.
    pub(crate) fn trace_strong<M: Marking>(&self, marking: &mut M) {
        let strong = self.list.iter().filter(|toggle| toggle.strong);
        strong.for_each(|toggle| marking.mark(toggle.object));
    }

    /// Marks the objects that are found dead for the first time; says whether there were any. After
    /// marking, world stopped, in a cycle beside the program.
    pub(crate) fn keep_once<M: Marking>(&mut self, marking: &mut M) -> bool {
        let mut any = false;
        for toggle in self.list.iter_mut() {
            let is_dead = !marking.is_marked(toggle.object);
            toggle.dead = if is_dead { (toggle.dead + 1).min(2) } else { 0 };
            any |= toggle.dead == 1;
        }
        let first = self.list.iter().filter(|toggle| toggle.dead == 1);
        first.for_each(|toggle| marking.mark(toggle.object));
        any
    }

    /// Whether an object of them is not marked. After marking, world stopped.
    pub(crate) fn any_dies<M: Marking>(&self, marking: &M) -> bool {
        self.list.iter().any(|toggle| !marking.is_marked(toggle.object))
    }

    /// Forgets those whose objects died.
    pub(crate) fn drop_dead<M: Marking>(&mut self, marking: &M) {
        self.retain(|toggle| marking.is_marked(toggle.object));
    }
}

/// Sets the callback; without one all references stay as they are.
pub fn set_callback(callback: Option<Callback>) {
    crate::refs::with(|tables| tables.toggles.callback = callback);
}

/// The callback.
pub fn callback() -> Option<Callback> {
    crate::refs::with(|tables| tables.toggles.callback)
}

/// Registers an object; it stays until the callback says so or it dies.
///
/// # Errors
/// There is no memory for the table.
pub fn add(object: usize, strong: bool) -> Result<(), NoMemory> {
    crate::refs::with(|tables| tables.toggles.add(object, strong))
}

/// Asks the callback about every object. Before a cycle, world running.
pub fn ask() {
    crate::refs::with(|tables| tables.toggles.ask());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::Refs;
    use crate::refs::fake_marking::FakeMarking;

    /// 1 is dropped, even ones are strong, the rest weak.
    unsafe extern "C" fn by_number(object: *mut c_void) -> Status {
        match object as usize {
            1 => Status::DROP,
            number if number.is_multiple_of(2) => Status::STRONG,
            _ => Status::WEAK,
        }
    }

    #[test]
    fn strong_ones_live_weak_ones_die_dropped_ones_are_forgotten() {
        let refs = Refs::new();
        for object in 1..=5 {
            refs.tables.lock().toggles.add(object, true).unwrap();
        }
        refs.tables.lock().toggles.callback = Some(by_number);
        refs.tables.lock().toggles.ask();
        let mut marking = FakeMarking::new(&[(4, 6)]);
        marking.run(&refs, &[5]);
        let mut left: Vec<usize> =
            refs.tables.lock().toggles.list.iter().map(|toggle| toggle.object).collect();
        left.sort_unstable();
        assert_eq!(left, [2, 4, 5]);
        assert!([2, 4, 6].iter().all(|&object| marking.is_marked_now(object)));
        assert!(!marking.is_marked_now(1) && !marking.is_marked_now(3));
    }

    #[test]
    fn beside_the_program_a_weak_one_dies_when_it_is_found_dead_twice_in_a_row() {
        let refs = Refs::new();
        refs.tables.lock().toggles.add(7, false).unwrap();
        let cycle = |roots: &[usize]| {
            let mut marking = FakeMarking::new(&[]);
            roots.iter().for_each(|&root| marking.mark(root));
            marking.drain();
            refs.tables.lock().toggles.keep_once(&mut marking);
            marking.drain();
            refs.tables.lock().toggles.drop_dead(&marking);
            (marking.is_marked_now(7), refs.tables.lock().toggles.list.len())
        };
        assert_eq!(cycle(&[]), (true, 1));
        assert_eq!(cycle(&[7]), (true, 1));
        assert_eq!(cycle(&[]), (true, 1));
        assert_eq!(cycle(&[]), (false, 0));
    }
}
