//! A graph store: nodes with edges both ways, on cycles, of which a part is replaced all the time.
//!
//! `graph [NODES [EDGES [ROUNDS]]]`: so many nodes with so many edges each (100,000, 10 and 5), of
//! which a tenth is replaced in each round. Invariant: an edge and its way back are there together.

use std::cell::RefCell;
use std::time::Instant;

use neap::{Gc, Trace};

#[derive(Trace)]
struct Node {
    number: usize,
    to: RefCell<neap::Vec<Gc<Node>>>,
    from: RefCell<neap::Vec<Gc<Node>>>,
}

fn link(from: Gc<Node>, to: Gc<Node>) {
    from.to.borrow_mut().push(to);
    to.from.borrow_mut().push(from);
}

/// Takes a node out of the graph: nothing in it leads there any more.
fn unlink(node: Gc<Node>) {
    for to in node.to.borrow().iter().filter(|to| !Gc::ptr_eq(**to, node)) {
        to.from.borrow_mut().retain(|back| !Gc::ptr_eq(*back, node));
    }
    for from in node.from.borrow().iter().filter(|from| !Gc::ptr_eq(**from, node)) {
        from.to.borrow_mut().retain(|forth| !Gc::ptr_eq(*forth, node));
    }
}

struct Graph {
    nodes: Vec<Gc<Node>>,
    edges: usize,
    seed: usize,
}

impl Graph {
    fn random(&mut self) -> usize {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 33) % self.nodes.len()
    }

    fn add_edges(&mut self, node: Gc<Node>) {
        for _ in 0..self.edges {
            let other = self.random();
            link(node, self.nodes[other]);
        }
    }
}

fn node(number: usize) -> Gc<Node> {
    Gc::new(Node { number, to: RefCell::default(), from: RefCell::default() })
}

fn argument(index: usize, default: usize) -> usize {
    std::env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let (count, edges, rounds) = (argument(1, 100_000), argument(2, 10), argument(3, 5));
    let began = Instant::now();
    let mut graph = Graph { nodes: (0..count).map(node).collect(), edges, seed: 1 };
    for index in 0..count {
        graph.add_edges(graph.nodes[index]);
    }
    for _ in 0..rounds {
        for _ in 0..count / 10 {
            let index = graph.random();
            unlink(graph.nodes[index]);
            graph.nodes[index] = node(index);
            graph.add_edges(graph.nodes[index]);
        }
    }
    let mut forth = 0;
    for (index, node) in graph.nodes.iter().enumerate() {
        assert_eq!(node.number, index);
        for to in node.to.borrow().iter() {
            assert!(Gc::ptr_eq(graph.nodes[to.number], *to), "an edge leads out of the graph");
            forth += 1;
        }
    }
    let back: usize = graph.nodes.iter().map(|node| node.from.borrow().len()).sum();
    println!("nodes: {}, as many edges forth as back: {}", graph.nodes.len(), forth == back);
    let statistics = neap::statistics();
    eprintln!(
        "{forth} edges, {:?}, {} cycles, longest stop {:?}",
        began.elapsed(),
        statistics.cycles,
        statistics.longest_stop
    );
}
