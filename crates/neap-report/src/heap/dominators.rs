//! Dominators: an object dominates another if every path from the root to the other goes through
//! it, so that the other dies with it.
//!
//! After Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001): the nodes in
//! reverse postorder, each with the common dominator of its predecessors, until nothing changes.
//! Invariant: no recursion, so that long lists take no stack. Pure.

use super::graph::Graph;

/// No node: what nothing reaches has no dominator.
pub const NONE: u32 = u32::MAX;

/// For each node its immediate dominator, node 0 being the root and its own; and all nodes that
/// node 0 reaches, each after its dominator.
pub fn dominators(graph: &Graph) -> (Vec<u32>, Vec<u32>) {
    let order = reverse_postorder(graph);
    let mut place = vec![NONE; graph.nodes()];
    for (index, node) in order.iter().enumerate() {
        place[*node as usize] = index as u32;
    }
    // From here on nodes are called by their place in the order.
    let predecessors = predecessors(graph, &order, &place);
    let mut dominator = vec![NONE; order.len()];
    if let Some(root) = dominator.first_mut() {
        *root = 0;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for node in 1..order.len() {
            let mut found = NONE;
            for before in predecessors.of(node) {
                if dominator[*before as usize] != NONE {
                    found = match found {
                        NONE => *before,
                        found => common(&dominator, found, *before),
                    };
                }
            }
            changed |= dominator[node] != found;
            dominator[node] = found;
        }
    }
    let mut all = vec![NONE; graph.nodes()];
    for (index, node) in order.iter().enumerate() {
        all[*node as usize] = order[dominator[index] as usize];
    }
    (all, order)
}

/// What dominates both.
fn common(dominator: &[u32], mut one: u32, mut other: u32) -> u32 {
    while one != other {
        while one > other {
            one = dominator[one as usize];
        }
        while other > one {
            other = dominator[other as usize];
        }
    }
    one
}

fn reverse_postorder(graph: &Graph) -> Vec<u32> {
    let mut order = Vec::new();
    let mut seen = vec![false; graph.nodes()];
    // A node, and how many of its edges were followed.
    let mut path: Vec<(u32, usize)> = Vec::new();
    if let Some(root) = seen.first_mut() {
        *root = true;
        path.push((0, 0));
    }
    while let Some((node, followed)) = path.last_mut() {
        match graph.edges_of(*node).get(*followed) {
            Some(edge) => {
                *followed += 1;
                if !std::mem::replace(&mut seen[edge.to as usize], true) {
                    path.push((edge.to, 0));
                }
            }
            None => {
                order.push(*node);
                path.pop();
            }
        }
    }
    order.reverse();
    order
}

struct Predecessors {
    first: Vec<u32>,
    all: Vec<u32>,
}

impl Predecessors {
    fn of(&self, node: usize) -> &[u32] {
        &self.all[self.first[node] as usize..self.first[node + 1] as usize]
    }
}

fn predecessors(graph: &Graph, order: &[u32], place: &[u32]) -> Predecessors {
    let mut first = vec![0_u32; order.len() + 1];
    for node in order {
        for edge in graph.edges_of(*node) {
            first[place[edge.to as usize] as usize + 1] += 1;
        }
    }
    for index in 1..first.len() {
        first[index] += first[index - 1];
    }
    let mut next = first.clone();
    let mut all = vec![0; first.last().map_or(0, |end| *end as usize)];
    for (index, node) in order.iter().enumerate() {
        for edge in graph.edges_of(*node) {
            let at = &mut next[place[edge.to as usize] as usize];
            all[*at as usize] = index as u32;
            *at += 1;
        }
    }
    Predecessors { first, all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::graph::tests::of_edges;

    /// By the definition: what is not reached without `without`.
    fn reached(graph: &Graph, without: u32) -> Vec<bool> {
        let mut seen = vec![false; graph.nodes()];
        let mut waiting = if without == 0 { vec![] } else { vec![0] };
        while let Some(node) = waiting.pop() {
            if node != without && !std::mem::replace(&mut seen[node as usize], true) {
                waiting.extend(graph.edges_of(node).iter().map(|edge| edge.to));
            }
        }
        seen
    }

    fn naive(graph: &Graph) -> Vec<u32> {
        let all = reached(graph, NONE);
        let nodes = graph.nodes() as u32;
        let lost: Vec<_> = (0..nodes).map(|node| reached(graph, node)).collect();
        let dominates = |one: u32, other: u32| !lost[one as usize][other as usize];
        let immediate = |node: u32| {
            if node == 0 || !all[node as usize] {
                return if node == 0 { 0 } else { NONE };
            }
            let mut strict = (0..nodes)
                .filter(|one| all[*one as usize] && *one != node && dominates(*one, node))
                .collect::<Vec<_>>();
            // The one that all others dominate.
            strict.sort_by_key(|one| {
                (0..nodes).filter(|by| all[*by as usize] && dominates(*by, *one)).count()
            });
            *strict.last().unwrap()
        };
        (0..nodes).map(immediate).collect()
    }

    #[test]
    fn random_graphs_agree_with_the_definition() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as u32 % below
        };
        for _ in 0..500 {
            let nodes = 1 + random(24);
            let edges = random(nodes * 3 + 1);
            let edges: Vec<_> = (0..edges).map(|_| (random(nodes), random(nodes))).collect();
            let graph = of_edges(nodes as usize, &edges);
            let (found, order) = dominators(&graph);
            assert_eq!(found, naive(&graph), "{edges:?}");
            let place = |node| order.iter().position(|other| *other == node);
            for node in order.iter().filter(|node| **node != 0) {
                assert!(place(found[*node as usize]) < place(*node));
            }
        }
    }

    #[test]
    fn a_long_list_takes_no_stack() {
        let edges: Vec<_> = (0..1_000_000).map(|node| (node, node + 1)).collect();
        let (found, _) = dominators(&of_edges(1_000_001, &edges));
        assert_eq!(found[1_000_000], 999_999);
    }
}
