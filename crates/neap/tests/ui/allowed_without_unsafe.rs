//! What the crate's macros write for a program that forbids unsafe code in it.
#![forbid(unsafe_code)]
#![deny(warnings)]

use neap::{Gc, Trace, unsize};

#[derive(Trace)]
struct Node<T> {
    name: String,
    next: Option<Gc<Node<T>>>,
    values: Vec<u8>,
    value: T,
}

#[derive(Trace)]
enum Either {
    Text(String),
    Node(Gc<Node<u8>>),
}

#[derive(Trace)]
#[trace(no_gc)]
struct Tree(Vec<Tree>);

#[derive(Trace)]
#[trace(drop)]
struct File(String);
impl Drop for File {
    fn drop(&mut self) {
        self.0.clear();
    }
}

fn main() {
    let node = Node { name: String::new(), next: None, values: Vec::new(), value: 1 };
    let node = Gc::new(Either::Node(Gc::new(node)));
    if let Either::Node(node) = &*node {
        assert!(node.name.is_empty() && node.next.is_none() && node.values.is_empty());
        assert_eq!(unsize!(*node => dyn std::any::Any).is::<Node<u8>>(), node.value == 1);
    }
    if let Either::Text(text) = &*Gc::new(Either::Text(String::new())) {
        assert!(text.is_empty());
    }
    assert!(Gc::new(Tree(Vec::new())).0.is_empty());
    assert!(Gc::new(File(String::new())).0.is_empty());
}
