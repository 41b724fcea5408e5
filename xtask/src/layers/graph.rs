//! Circles in a graph, by Tarjan's algorithm.
//!
//! Invariant: two nodes are in one circle if and only if each can be reached from the other; a node
//! alone is none. Pure. Called by `circles`.

use std::collections::{BTreeMap, BTreeSet};

/// What each node leads to.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// The circles of the graph: the nodes of each in sorted order, the circles by their first node.
pub fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let mut search =
        Search { graph, numbers: BTreeMap::new(), open: Vec::new(), found: Vec::new() };
    for node in graph.keys() {
        if !search.numbers.contains_key(node.as_str()) {
            search.visit(node);
        }
    }
    search.found.retain(|circle| circle.len() > 1);
    search.found.sort();
    search.found
}

struct Search<'a> {
    graph: &'a Graph,
    /// In the order of first visits.
    numbers: BTreeMap<&'a str, usize>,
    /// Visited, and not yet known to be in a circle or in none.
    open: Vec<&'a str>,
    found: Vec<BTreeSet<String>>,
}

impl<'a> Search<'a> {
    /// Visits a node and what it leads to; the lowest number of an open node that it reaches.
    fn visit(&mut self, node: &'a str) -> usize {
        let own = self.numbers.len();
        self.numbers.insert(node, own);
        self.open.push(node);
        let mut lowest = own;
        for next in self.graph.get(node).into_iter().flatten() {
            match self.numbers.get(next.as_str()) {
                None => lowest = lowest.min(self.visit(next)),
                Some(&number) if self.open.contains(&next.as_str()) => lowest = lowest.min(number),
                Some(_) => {}
            }
        }
        if lowest == own {
            let begin = self.open.iter().position(|open| *open == node).unwrap_or_default();
            self.found.push(self.open.drain(begin..).map(str::to_owned).collect());
        }
        lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(&str, &str)]) -> Vec<String> {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).into()).or_default().insert((*to).into());
        }
        circles(&graph).into_iter().map(|circle| Vec::from_iter(circle).join(" ")).collect()
    }

    #[test]
    fn circles_by_table() {
        assert_eq!(found(&[("a", "b"), ("b", "c"), ("a", "c")]), [""; 0]);
        assert_eq!(found(&[("a", "a")]), [""; 0]);
        assert_eq!(found(&[("a", "b"), ("b", "a")]), ["a b"]);
        assert_eq!(found(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]), ["b c"]);
        assert_eq!(
            found(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "b")]),
            ["a b c d"]
        );
        let two = [("x", "y"), ("y", "x"), ("y", "a"), ("a", "b"), ("b", "a")];
        assert_eq!(found(&two), ["a b", "x y"]);
    }
}
