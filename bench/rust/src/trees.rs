//! binary-trees as the well-known benchmark has it: one tree that stays while many are built,
//! walked and dropped.
//!
//! Invariant: every contestant builds as many nodes, and counts them; each tree is of one thread.

use std::time::Instant;

use crate::{Outcome, argument};

/// Makes and walks trees in some way of managing memory.
pub trait Trees: Sync {
    /// A whole tree.
    type Tree;
    /// Builds one so deep.
    fn build(&self, depth: u32) -> Self::Tree;
    /// Counts its nodes.
    fn count(&self, tree: &Self::Tree) -> u64;
}

/// How many trees of a depth are built where the deepest has another.
pub fn trees_of(depth: u32, deepest: u32) -> usize {
    1 << (deepest - depth + 4)
}

/// The depths at which trees are built.
pub fn depths(deepest: u32) -> impl Iterator<Item = u32> {
    (4..=deepest).step_by(4)
}

/// The deepest tree, the first argument (16), and the number of threads, the second (1).
pub fn arguments() -> (u32, usize) {
    (argument(1, 16) as u32, argument(2, 1))
}

/// Sums up what threads count that share the trees of each depth among them.
pub fn shared(depth: u32, threads: usize, count: impl Fn(u32, usize) -> u64 + Sync) -> u64 {
    depths(depth)
        .map(|now| {
            let each = trees_of(now, depth) / threads;
            std::thread::scope(|scope| {
                let count = &count;
                let others: Vec<_> =
                    (1..threads).map(|_| scope.spawn(move || count(now, each))).collect();
                let own = count(now, each);
                let joined = others.into_iter().map(|other| other.join().expect("no panic"));
                own + joined.sum::<u64>()
            })
        })
        .sum()
}

/// Runs the work.
pub fn run(trees: &impl Trees) -> Outcome {
    let (depth, threads) = arguments();
    let began = Instant::now();
    let long_lived = trees.build(depth);
    let mut check = shared(depth, threads, |depth, times| {
        (0..times).map(|_| trees.count(&trees.build(depth))).sum()
    });
    check += trees.count(&long_lived);
    Outcome { check, time: began.elapsed(), longest: None }
}
