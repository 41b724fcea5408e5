//! A type that says it leads to no object, and does.
use neap::{Gc, Trace};

#[derive(Trace)]
#[trace(no_gc)]
struct Tree {
    children: Vec<Tree>,
    value: Gc<u8>,
}

fn main() {}
