//! A destructor that was not asked for.
use neap::{Gc, Trace};

#[derive(Trace)]
struct Node {
    next: Option<Gc<Node>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        println!("{}", self.next.is_some());
    }
}

fn main() {}
