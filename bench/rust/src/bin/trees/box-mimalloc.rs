//! binary-trees on `Box`, with mimalloc.

#[global_allocator]
static MIMALLOC: mimalloc::MiMalloc = mimalloc::MiMalloc;

use neap_bench_rust::trees::{Trees, run};

struct Node(Option<(Box<Node>, Box<Node>)>);

struct Counted;

impl Trees for Counted {
    type Tree = Box<Node>;

    fn build(&self, depth: u32) -> Box<Node> {
        Box::new(Node(match depth {
            0 => None,
            _ => Some((self.build(depth - 1), self.build(depth - 1))),
        }))
    }

    fn count(&self, tree: &Box<Node>) -> u64 {
        match &tree.0 {
            None => 1,
            Some((left, right)) => 1 + self.count(left) + self.count(right),
        }
    }
}

fn main() {
    run(&Counted).print(None);
}
