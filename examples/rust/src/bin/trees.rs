//! Builds trees and drops them, beside one that stays and knows its parents: the program of the
//! tutorial for Rust. Invariant: a child's parent is the node that has it as a child.

use std::cell::Cell;

use neap::{Gc, Trace, Weak};

#[derive(Trace)]
struct Tree {
    parent: Cell<Option<Gc<Tree>>>,
    children: Option<[Gc<Tree>; 2]>,
}

fn build(depth: usize) -> Gc<Tree> {
    let children = (depth > 0).then(|| [build(depth - 1), build(depth - 1)]);
    let tree = Gc::new(Tree { parent: Cell::new(None), children });
    for child in children.iter().flatten() {
        child.parent.set(Some(tree)); // pointers both ways, and nothing to take care of
    }
    tree
}

fn count(tree: Gc<Tree>) -> usize {
    1 + tree.children.iter().flatten().map(|child| count(*child)).sum::<usize>()
}

/// Not inlined: nothing of the tree is left on the stack.
#[inline(never)]
fn dropped(depth: usize) -> Weak<Tree> {
    Gc::downgrade(build(depth))
}

fn main() {
    let kept = build(16);
    let nodes: usize = (0..2000).map(|_| count(build(10))).sum();
    println!("{nodes} nodes came and went, {} are kept", count(kept));

    let weak: Vec<Weak<Tree>> = (0..100).map(|_| dropped(4)).collect();
    neap::collect(); // only to see now what else happens in its own time
    let gone = weak.iter().filter(|tree| tree.upgrade().is_none()).count();
    println!("most of the last ones are gone: {}", gone > 90);

    let child = kept.children.unwrap()[0];
    println!("a child knows its parent: {}", child.parent.get().is_some());
}
