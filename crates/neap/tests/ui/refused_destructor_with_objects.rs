//! A destructor that could follow a `Gc` to an object that was dropped before.
use neap::{Gc, Trace};

#[derive(Trace)]
#[trace(drop)]
struct Node {
    next: Option<Gc<Node>>,
}

impl Drop for Node {
    fn drop(&mut self) {}
}

fn main() {}
