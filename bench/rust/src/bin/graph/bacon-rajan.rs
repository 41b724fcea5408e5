//! The graph on the crate bacon_rajan_cc. It counts references, and looks for cycles when it is
//! asked to, by recursion: after each round.

use std::cell::RefCell;

use bacon_rajan_cc::{Cc, Trace, Tracer, collect_cycles};
use neap_bench_rust::graph::{Node, SIDES, Table, run};
use neap_bench_rust::on_a_large_stack;

struct Inner {
    number: u64,
    sides: RefCell<[Option<Own>; SIDES]>,
}

#[derive(Clone)]
struct Own(Cc<Inner>);

impl Trace for Inner {
    fn trace(&self, tracer: &mut Tracer) {
        self.sides.borrow().iter().flatten().for_each(|side| side.0.trace(tracer));
    }
}

impl Node for Own {
    fn new(number: u64) -> Self {
        Self(Cc::new(Inner { number, sides: Default::default() }))
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

    fn end_of_round() {
        collect_cycles();
    }
}

fn main() {
    on_a_large_stack(|| run::<Table<Own>>().print(None));
}
