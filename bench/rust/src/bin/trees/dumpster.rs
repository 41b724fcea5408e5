//! binary-trees on the crate dumpster, its collector of one thread.

use dumpster::Trace;
use dumpster::unsync::Gc;

use neap_bench_rust::trees::{Trees, run};

#[derive(Trace)]
struct Node(Option<(Gc<Node>, Gc<Node>)>);

struct Counted;

impl Trees for Counted {
    type Tree = Gc<Node>;

    fn build(&self, depth: u32) -> Gc<Node> {
        Gc::new(Node(match depth {
            0 => None,
            _ => Some((self.build(depth - 1), self.build(depth - 1))),
        }))
    }

    fn count(&self, tree: &Gc<Node>) -> u64 {
        match &tree.0 {
            None => 1,
            Some((left, right)) => 1 + self.count(left) + self.count(right),
        }
    }
}

fn main() {
    run(&Counted).print(None);
}
