//! What a heap snapshot says: what there is, what keeps it alive, what would go with it.
//!
//! Invariant: what the snapshot reaches from its root is counted, each object once; by allocation
//! site it is estimated from those that were sampled, as all tools do. Names of functions and
//! variables come from whoever calls. Pure. Called by `neap heap`.

pub mod dominators;
pub mod graph;
pub mod text;

use crate::sites::{Frame, Stacks, Symbolise, estimate};
use dominators::NONE;
use graph::{Graph, Sampled};
use neap_record::Recording;
use neap_record::chunks::Samples;
use neap_record::decode::Module;
use std::collections::{BTreeMap, VecDeque};

/// Functions that name a site in tables.
const SITE_FRAMES: usize = 4;

/// Finds the variable at an address of a module's file.
pub type NameVariable<'s> = dyn FnMut(&Module, u64) -> Option<String> + 's;

/// A graph, and what follows from it.
pub struct Analysis {
    /// The graph.
    pub graph: Graph,
    /// Nodes that the root reaches, each after its dominator.
    order: Vec<u32>,
    dominator: Vec<u32>,
    /// For each node the bytes that would go with it, its own among them.
    retained: Vec<u64>,
    /// For each node the one before it on a shortest path from the root, and where that points to
    /// it.
    before: Vec<(u32, u64)>,
    /// For each sampled node what it is called by its site.
    sites: BTreeMap<u32, String>,
}

/// Objects of one name or site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// How many; of a site as many as there are about.
    pub objects: u64,
    /// Their own bytes; of a site those asked for, about.
    pub bytes: u64,
    /// Those that were found: of a site the sampled ones.
    pub found: u64,
    /// What would go with those that were found, if each went alone: bytes that two of the group
    /// hold together are not in it.
    pub retained: u64,
}

/// How tables put objects together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By layout, or kind and size.
    Name,
    /// By allocation site, where it is known, so many as there are about.
    Site,
    /// By allocation site, only those that were sampled.
    Sampled,
}

impl Analysis {
    /// Works everything out.
    pub fn new(graph: Graph, symbolise: &mut Symbolise<'_>) -> Analysis {
        let (dominator, order) = dominators::dominators(&graph);
        let mut retained: Vec<u64> =
            (0..graph.nodes() as u32).map(|node| graph.node(node).bytes).collect();
        for node in order.iter().rev().filter(|node| **node != 0) {
            retained[dominator[*node as usize] as usize] += retained[*node as usize];
        }
        let before = shortest(&graph);
        let sites = sites(&graph, symbolise);
        Analysis { graph, order, dominator, retained, before, sites }
    }

    /// The objects that the root reaches.
    pub fn objects(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.iter().copied().filter(|node| !self.graph.is_root(*node))
    }

    /// Nodes of roots, but for the root of all.
    pub fn roots(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.iter().copied().filter(|node| *node != 0 && self.graph.is_root(*node))
    }

    /// Bytes that would go with a node.
    pub fn retained(&self, node: u32) -> u64 {
        self.retained[node as usize]
    }

    /// What has to go for a node to go; None for the root and for what it does not reach.
    pub fn dominator(&self, node: u32) -> Option<u32> {
        Some(self.dominator[node as usize]).filter(|of| node != 0 && *of != NONE)
    }

    /// The site of an object, if it was sampled.
    pub fn site(&self, node: u32) -> Option<&str> {
        self.sites.get(&node).map(String::as_str)
    }

    /// What an object is called in tables; no site is None.
    pub fn title(&self, node: u32, by: By) -> Option<&str> {
        match by {
            By::Name => Some(self.graph.name(node)),
            By::Site | By::Sampled => self.site(node),
        }
    }

    /// Objects put together, by title.
    pub fn groups(&self, by: By) -> BTreeMap<&str, Group> {
        let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
        // How many objects of a title the walk is within.
        let mut within: BTreeMap<&str, u64> = BTreeMap::new();
        let children = self.children();
        // Nodes that the walk is in, and how many of their children it has been to.
        let mut path = vec![(0, 0)];
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            let title = if self.graph.is_root(node) { None } else { self.title(node, by) };
            if *next == 0
                && let Some(title) = title
            {
                let group = groups.entry(title).or_default();
                let depth = within.entry(title).or_default();
                group.objects += 1;
                group.found += 1;
                group.bytes += self.graph.node(node).bytes;
                group.retained += if *depth == 0 { self.retained(node) } else { 0 };
                *depth += 1;
            }
            match children.of(node).get(*next) {
                Some(child) => {
                    *next += 1;
                    path.push((*child, 0));
                }
                None => {
                    if let Some(depth) = title.and_then(|title| within.get_mut(title)) {
                        *depth -= 1;
                    }
                    path.pop();
                }
            }
        }
        if by == By::Site {
            self.estimate(&mut groups);
        }
        groups
    }

    /// Has the sampled objects stand for all. Those of snapshots that do not say how they were
    /// chosen stand for themselves.
    fn estimate<'a>(&'a self, groups: &mut BTreeMap<&'a str, Group>) {
        if !self.is_estimated() {
            return;
        }
        let mut alike: BTreeMap<Sampled, (&str, Samples)> = BTreeMap::new();
        for node in self.objects() {
            if let (Some(sampled), Some(title)) = (self.graph.samples.get(&node), self.site(node)) {
                let (_, samples) = alike.entry(*sampled).or_insert((title, Samples::default()));
                samples.objects += 1;
                let asked = sampled.sizes.map_or(0, |[asked, _]| asked);
                samples.bytes = samples.bytes.saturating_add(asked);
            }
        }
        groups.values_mut().for_each(|group| (group.objects, group.bytes) = (0, 0));
        for (sampled, (title, samples)) in alike {
            let cell = sampled.sizes.map_or(0, |[_, cell]| cell);
            let [_, live] = estimate(&samples, cell, self.graph.sample_bytes);
            let group = groups.entry(title).or_default();
            group.objects = group.objects.saturating_add(live.objects);
            group.bytes = group.bytes.saturating_add(live.bytes);
        }
    }

    /// Whether sites can be estimated: snapshots of older versions do not say how objects were
    /// chosen.
    pub fn is_estimated(&self) -> bool {
        self.graph.sample_bytes > 0 && self.graph.samples.values().all(|of| of.sizes.is_some())
    }

    fn children(&self) -> Children {
        let mut first = vec![0_u32; self.graph.nodes() + 1];
        let dominated = || self.order.iter().filter(|node| **node != 0);
        for node in dominated() {
            first[self.dominator[*node as usize] as usize + 1] += 1;
        }
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        let mut next = first.clone();
        let mut all = vec![0; self.order.len()];
        for node in dominated() {
            let at = &mut next[self.dominator[*node as usize] as usize];
            all[*at as usize] = *node;
            *at += 1;
        }
        Children { first, all }
    }

    /// A shortest path from a node of roots to an object: each node, and where it points to the
    /// next one. None for what the root does not reach.
    pub fn path(&self, object: u32) -> Option<Vec<(u32, Option<u64>)>> {
        self.dominator(object)?;
        let mut path = vec![(object, None)];
        let mut node = object;
        loop {
            let (before, place) = self.before[node as usize];
            if before == 0 {
                break;
            }
            path.push((before, Some(place)));
            node = before;
        }
        path.reverse();
        Some(path)
    }

    /// The objects that would go with most bytes, the most first; only those of a title, if there
    /// is one.
    pub fn largest(&self, title: Option<&str>, most: usize) -> Vec<u32> {
        let is_wanted = |node: &u32| match title {
            None => true,
            Some(title) => {
                let names = [By::Name, By::Site].map(|by| self.title(*node, by));
                names.into_iter().flatten().any(|name| name.contains(title))
            }
        };
        let mut found: Vec<u32> = self.objects().filter(is_wanted).collect();
        found.sort_by_key(|node| (core::cmp::Reverse(self.retained(*node)), *node));
        found.truncate(most);
        found
    }
}

struct Children {
    first: Vec<u32>,
    all: Vec<u32>,
}

impl Children {
    fn of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.all[self.first[node] as usize..self.first[node + 1] as usize]
    }
}

fn shortest(graph: &Graph) -> Vec<(u32, u64)> {
    let mut before = vec![(NONE, 0); graph.nodes()];
    let mut waiting = VecDeque::from([0]);
    if let Some(root) = before.first_mut() {
        *root = (0, 0);
    }
    while let Some(node) = waiting.pop_front() {
        for edge in graph.edges_of(node) {
            let known = &mut before[edge.to as usize];
            if known.0 == NONE {
                *known = (node, edge.place);
                waiting.push_back(edge.to);
            }
        }
    }
    before
}

fn sites(graph: &Graph, symbolise: &mut Symbolise<'_>) -> BTreeMap<u32, String> {
    let recording = Recording {
        modules: graph.modules.clone(),
        sites: graph.sites.clone().into_iter().collect(),
        ..Recording::default()
    };
    let mut symbolise = |module: &Module, address: u64| symbolise(module, address);
    let mut stacks = Stacks::new(&recording, &mut symbolise);
    let titles: BTreeMap<u64, String> = recording
        .sites
        .keys()
        .map(|site| {
            let frames = stacks.of(*site).into_iter().flat_map(|(_, frames)| frames);
            let frames: Vec<String> =
                frames.take(SITE_FRAMES).map(|frame: Frame| frame.to_string()).collect();
            (*site, frames.join(" < "))
        })
        .collect();
    let sampled = graph.samples.iter();
    sampled.filter_map(|(node, of)| Some((*node, titles.get(&of.site)?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Analysis {
        let file = graph::tests::file().to_string();
        Analysis::new(Graph::read(file.as_bytes()).unwrap(), &mut |_, _| {
            vec!["make".to_owned().into()]
        })
    }

    #[test]
    fn sizes_sites_and_paths_of_a_known_graph() {
        let analysis = known();
        assert_eq!(analysis.objects().collect::<Vec<_>>(), [2, 3]);
        assert_eq!([0, 1, 2, 3].map(|node| analysis.retained(node)), [64, 64, 64, 48]);
        assert_eq!(analysis.dominator(3), Some(2));
        assert_eq!(analysis.path(3).unwrap(), [(1, Some(0x440)), (2, Some(1)), (3, None)]);
        let pair = Group { objects: 1, bytes: 16, found: 1, retained: 64 };
        assert_eq!(analysis.groups(By::Name)["pair"], pair);
        // One of 1 / (1 - exp(-48 / 480)) = 10.5 is sampled.
        let leaf = Group { objects: 11, bytes: 431, found: 1, retained: 48 };
        assert_eq!(analysis.groups(By::Site), BTreeMap::from([("make", leaf)]));
        assert_eq!(analysis.largest(None, 9), [2, 3]);
        assert_eq!(
            (analysis.largest(Some("make"), 9), analysis.largest(Some("none"), 9).len()),
            (vec![3], 0)
        );
    }

    /// A snapshot and a recording of the same samples.
    #[test]
    fn sites_are_estimated_as_reports_do() {
        let analysis = known();
        let mut recording = Recording::default();
        recording.process.sample_bytes = 480;
        recording.process.cells = vec![48];
        let samples = Samples { objects: 1, bytes: 41, ..Samples::default() };
        recording.samples.insert(3, samples);
        let site = &crate::sites::sites(&recording, &mut |_, _| Vec::new())[0];
        let leaf = analysis.groups(By::Site)["make"];
        assert_eq!((leaf.objects, leaf.bytes), (site.live.objects, site.live.bytes));
    }

    #[test]
    fn sites_of_older_snapshots_are_the_samples() {
        let mut file = graph::tests::file();
        file["snapshot"]["neap"]["sizes"] = serde_json::json!([]);
        let graph = Graph::read(file.to_string().as_bytes()).unwrap();
        let analysis = Analysis::new(graph, &mut |_, _| vec!["make".to_owned().into()]);
        let leaf = Group { objects: 1, bytes: 48, found: 1, retained: 48 };
        assert_eq!(analysis.groups(By::Site)["make"], leaf);
    }

    #[test]
    fn a_list_is_retained_once() {
        // The root, an object of roots, and three of one name.
        let graph = graph::tests::of_edges(4, &[(0, 1), (1, 2), (2, 3), (0, 2)]);
        let analysis = Analysis::new(graph, &mut |_, _| Vec::new());
        let group = Group { objects: 3, bytes: 24, found: 3, retained: 24 };
        assert_eq!(analysis.groups(By::Name)["object"], group);
    }
}
