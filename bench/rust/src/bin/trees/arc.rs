//! binary-trees on `Arc`, with the system's malloc.

use std::sync::Arc;

use neap_bench_rust::trees::{Trees, run};

struct Node(Option<(Arc<Node>, Arc<Node>)>);

struct Counted;

impl Trees for Counted {
    type Tree = Arc<Node>;

    fn build(&self, depth: u32) -> Arc<Node> {
        Arc::new(Node(match depth {
            0 => None,
            _ => Some((self.build(depth - 1), self.build(depth - 1))),
        }))
    }

    fn count(&self, tree: &Arc<Node>) -> u64 {
        match &tree.0 {
            None => 1,
            Some((left, right)) => 1 + self.count(left) + self.count(right),
        }
    }
}

fn main() {
    run(&Counted).print(None);
}
