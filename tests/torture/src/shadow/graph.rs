//! A shadow graph: the objects that one worker, or all of them in turn, made, and what points to
//! what.
//!
//! Invariant: for every node that can be reached from a place or a pinned node, the object exists
//! and holds what the shadow says. Objects are reached by walking from places, through real memory,
//! as a program would. Used by one thread at a time.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::ensure;
use crate::options::{self, Sabotage};
use crate::referrers::cleaners;
use crate::referrers::finalizers;
use crate::shadow::hidden::Hidden;
use crate::shadow::node::{Edge, Index, Node};
use crate::shadow::pairs::Pair;
use crate::shadow::places::{Place, Sort};
use neap_core::api;
use std::sync::Arc;

/// Where a pointer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// Slot of a place.
    Place(usize, usize),
    /// Slot of a node.
    Node(Index, usize),
    /// The value of an ephemeron whose key a node is.
    Pair(Index, usize),
    /// Nothing: the node is uncollectable.
    Pin,
}

/// Steps of a walk at most.
const LONGEST_WALK: usize = 8;

/// The graph.
#[derive(Default)]
pub struct Graph {
    pub(crate) nodes: Vec<Option<Node>>,
    free: Vec<Index>,
    pub(crate) places: Vec<Option<Place>>,
    pub(crate) pinned: Vec<Index>,
    /// Nodes in whose monitors the graph's worker is, and how often.
    pub(crate) held: Vec<(Index, u32)>,
    /// Cleaners and references of objects that are gone, which had not run or been taken then.
    pub(crate) owed: Vec<Arc<cleaners::Record>>,
    /// Bytes of all nodes, those included that are dead and not known to be gone.
    pub bytes: usize,
    /// A pointer one past the end counts.
    pub past_end: bool,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
/// Where the sabotage `leak` keeps what roots let go: static data, so roots.
static HOARD: [AtomicUsize; 4096] = [const { AtomicUsize::new(0) }; 4096];

/// Called while nothing but the caller's stack or a register leads to an object: a collection, now
/// and then, must find it there.
pub fn alone_on_the_stack(id: u64) {
    if id.is_multiple_of(options::get().alone) {
        api::collect();
    }
}

impl Graph {
    /// A graph without objects.
    pub fn new() -> Self {
        Self { past_end: options::get().neap_value("past_end") != Some("0"), ..Self::default() }
    }

    /// A number for a new object.
    pub fn next_id() -> u64 {
        NEXT_ID.fetch_add(1, Relaxed)
    }

    /// The node of an index that is in use.
    pub fn node(&self, index: Index) -> &Node {
        self.nodes[index as usize].as_ref().expect("an index in use")
    }

    /// The same, to change it.
    pub fn node_mut(&mut self, index: Index) -> &mut Node {
        self.nodes[index as usize].as_mut().expect("an index in use")
    }

    /// The address that an edge means.
    pub fn resolve(&self, edge: Edge) -> usize {
        self.node(edge.target).address.reveal() + edge.offset as usize
    }

    /// Adds a node that nothing points to yet.
    pub fn insert(&mut self, node: Node) -> Index {
        self.bytes += node.bytes;
        let pinned = node.shape.is_pinned();
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = Some(node);
                index
            }
            None => {
                self.nodes.push(Some(node));
                (self.nodes.len() - 1) as Index
            }
        };
        if pinned {
            self.pinned.push(index);
        }
        index
    }

    /// Forgets a node that is gone; what it pointed to has fewer references.
    pub fn remove(&mut self, index: Index) {
        let Some(mut node) = self.nodes[index as usize].take() else { return };
        finalizers::drop_link(&mut node);
        if let Some(weak) = node.weak.take() {
            weak.free();
        }
        let pairs = core::mem::take(&mut node.pairs);
        self.bytes -= node.bytes;
        self.free.push(index);
        let values = pairs.iter().filter_map(|pair| pair.value);
        for edge in node.slots.iter().filter_map(|slot| slot.edge).chain(values) {
            if let Some(target) = self.nodes[edge.target as usize].as_mut() {
                target.references -= 1;
            }
        }
        pairs.into_iter().for_each(Pair::free);
    }

    /// What a keeper keeps.
    pub fn edge(&self, keeper: Keeper) -> Option<Edge> {
        match keeper {
            Keeper::Place(place, slot) => self.places[place].as_ref()?.edges[slot],
            Keeper::Node(node, slot) => self.node(node).slots[slot].edge,
            Keeper::Pair(node, pair) => self.node(node).pairs[pair].value,
            Keeper::Pin => None,
        }
    }

    /// Writes a pointer, or zero, both in memory and in the shadow.
    pub fn set(&mut self, keeper: Keeper, edge: Option<Edge>) {
        let edge = edge.map(|edge| match self.keeps_starts(keeper) {
            true => Edge { offset: 0, ..edge },
            false => edge,
        });
        let value = edge.map_or(0, |edge| self.resolve(edge));
        let before = self.edge(keeper);
        self.write(keeper, value);
        match keeper {
            Keeper::Place(place, slot) => {
                self.places[place].as_mut().expect("a place in use").edges[slot] = edge;
            }
            Keeper::Node(node, slot) => self.node_mut(node).slots[slot].edge = edge,
            Keeper::Pair(node, pair) => self.node_mut(node).pairs[pair].value = edge,
            Keeper::Pin => return,
        }
        if let Some(edge) = edge {
            self.node_mut(edge.target).references += 1;
        }
        if let Some(before) = before {
            self.node_mut(before.target).references -= 1;
            if options::get().sabotages(Sabotage::Leak) {
                let id = self.node(before.target).id as usize;
                core::hint::black_box(&HOARD)[id % HOARD.len()]
                    .store(self.resolve(before), Relaxed);
            }
        }
    }

    /// Writes the memory of a keeper, of which the shadow is not told.
    pub fn write(&self, keeper: Keeper, value: usize) {
        match keeper {
            Keeper::Place(place, slot) => {
                self.places[place].as_ref().expect("a place in use").write(slot, value);
            }
            Keeper::Node(node, slot) => {
                let node = self.node(node);
                node.word(node.slots[slot].word).store(value, Relaxed);
            }
            Keeper::Pair(node, pair) => self.node(node).pairs[pair].set(value),
            Keeper::Pin => {}
        }
    }

    /// Whether it keeps the start of an object only.
    pub fn keeps_starts(&self, keeper: Keeper) -> bool {
        match keeper {
            Keeper::Place(place, _) => {
                self.places[place].as_ref().is_some_and(|place| place.sort == Sort::Handles)
            }
            Keeper::Pair(..) => true,
            _ => false,
        }
    }

    /// An edge to a node, to its start or into it.
    pub fn edge_to(&self, target: Index, random: &mut fastrand::Rng) -> Edge {
        let bytes = self.node(target).bytes;
        let last = if self.past_end { bytes } else { bytes - 1 };
        let offset = match random.u32(0..4) {
            0 => random.usize(0..=last),
            1 => last,
            _ => 0,
        };
        Edge { target, offset: offset as u32 }
    }

    /// Adds a place; gives its number.
    pub fn add_place(&mut self, place: Place) -> usize {
        match self.places.iter().position(Option::is_none) {
            Some(number) => {
                self.places[number] = Some(place);
                number
            }
            None => {
                self.places.push(Some(place));
                self.places.len() - 1
            }
        }
    }

    /// Empties a place.
    pub fn empty_place(&mut self, number: usize) {
        for slot in 0..self.places[number].as_ref().map_or(0, |place| place.edges.len()) {
            self.set(Keeper::Place(number, slot), None);
        }
    }

    /// Empties a place and takes it out.
    pub fn remove_place(&mut self, number: usize) {
        self.empty_place(number);
        if let Some(place) = self.places[number].take() {
            place.give_back();
        }
    }

    /// A slot of some place.
    pub fn random_slot(&self, random: &mut fastrand::Rng) -> Keeper {
        loop {
            let number = random.usize(0..self.places.len());
            if let Some(place) = &self.places[number] {
                return Keeper::Place(number, random.usize(0..place.edges.len()));
            }
        }
    }

    /// Reads the pointer of a keeper from memory, and fails unless it is the one that was put there
    /// and leads to its object.
    #[inline(never)]
    pub(crate) fn follow(&self, keeper: Keeper) -> Option<Index> {
        let edge = self.edge(keeper)?;
        let found = match keeper {
            Keeper::Place(place, slot) => {
                self.places[place].as_ref().expect("a place in use").read(slot)
            }
            Keeper::Node(node, slot) => {
                let node = self.node(node);
                node.word(node.slots[slot].word).load(Relaxed)
            }
            Keeper::Pair(node, pair) => {
                let (key, value) = self.node(node).pairs[pair].get();
                ensure!(
                    key == self.node(node).address.reveal(),
                    "lost: {} is reachable, and its ephemeron has the key {key:#x}",
                    self.node(node).describe()
                );
                value
            }
            Keeper::Pin => return None,
        };
        let (wanted, target) = (self.resolve(edge), self.node(edge.target));
        ensure!(
            found == wanted,
            "stale contents: {keeper:?} holds {found:#x}, not {wanted:#x}, a pointer to {}",
            target.describe()
        );
        self.check_known(target, edge.offset as usize);
        Some(edge.target)
    }

    /// Fails unless the collector knows the object, by any of its bytes.
    pub fn check_known(&self, node: &Node, offset: usize) {
        let inside = node.address.reveal() + offset.min(node.bytes - 1);
        match api::object_at(inside) {
            Some(info) => ensure!(
                info.start.as_ptr() as usize == node.address.reveal()
                    && info.bytes >= node.bytes
                    && node.shape.is_of(&info),
                "lost: {} is, for the collector, {info:x?}",
                node.describe()
            ),
            None => crate::fail!("lost: {} is reachable, and no object", node.describe()),
        }
    }

    /// Walks some pointers from a root; gives where it ended and by what pointer. Checks each
    /// object on the way.
    pub fn walk(&self, random: &mut fastrand::Rng) -> Option<(Keeper, Index)> {
        let (mut keeper, mut at) = self.first_step(random)?;
        self.check(at, false, random);
        for _ in 0..random.usize(0..LONGEST_WALK) {
            let (slots, pairs) = (self.node(at).slots.len(), self.node(at).pairs.len());
            if slots + pairs == 0 {
                break;
            }
            let next = match random.usize(0..slots + pairs) {
                slot if slot < slots => Keeper::Node(at, slot),
                pair => Keeper::Pair(at, pair - slots),
            };
            let Some(target) = self.follow(next) else { break };
            (keeper, at) = (next, target);
            self.check(at, false, random);
        }
        Some((keeper, at))
    }

    fn first_step(&self, random: &mut fastrand::Rng) -> Option<(Keeper, Index)> {
        if !self.pinned.is_empty() && random.u32(0..8) == 0 {
            return Some((Keeper::Pin, self.pinned[random.usize(0..self.pinned.len())]));
        }
        (0..8).find_map(|_| {
            let keeper = self.random_slot(random);
            self.follow(keeper).map(|node| (keeper, node))
        })
    }

    /// Checks one node's object.
    pub fn check(&self, index: Index, whole: bool, random: &mut fastrand::Rng) {
        self.node(index).check(whole, random, &|edge| self.resolve(edge));
    }

    /// Fills an object with what the shadow says.
    pub fn fill(&self, index: Index, from: usize) {
        self.node(index).fill(from, &|edge| self.resolve(edge));
    }

    /// Frees a node to which one pointer leads, or none if it is pinned, but not where something
    /// that is ready refers to it still.
    pub fn free(&mut self, keeper: Keeper, index: Index) {
        let node = self.node_mut(index);
        if !finalizers::unregister(node) || !cleaners::unregister(node) {
            return;
        }
        self.free_handles(index);
        // Boxed, here and below, or the compiler may put off the arithmetic that reveals it.
        let object = core::hint::black_box(self.node(index).address.reveal());
        self.set(keeper, None);
        alone_on_the_stack(self.node(index).id);
        let result = {
            // SAFETY: the last pointer to it was just overwritten.
            unsafe { api::free(core::hint::black_box(object) as *mut u8) }
        };
        let node = self.node(index);
        ensure!(result.is_ok(), "free of {}: {result:?}", node.describe());
        self.pinned.retain(|pinned| *pinned != index);
        self.remove(index);
    }

    /// Frees what would refer to an object that is about to be freed.
    fn free_handles(&mut self, index: Index) {
        for pair in 0..self.node(index).pairs.len() {
            self.set(Keeper::Pair(index, pair), None);
        }
        let node = self.node_mut(index);
        core::mem::take(&mut node.pairs).into_iter().for_each(Pair::free);
        if let Some(weak) = node.weak.take() {
            weak.free();
        }
    }

    /// Reads the weak handle of a node, reachable or not, and looks whether what it gives is whole;
    /// gives the node and its address if the shadow can take it back.
    pub fn read_weak(&self, random: &mut fastrand::Rng) -> Option<(Index, usize)> {
        if self.nodes.is_empty() {
            return None;
        }
        let index = random.usize(0..self.nodes.len()) as Index;
        let node = self.nodes[index as usize].as_ref()?;
        let weak = node.weak?;
        let object = weak.get();
        if object == 0 {
            return None;
        }
        ensure!(
            object == node.address.reveal(),
            "stale: a weak handle gives {object:#x} for {}",
            node.describe()
        );
        self.check_known(node, 0);
        node.check_contents(false, random, &|edge| self.resolve(edge));
        core::hint::black_box(object);
        // One that tracks resurrection also gives objects whose finalizers have run, and what these
        // reach.
        (!weak.long && !node.dead).then_some((index, object))
    }

    /// Whether its worker is in the monitor of a node.
    pub fn is_held(&self, index: Index) -> bool {
        self.held.iter().any(|held| held.0 == index)
    }

    /// The object has moved, or has another size. Gives the former address.
    pub fn moved(&mut self, keeper: Keeper, index: Index, address: usize, bytes: usize) {
        let node = self.node_mut(index);
        let before = node.bytes;
        node.address = Hidden::new(address);
        node.bytes = bytes;
        self.bytes = self.bytes - before + bytes;
        let edge = self
            .edge(keeper)
            .map(|edge| Edge { offset: edge.offset.min(bytes as u32 - 1), ..edge });
        self.set(keeper, edge);
    }
}
