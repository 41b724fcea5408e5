//! The graph on Neap.

use std::cell::Cell;

use neap::{Gc, Trace};
use neap_bench_rust::graph::{Node, SIDES, Table, run};

#[derive(Trace)]
struct Inner {
    number: u64,
    sides: [Cell<Option<Own>>; SIDES],
}

#[derive(Clone, Copy, Trace)]
struct Own(Gc<Inner>);

impl Own {
    fn neighbour(self, side: usize) -> Own {
        self.0.sides[side].get().expect("it was linked")
    }
}

impl Node for Own {
    fn new(number: u64) -> Self {
        Self(Gc::new(Inner { number, sides: Default::default() }))
    }

    fn number(&self) -> u64 {
        self.0.number
    }

    fn link(&self, side: usize, to: &Self) {
        self.0.sides[side].set(Some(*to));
    }

    fn there_and_back(&self, side: usize) -> [u64; 2] {
        let there = self.neighbour(side);
        [there.0.number, there.neighbour(side ^ 1).0.number]
    }
}

fn main() {
    run::<Table<Own>>().print(Some(neap::statistics().longest_stop));
}
