//! The graph on the crate dumpster, its collector of one thread. It counts references, and looks
//! for cycles by recursion.

use std::cell::RefCell;

use dumpster::Trace;
use dumpster::unsync::Gc;
use neap_bench_rust::graph::{Node, SIDES, Table, run};
use neap_bench_rust::on_a_large_stack;

#[derive(Trace)]
struct Inner {
    number: u64,
    sides: RefCell<[Option<Own>; SIDES]>,
}

#[derive(Clone, Trace)]
struct Own(Gc<Inner>);

impl Node for Own {
    fn new(number: u64) -> Self {
        Self(Gc::new(Inner { number, sides: Default::default() }))
    }

    fn number(&self) -> u64 {
        self.0.number
    }

    fn link(&self, side: usize, to: &Self) {
        let old = self.0.sides.borrow_mut()[side].replace(to.clone());
        drop(old);
    }

    fn there_and_back(&self, side: usize) -> [u64; 2] {
        let sides = self.0.sides.borrow();
        let there = sides[side].as_ref().expect("it was linked");
        let back = there.0.sides.borrow()[side ^ 1].as_ref().expect("it was linked").0.number;
        [there.0.number, back]
    }
}

fn main() {
    on_a_large_stack(|| run::<Table<Own>>().print(None));
}
