//! A graph with cycles of which a part is replaced all the time: a torus, whose nodes point to
//! their four neighbours, and are pointed to by them.
//!
//! Two neighbours are replaced at a time. The old ones point to each other, so counting references
//! frees neither, and to nodes that stay. Invariant: neighbours point to each other, which `check`
//! looks at. Called by the programs of `bin/graph`.

use std::time::{Duration, Instant};

use crate::{Longest, Outcome, Random, argument};

/// Left, right, up, down: the opposite of a side is `side ^ 1`.
pub const SIDES: usize = 4;

/// Where nodes are.
#[derive(Clone, Copy)]
pub struct Torus {
    width: usize,
    height: usize,
}

impl Torus {
    /// One of about so many nodes.
    fn new(nodes: usize) -> Self {
        let width = nodes.isqrt().max(3);
        Self { width, height: (nodes / width).max(3) }
    }

    /// How many there are.
    pub fn nodes(self) -> usize {
        self.width * self.height
    }

    /// What is on a side of a node.
    pub fn neighbour(self, index: usize, side: usize) -> usize {
        let (row, column) = (index / self.width, index % self.width);
        let (row, column) = match side {
            0 => (row, (column + self.width - 1) % self.width),
            1 => (row, (column + 1) % self.width),
            2 => ((row + self.height - 1) % self.height, column),
            _ => ((row + 1) % self.height, column),
        };
        row * self.width + column
    }
}

/// A graph in some way of managing memory.
pub trait Graph {
    /// Has a node at each index, of that number, with its neighbours.
    fn build(torus: Torus) -> Self;
    /// Puts new ones in the place of two neighbours, and links them with those around.
    fn replace(&mut self, torus: Torus, places: [usize; 2], numbers: [u64; 2]);
    /// A sum over the nodes' numbers, each as often as its index says; ends the process if
    /// neighbours do not point to each other.
    fn check(&mut self, torus: Torus) -> u64;
    /// A tenth of the graph has been replaced.
    fn end_of_round(&mut self) {}
}

/// Nodes that can be held anywhere, for a [`Table`].
pub trait Node: Clone {
    /// One without neighbours.
    fn new(number: u64) -> Self;
    /// Its number.
    fn number(&self) -> u64;
    /// Points to a neighbour from now on.
    fn link(&self, side: usize, to: &Self);
    /// The number of a neighbour, and that of the neighbour's neighbour on the opposite side.
    fn there_and_back(&self, side: usize) -> [u64; 2];
    /// A tenth of the graph has been replaced.
    fn end_of_round() {}
}

/// A graph of such nodes: what keeps them is a vector.
pub struct Table<N>(Vec<N>);

impl<N: Node> Graph for Table<N> {
    fn build(torus: Torus) -> Self {
        let table: Vec<N> = (0..torus.nodes()).map(|index| N::new(index as u64)).collect();
        for (index, node) in table.iter().enumerate() {
            (0..SIDES).for_each(|side| node.link(side, &table[torus.neighbour(index, side)]));
        }
        Self(table)
    }

    fn replace(&mut self, torus: Torus, places: [usize; 2], numbers: [u64; 2]) {
        let new = numbers.map(N::new);
        for (index, node) in places.iter().zip(&new) {
            for side in 0..SIDES {
                let other = torus.neighbour(*index, side);
                match places.iter().position(|place| *place == other) {
                    Some(place) => node.link(side, &new[place]),
                    None => {
                        node.link(side, &self.0[other]);
                        self.0[other].link(side ^ 1, node);
                    }
                }
            }
        }
        for (index, node) in places.into_iter().zip(new) {
            self.0[index] = node;
        }
    }

    fn check(&mut self, torus: Torus) -> u64 {
        let mut sum = 0_u64;
        for (index, node) in self.0.iter().enumerate() {
            sum = sum.wrapping_add(node.number().wrapping_mul(index as u64));
            for side in 0..SIDES {
                let there = self.0[torus.neighbour(index, side)].number();
                assert_eq!(node.there_and_back(side), [there, node.number()]);
            }
        }
        sum
    }

    fn end_of_round(&mut self) {
        N::end_of_round();
    }
}

/// Runs the work. Arguments: nodes (10,000,000), rounds (10), in each of which a tenth is replaced,
/// and 1 for rounds of a second each, where the rest of the second is slept.
pub fn run<G: Graph>() -> Outcome {
    let (torus, rounds, paced) =
        (Torus::new(argument(1, 10_000_000)), argument(2, 10), argument(3, 0));
    let began = Instant::now();
    let mut graph = G::build(torus);
    let (mut random, mut number) = (Random::new(1), torus.nodes() as u64);
    let pairs = torus.nodes() / 20;
    let replacing = Instant::now();
    let mut longest = Longest::begin();
    for round in 0..rounds {
        for pair in 0..pairs {
            let first = random.below(torus.nodes());
            let second = torus.neighbour(first, 1 + 2 * random.below(2));
            graph.replace(torus, [first, second], [number, number + 1]);
            number += 2;
            longest.end_of_one();
            if paced == 1 && pair % 64 == 0 {
                let due = round as f64 + pair as f64 / pairs as f64;
                let ahead = Duration::from_secs_f64(due).saturating_sub(replacing.elapsed());
                std::thread::sleep(ahead);
                longest.leave_out();
            }
        }
        graph.end_of_round();
        longest.end_of_one();
    }
    let check = graph.check(torus);
    let outcome = Outcome { check, time: began.elapsed(), longest: Some(longest.get()) };
    std::mem::forget(graph);
    outcome
}
