//! Dominators: an object dominates another if every path from the root to the other goes through
//! it, so that the other dies with it.
//!
//! After Lengauer and Tarjan, "A Fast Algorithm for Finding Dominators in a Flowgraph" (1979), with
//! path compression alone: for n nodes and m edges m log n steps, whatever their shape. Simpler
//! ones take n² for lists that are linked both ways.
//! Invariant: no recursion, so that long lists take no stack. Pure. Called by `heap`.

use super::graph::Graph;

/// No node: what nothing reaches has no dominator.
pub const NONE: u32 = u32::MAX;

/// For each node its immediate dominator, node 0 being the root and its own; and all nodes that
/// node 0 reaches, each after its dominator.
pub fn dominators(graph: &Graph) -> (Vec<u32>, Vec<u32>) {
    let Search { order, place, parent } = search(graph);
    // From here on nodes are called by their place in the order.
    let predecessors = predecessors(graph, &order, &place);
    let count = order.len();
    let mut forest = Forest::new(count);
    let mut dominator = vec![0; count];
    // Nodes by their semidominator, as lists: the first of each, and what follows a node.
    let (mut first, mut next) = (vec![NONE; count], vec![NONE; count]);
    for node in (1..count as u32).rev() {
        for before in predecessors.of(node as usize) {
            let best = forest.best(*before);
            let found = forest.semidominator[best as usize];
            let least = &mut forest.semidominator[node as usize];
            *least = found.min(*least);
        }
        let list = &mut first[forest.semidominator[node as usize] as usize];
        next[node as usize] = std::mem::replace(list, node);
        let above = parent[node as usize];
        forest.ancestor[node as usize] = above;
        let mut waiting = std::mem::replace(&mut first[above as usize], NONE);
        while waiting != NONE {
            let best = forest.best(waiting);
            // `best` is only a stand-in: it has the same dominator, which is known later.
            let is_above = forest.semidominator[best as usize] >= above;
            dominator[waiting as usize] = if is_above { above } else { best };
            waiting = next[waiting as usize];
        }
    }
    for node in 1..count {
        if dominator[node] != forest.semidominator[node] {
            dominator[node] = dominator[dominator[node] as usize];
        }
    }
    let mut all = vec![NONE; graph.nodes()];
    for (index, node) in order.iter().enumerate() {
        all[*node as usize] = order[dominator[index] as usize];
    }
    (all, order)
}

/// The nodes that were looked at so far, as trees within that of the search.
struct Forest {
    /// The first node from which a path leads to this one through later ones alone; at first the
    /// node itself.
    semidominator: Vec<u32>,
    /// A node further up in the same tree; NONE for a tree's root.
    ancestor: Vec<u32>,
    /// The node with the least semidominator from here to below `ancestor`.
    least: Vec<u32>,
    /// The path that is being shortened, kept for its memory.
    path: Vec<u32>,
}

impl Forest {
    fn new(count: usize) -> Self {
        let own: Vec<u32> = (0..count as u32).collect();
        let ancestor = vec![NONE; count];
        Self { semidominator: own.clone(), ancestor, least: own, path: Vec::new() }
    }

    /// The node with the least semidominator from `node` to below its tree's root; shortens the
    /// path.
    fn best(&mut self, node: u32) -> u32 {
        let (mut at, mut above) = (node, self.ancestor[node as usize]);
        while above != NONE && self.ancestor[above as usize] != NONE {
            self.path.push(at);
            (at, above) = (above, self.ancestor[above as usize]);
        }
        while let Some(node) = self.path.pop() {
            let above = self.ancestor[node as usize] as usize;
            let [there, here] = [above, node as usize].map(|node| self.least[node]);
            let [further, nearer] = [there, here].map(|node| self.semidominator[node as usize]);
            if further < nearer {
                self.least[node as usize] = there;
            }
            self.ancestor[node as usize] = self.ancestor[above];
        }
        self.least[node as usize]
    }
}

/// What a search in depth finds.
struct Search {
    /// The nodes, each before those that were found from it.
    order: Vec<u32>,
    /// Where a node is in the order.
    place: Vec<u32>,
    /// From which place a place's node was found.
    parent: Vec<u32>,
}

fn search(graph: &Graph) -> Search {
    let mut found =
        Search { order: Vec::new(), place: vec![NONE; graph.nodes()], parent: Vec::new() };
    // A node, and how many of its edges were followed.
    let mut path: Vec<(u32, usize)> = Vec::new();
    if graph.nodes() > 0 {
        path.push((found.add(0, 0), 0));
    }
    while let Some((at, followed)) = path.last_mut() {
        match graph.edges_of(found.order[*at as usize]).get(*followed) {
            Some(edge) => {
                *followed += 1;
                if found.place[edge.to as usize] == NONE {
                    let to = found.add(edge.to, *at);
                    path.push((to, 0));
                }
            }
            None => drop(path.pop()),
        }
    }
    found
}

impl Search {
    /// Notes a node, and gives its place.
    fn add(&mut self, node: u32, parent: u32) -> u32 {
        let place = self.order.len() as u32;
        self.order.push(node);
        self.place[node as usize] = place;
        self.parent.push(parent);
        place
    }
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

    /// The bound is one that what takes a step for every pair of nodes misses by minutes.
    #[test]
    fn no_shape_takes_time_for_every_pair_of_nodes() {
        const MANY: u32 = 300_000;
        // Linked both ways, and reached from both ends.
        let list = (1..MANY).flat_map(|node| [(node, node + 1), (node + 1, node)]);
        let list: Vec<_> = [(0, 1), (0, MANY)].into_iter().chain(list).collect();
        // A chain whose end leads to everything that the root leads to, too.
        let chain = (0..MANY / 2).map(|node| (node, node + 1));
        let ends = (MANY / 2 + 1..=MANY).flat_map(|node| [(MANY / 2, node), (0, node)]);
        let fan: Vec<_> = chain.chain(ends).collect();
        let began = std::time::Instant::now();
        let (found, _) = dominators(&of_edges(MANY as usize + 1, &list));
        assert!(found.iter().all(|node| *node == 0));
        let (found, _) = dominators(&of_edges(MANY as usize + 1, &fan));
        assert!(found[MANY as usize / 2 + 1..].iter().all(|node| *node == 0));
        assert_eq!(found[MANY as usize / 2], MANY / 2 - 1);
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }
}
