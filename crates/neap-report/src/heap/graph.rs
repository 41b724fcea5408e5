//! A heap snapshot as a graph: read from Chrome's format, with what `neap` adds to it.
//!
//! Invariant: a file that is cut, or that says what cannot be, is refused with what is wrong; once
//! a graph is there, every edge leads to a node and every name is known. Snapshots of others are
//! read too: they have no addresses, files or sites. Pure.

use super::NameVariable;
use neap_record::decode::{Module, printable};
use serde::Deserialize;
use std::collections::HashMap;

/// Fields that are read of a node and an edge, by the names that the format gives them.
const NODE_FIELDS: [&str; 4] = ["name", "id", "self_size", "edge_count"];
const EDGE_FIELDS: [&str; 2] = ["name_or_index", "to_node"];

#[derive(Deserialize)]
struct File {
    snapshot: Head,
    nodes: Vec<u64>,
    edges: Vec<u64>,
    strings: Vec<String>,
}

#[derive(Deserialize)]
struct Head {
    meta: Meta,
    neap: Option<Added>,
}

#[derive(Deserialize)]
struct Meta {
    node_fields: Vec<String>,
    edge_fields: Vec<String>,
}

/// What `neap` adds.
#[derive(Deserialize)]
struct Added {
    base: u64,
    first_id: u64,
    modules: Vec<AddedModule>,
    sources: Vec<u64>,
    sites: Vec<(u64, Vec<u64>)>,
    samples: Vec<u64>,
    /// Of older versions there are none.
    #[serde(default)]
    tables: Vec<u64>,
    /// For each sample the bytes asked for and those of its cell; of older versions none.
    #[serde(default)]
    sizes: Vec<u64>,
    #[serde(default)]
    sample_bytes: u64,
}

#[derive(Deserialize)]
struct AddedModule {
    start: u64,
    end: u64,
    bias: u64,
    path: String,
    build_id: String,
}

/// A node. Node 0 is the root of all.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The place of its name.
    pub name: u32,
    /// Its number in the file.
    pub id: u64,
    /// Bytes of its own.
    pub bytes: u64,
    first_edge: u32,
}

/// A pointer.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The word of an object, or the address of a root.
    pub place: u64,
    /// The node that it points to.
    pub to: u32,
}

/// How a sampled object was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sampled {
    /// The number of its site.
    pub site: u64,
    /// The bytes asked for and those of its cell, where the snapshot says so.
    pub sizes: Option<[u64; 2]>,
}

/// The graph.
#[derive(Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Names by their places.
    pub names: Vec<String>,
    /// Files of static data and of sites.
    pub modules: Vec<Module>,
    /// For each node that the root points to its module, counted from 1, or 0.
    sources: Vec<u64>,
    /// Return addresses of sites, by number, innermost first.
    pub sites: HashMap<u64, Vec<u64>>,
    /// Objects that were sampled, by node.
    pub samples: HashMap<u32, Sampled>,
    /// Mean bytes from one sample to the next.
    pub sample_bytes: u64,
    /// The heap's first address and the number of an object there.
    base: Option<(u64, u64)>,
    /// Places of names, and what objects of that name begin with: a pointer into a module.
    tables: Vec<[u64; 2]>,
}

impl Graph {
    /// Reads a file's bytes.
    pub fn read(bytes: &[u8]) -> Result<Graph, String> {
        let file: File = serde_json::from_slice(bytes)
            .map_err(|error| format!("not a heap snapshot, or cut: {error}"))?;
        let wrong = |what: &str| format!("not a heap snapshot: {what}");
        let of = |fields: &[String], name: &str| {
            let found = fields.iter().position(|field| field == name);
            found.ok_or_else(|| wrong(&format!("no field {name}")))
        };
        let Head { meta, neap } = file.snapshot;
        let node = NODE_FIELDS.map(|name| of(&meta.node_fields, name));
        let [name, id, size, count] = all(node)?;
        let [place, to] = all(EDGE_FIELDS.map(|name| of(&meta.edge_fields, name)))?;
        let (width, edge_width) = (meta.node_fields.len(), meta.edge_fields.len());
        let whole = file.nodes.len().is_multiple_of(width)
            && file.edges.len().is_multiple_of(edge_width)
            && file.nodes.len() < u32::MAX as usize
            && file.edges.len() < u32::MAX as usize;
        if file.nodes.is_empty() || !whole {
            return Err(wrong("a node or an edge is cut"));
        }
        let mut edges = Vec::with_capacity(file.edges.len() / edge_width);
        for words in file.edges.chunks_exact(edge_width) {
            let node = words[to] / width as u64;
            if words[to] >= file.nodes.len() as u64 || !words[to].is_multiple_of(width as u64) {
                return Err(wrong("an edge leads to no node"));
            }
            edges.push(Edge { place: words[place], to: node as u32 });
        }
        let mut nodes = Vec::with_capacity(file.nodes.len() / width + 1);
        let mut first_edge = 0_u64;
        let mut total = 0_u64;
        for words in file.nodes.chunks_exact(width) {
            if words[name] >= file.strings.len() as u64 {
                return Err(wrong("a node has no name"));
            }
            let sum = total.checked_add(words[size]);
            total = sum.ok_or_else(|| wrong("sizes beyond all memory"))?;
            nodes.push(Node {
                name: words[name] as u32,
                id: words[id],
                bytes: words[size],
                first_edge: first_edge as u32,
            });
            first_edge = first_edge.saturating_add(words[count]);
            if first_edge > edges.len() as u64 {
                return Err(wrong("nodes have more edges than there are"));
            }
        }
        if first_edge != edges.len() as u64 {
            return Err(wrong("there are edges that no node has"));
        }
        let names = file.strings.iter().map(|name| printable(name.as_bytes())).collect();
        let mut graph = Graph {
            nodes,
            edges,
            names,
            modules: Vec::new(),
            sources: Vec::new(),
            sites: HashMap::new(),
            samples: HashMap::new(),
            sample_bytes: 0,
            base: None,
            tables: Vec::new(),
        };
        if let Some(added) = neap {
            graph.add(added);
        }
        Ok(graph)
    }

    fn add(&mut self, added: Added) {
        self.base = Some((added.base, added.first_id));
        let modules = added.modules.into_iter().map(|module| {
            let AddedModule { start, end, bias, path, build_id } = module;
            Module { start, end, bias, path: printable(path.as_bytes()), build_id }
        });
        self.modules = modules.collect();
        self.sources = added.sources;
        self.tables = added.tables.as_chunks().0.to_vec();
        self.sites = added.sites.into_iter().collect();
        self.sample_bytes = added.sample_bytes;
        let sizes = added.sizes.as_chunks().0.iter().map(|sizes| Some(*sizes));
        let sizes = sizes.filter(|_| added.sample_bytes > 0).chain(core::iter::repeat(None));
        let samples = added.samples.as_chunks().0.iter().zip(sizes);
        let by_id: HashMap<u64, Sampled> =
            samples.map(|(&[id, site], sizes)| (id, Sampled { site, sizes })).collect();
        if !by_id.is_empty() {
            let sampled = self.nodes.iter().enumerate();
            let sampled = sampled.filter_map(|(node, of)| Some((node as u32, *by_id.get(&of.id)?)));
            self.samples = sampled.collect();
        }
    }

    /// Calls objects by their class where they begin with a pointer to its table of methods, as
    /// they do in C++ and D: of that `variable` knows the name.
    pub fn name_classes(&mut self, variable: &mut NameVariable<'_>) {
        for [place, table] in core::mem::take(&mut self.tables) {
            let holds = |module: &&Module| (module.start..module.end).contains(&table);
            let Some(module) = self.modules.iter().rev().find(holds) else { continue };
            let symbol = variable(module, table.wrapping_sub(module.bias));
            if let Some(class) = symbol.as_deref().and_then(class_of)
                && let Some(name) = self.names.get_mut(place as usize)
            {
                *name = printable(class.as_bytes());
            }
        }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// A node.
    pub fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    /// What it is called.
    pub fn name(&self, node: u32) -> &str {
        &self.names[self.node(node).name as usize]
    }

    /// Where it points to.
    pub fn edges_of(&self, node: u32) -> &[Edge] {
        let from = self.node(node).first_edge as usize;
        let next = self.nodes.get(node as usize + 1);
        &self.edges[from..next.map_or(self.edges.len(), |next| next.first_edge as usize)]
    }

    /// Whether a node stands for roots: such nodes are no objects.
    pub fn is_root(&self, node: u32) -> bool {
        match self.base {
            Some((_, first_id)) => self.node(node).id < first_id,
            None => node == 0,
        }
    }

    /// An object's address.
    pub fn address(&self, node: u32) -> Option<u64> {
        let (base, first_id) = self.base?;
        base.checked_add((self.node(node).id.checked_sub(first_id)? / 2).checked_mul(8)?)
    }

    /// The object that an address lies in.
    pub fn at(&self, address: u64) -> Option<u32> {
        let objects = (0..self.nodes.len() as u32).filter(|node| !self.is_root(*node));
        let mut found = objects.filter(|node| {
            let start = self.address(*node);
            start.is_some_and(|start| start <= address && address - start < self.node(*node).bytes)
        });
        found.next()
    }

    /// The file whose static data a node of roots stands for.
    pub fn static_data(&self, node: u32) -> Option<&Module> {
        let module = *self.sources.get((node as usize).checked_sub(1)?)?;
        self.modules.get(usize::try_from(module).ok()?.checked_sub(1)?)
    }
}

/// The class that a table of methods is of, by what its symbol says; None for other variables.
fn class_of(variable: &str) -> Option<&str> {
    // In C++ the methods are some words behind the beginning.
    let (symbol, _) = variable.rsplit_once('+').unwrap_or((variable, ""));
    let in_cpp = symbol.strip_prefix("{vtable(").and_then(|rest| rest.strip_suffix(")}"));
    in_cpp.or_else(|| variable.strip_suffix(".__vtbl"))
}

fn all<const N: usize>(places: [Result<usize, String>; N]) -> Result<[usize; N], String> {
    let mut found = [0; N];
    for (to, place) in found.iter_mut().zip(places) {
        *to = place?;
    }
    Ok(found)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A graph of so many nodes of eight bytes.
    pub fn of_edges(nodes: usize, edges: &[(u32, u32)]) -> Graph {
        let mut sorted = edges.to_vec();
        sorted.sort_by_key(|(from, _)| *from);
        let first = |node: usize| sorted.partition_point(|(from, _)| (*from as usize) < node);
        let nodes = (0..nodes).map(|node| Node {
            name: 0,
            id: node as u64,
            bytes: 8,
            first_edge: first(node) as u32,
        });
        Graph {
            nodes: nodes.collect(),
            edges: sorted.iter().map(|(_, to)| Edge { place: 0, to: *to }).collect(),
            names: vec!["object".to_owned()],
            modules: Vec::new(),
            sources: Vec::new(),
            sites: HashMap::new(),
            samples: HashMap::new(),
            sample_bytes: 0,
            base: None,
            tables: Vec::new(),
        }
    }

    /// A root with one source, that points to an object, that points to another.
    pub fn file() -> Value {
        json!({
            "snapshot": {
                "meta": {
                    "node_fields": ["type", "name", "id", "self_size", "edge_count"],
                    "edge_fields": ["type", "name_or_index", "to_node"],
                },
                "neap": {
                    "version": 1, "process": 7, "base": 0x1000, "first_id": 101, "sources": [1],
                    "modules": [{"start": 0x400, "end": 0x500, "bias": 0, "path": "/bin/x",
                        "build_id": "ab"}],
                    "sites": [[3, [0x410]]], "samples": [105, 3], "sizes": [41, 48],
                    "sample_bytes": 480,
                },
            },
            "nodes": [9, 0, 1, 0, 1, 9, 1, 3, 0, 1, 3, 2, 101, 16, 1, 3, 3, 105, 48, 0],
            "edges": [1, 0, 5, 1, 0x440, 10, 1, 1, 15],
            "strings": ["(roots)", "static data of /bin/x", "pair", "leaf"],
        })
    }

    #[test]
    fn a_file_is_read_with_addresses_and_sites() {
        let graph = Graph::read(file().to_string().as_bytes()).unwrap();
        assert_eq!((graph.nodes(), graph.name(3), graph.node(3).bytes), (4, "leaf", 48));
        assert_eq!((graph.address(2), graph.address(3)), (Some(0x1000), Some(0x1010)));
        assert_eq!((graph.at(0x1018), graph.at(0x2000), graph.at(0xfff)), (Some(3), None, None));
        assert_eq!(graph.samples, HashMap::from([(3, Sampled { site: 3, sizes: Some([41, 48]) })]));
        assert_eq!(graph.sample_bytes, 480);
        // Of an older version.
        let mut file = file();
        file["snapshot"]["neap"]["sizes"] = json!([]);
        let graph = Graph::read(file.to_string().as_bytes()).unwrap();
        assert_eq!(graph.samples, HashMap::from([(3, Sampled { site: 3, sizes: None })]));
        assert_eq!(graph.static_data(1).unwrap().path, "/bin/x");
        assert!(graph.is_root(1) && !graph.is_root(2));
    }

    #[test]
    fn edges_that_no_node_has_and_places_beyond_memory_are_told() {
        let mut without = file();
        without["nodes"][14] = json!(0);
        let said = Graph::read(without.to_string().as_bytes()).err().unwrap();
        assert!(said.contains("edges that no node has"), "{said}");
        let mut far = file();
        far["nodes"][17] = json!(u64::MAX);
        let graph = Graph::read(far.to_string().as_bytes()).unwrap();
        assert_eq!(graph.address(3), None);
    }

    #[test]
    fn objects_are_called_by_the_class_of_their_methods() {
        for (symbol, name) in [
            (Some("{vtable(shape::Circle)}+16"), "shape::Circle"),
            (Some("shapes.Circle.__vtbl"), "shapes.Circle"),
            (Some("shapes.Circle.__vtbl+8"), "pair"),
            (Some("table"), "pair"),
            (None, "pair"),
        ] {
            let mut file = file();
            // Names and modules that are not there are nobody's.
            let tables = json!([2, 0x420, 3, 0x600, 9, 0x420]);
            file["snapshot"]["neap"]["tables"] = tables;
            let mut graph = Graph::read(file.to_string().as_bytes()).unwrap();
            graph.name_classes(&mut |module, address| {
                assert_eq!((module.path.as_str(), address), ("/bin/x", 0x420));
                symbol.map(str::to_owned)
            });
            assert_eq!((graph.name(2), graph.name(3)), (name, "leaf"), "{symbol:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut file = file();
            change(&mut file);
            Graph::read(file.to_string().as_bytes()).unwrap_err()
        };
        for (change, said) in [
            (&(|file: &mut Value| file["nodes"] = json!([])) as &dyn Fn(&mut Value), "is cut"),
            (&|file| file["nodes"][4] = json!(99), "more edges"),
            (&|file| file["nodes"][9] = json!(u64::MAX), "more edges"),
            (&|file| file["nodes"][1] = json!(4), "no name"),
            (&|file| file["nodes"][13] = json!(u64::MAX), "beyond all memory"),
            (&|file| file["edges"][2] = json!(20), "no node"),
            (&|file| file["edges"][2] = json!(4), "no node"),
            (&|file| file["edges"] = json!([1]), "is cut"),
            (&|file| file["nodes"][3] = json!(-1), "not a heap snapshot"),
            (&|file| file["snapshot"]["meta"]["node_fields"] = json!([]), "no field name"),
        ] {
            let found = refused(change);
            assert!(found.contains(said), "{found}: {said}");
        }
        let text = file().to_string();
        for length in 0..text.len() {
            assert!(Graph::read(&text.as_bytes()[..length]).is_err());
        }
    }
}
