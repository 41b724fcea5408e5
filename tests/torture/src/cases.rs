//! Tests of what is refused and of misuse, each in a process of its own: a heap that was brought to
//! its limits is of no use to another test.
//!
//! Invariant: after the refusal the collector works on, and what was alive still is. Called by
//! `main`.

mod by_fork;
mod handles;
mod limits;
mod misuse;

use crate::failure;
use crate::shadow::hidden::pattern;
use crate::{ensure, fail};
use neap_core::api::{self, Kind};
use std::process::ExitCode;

type Case = (&'static str, fn());

fn all() -> impl Iterator<Item = &'static Case> {
    limits::CASES.iter().chain(misuse::CASES).chain(by_fork::CASES).chain(handles::CASES)
}

/// The names of those that take long.
pub fn long_names() -> impl Iterator<Item = &'static str> {
    by_fork::LONG.iter().chain(handles::LONG).map(|case| case.0)
}

/// The names of the others.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|case| case.0)
}

/// Runs the case of this name.
pub fn run(name: &str) -> ExitCode {
    let Some(case) = all().chain(by_fork::LONG).chain(handles::LONG).find(|case| case.0 == name)
    else {
        eprintln!("there is no case {name:?}; `neap-torture cases` lists them");
        return ExitCode::from(2);
    };
    let _ = failure::COMMAND.set(format!("neap-torture case {name}"));
    // As in the random runs: cycles run beside a thread that is alone, too.
    set_option("max_pause", "0");
    case.1();
    ExitCode::SUCCESS
}

/// Sets an option before the start.
fn set_option(name: &str, value: &str) {
    if let Err(error) = api::set_option(name.as_bytes(), value.as_bytes()) {
        fail!("{name}={value}: {error}");
    }
}

/// A list of objects with known contents, for a case to see that nothing was lost.
struct List {
    first: *mut [usize; 4],
    length: usize,
}

impl List {
    fn new(length: usize) -> Self {
        let mut list = Self { first: core::ptr::null_mut(), length: 0 };
        while list.length < length {
            ensure!(list.push(), "no memory for a list of {length} objects");
        }
        list
    }

    /// Adds an object; false if memory is refused.
    fn push(&mut self) -> bool {
        let object = api::allocate(32, Kind::Conservative).cast::<[usize; 4]>();
        if object.is_null() {
            return false;
        }
        let id = self.length as u64;
        // SAFETY: a fresh object of four words.
        unsafe { object.write([self.first as usize, pattern(1, id, 1), pattern(1, id, 2), 0]) };
        self.first = object;
        self.length += 1;
        true
    }

    /// Fails unless every object is there.
    fn check(&self) {
        let mut at = self.first;
        for id in (0..self.length as u64).rev() {
            ensure!(
                api::object_at(at as usize).is_some_and(|info| info.start.as_ptr().cast() == at),
                "lost: object {id} of the list"
            );
            // SAFETY: an object of the list.
            let [next, first, second, zero] = unsafe { at.read() };
            ensure!(
                [first, second, zero] == [pattern(1, id, 1), pattern(1, id, 2), 0],
                "stale contents: object {id} of the list"
            );
            at = next as *mut [usize; 4];
        }
        ensure!(at.is_null(), "the list does not end");
    }
}

/// Allocates objects of `bytes` bytes, each keeping the last, until memory is refused, `most` at
/// most; how many there were.
#[inline(never)]
fn fill(bytes: usize, most: usize) -> usize {
    let mut last = core::ptr::null_mut::<usize>();
    for count in 0..most {
        let object = api::allocate(bytes, Kind::Conservative).cast::<usize>();
        if object.is_null() {
            return count;
        }
        // SAFETY: a fresh object of at least a word.
        unsafe { object.write(last as usize) };
        last = object;
    }
    core::hint::black_box(last);
    most
}
