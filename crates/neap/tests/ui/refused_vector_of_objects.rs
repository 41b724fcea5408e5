//! The vector's memory is not collected: a cycle through it would never die.
use neap::{Gc, Trace};

#[derive(Trace)]
struct Node {
    children: Vec<Gc<Node>>,
}

fn main() {
    Gc::new(Node { children: Vec::new() });
}
