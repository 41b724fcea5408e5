//! binary-trees on `Rc`, with the system's malloc.

use std::rc::Rc;

use neap_bench_rust::trees::{Trees, run};

struct Node(Option<(Rc<Node>, Rc<Node>)>);

struct Counted;

impl Trees for Counted {
    type Tree = Rc<Node>;

    fn build(&self, depth: u32) -> Rc<Node> {
        Rc::new(Node(match depth {
            0 => None,
            _ => Some((self.build(depth - 1), self.build(depth - 1))),
        }))
    }

    fn count(&self, tree: &Rc<Node>) -> u64 {
        match &tree.0 {
            None => 1,
            Some((left, right)) => 1 + self.count(left) + self.count(right),
        }
    }
}

fn main() {
    run(&Counted).print(None);
}
