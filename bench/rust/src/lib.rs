//! What the contestants share: the work, and the line that each prints.
//!
//! `binary-trees` as the well-known benchmark has it: one tree that stays while many are built,
//! walked and dropped. Invariant: every contestant builds as many nodes, and counts them.

use std::time::Instant;

/// Makes and walks trees in some way of managing memory.
pub trait Trees {
    /// A whole tree.
    type Tree;
    /// Builds one so deep.
    fn build(&self, depth: u32) -> Self::Tree;
    /// Counts its nodes.
    fn count(&self, tree: &Self::Tree) -> u64;
}

/// Runs the work, to the depth that the first argument says (16), and prints nodes and seconds.
pub fn run(trees: &impl Trees) {
    let depth = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(16);
    let began = Instant::now();
    let long_lived = trees.build(depth);
    let mut nodes = 0;
    for depth_now in (4..=depth).step_by(4) {
        for _ in 0..1 << (depth - depth_now + 4) {
            nodes += trees.count(&trees.build(depth_now));
        }
    }
    nodes += trees.count(&long_lived);
    println!("{nodes} {:.3}", began.elapsed().as_secs_f64());
}
