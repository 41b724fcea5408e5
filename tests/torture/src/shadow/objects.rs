//! Operations on one graph: making, joining, resizing and freeing objects.
//!
//! Invariant: an object that is resized or freed has one pointer to it, the one by which the walk
//! came. Called by who holds the graph.

use crate::ensure;
use crate::options;
use crate::referrers::cleaners;
use crate::referrers::finalizers;
use crate::referrers::handles;
use crate::shadow::graph::{Graph, Keeper, alone_on_the_stack};
use crate::shadow::hidden::Hidden;
use crate::shadow::node::{Index, Node, Slot};
use crate::shadow::pairs::Pair;
use crate::shadow::places::Place;
use crate::shadow::shape::Shape;
use neap_core::api;

/// Pointers that one object holds at most.
const MOST_SLOTS: usize = 8;
/// Registered places of a graph at most.
const MOST_PLACES: usize = 8;

/// A size by chance: small ones mostly, each power of two about as likely above that.
pub fn random_bytes(random: &mut fastrand::Rng) -> usize {
    let largest = options::get().largest.max(1);
    let bytes = match random.u32(0..100) {
        0..45 => random.usize(1..=64),
        45..75 => random.usize(1..=512),
        75..92 => random.usize(1..=8192),
        92..98 => random.usize(1..=40_000),
        _ => {
            let bits = largest.ilog2();
            let bits = random.u32(bits.min(15)..=bits);
            random.usize(1..=1 << bits)
        }
    };
    bytes.min(largest)
}

/// Which words of a new object hold pointers.
fn random_slots(shape: Shape, bytes: usize, random: &mut fastrand::Rng) -> Vec<Slot> {
    let words = bytes / 8;
    if words == 0 || !shape.is_scanned() {
        return Vec::new();
    }
    let mut chosen: Vec<usize> =
        (0..random.usize(0..=MOST_SLOTS)).map(|_| random.usize(0..words)).collect();
    // The first word mostly says whose object it is.
    chosen.retain(|word| shape.scans(*word) && (*word > 0 || words == 1));
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(|word| Slot { word, edge: None }).collect()
}

/// Addresses in words that are not scanned: they must keep nothing alive.
fn random_decoys(
    graph: &Graph,
    shape: Shape,
    bytes: usize,
    random: &mut fastrand::Rng,
) -> Vec<(usize, Hidden)> {
    let words = bytes / 8;
    if words < 2 || random.u32(0..4) > 0 {
        return Vec::new();
    }
    let word = random.usize(1..words);
    match graph.walk(random) {
        Some((_, target)) if !shape.scans(word) => vec![(word, graph.node(target).address)],
        _ => Vec::new(),
    }
}

/// Makes an object and attaches it somewhere; false if memory was refused.
pub fn create(graph: &mut Graph, random: &mut fastrand::Rng) -> bool {
    let (shape, bytes) = (Shape::random(random), random_bytes(random));
    let alignment = match shape.layout() {
        None if random.u32(0..20) == 0 => 1 << random.u32(0..=12),
        _ => 1,
    };
    // Boxed, here and at the end: nothing else keeps it until it is attached.
    let object = core::hint::black_box(match alignment {
        1 => shape.allocate(bytes),
        _ => api::allocate_aligned(bytes, alignment, shape.kind()),
    });
    if object.is_null() {
        return false;
    }
    let address = object as usize;
    let natural = if bytes.is_multiple_of(16) {
        16
    } else if bytes >= 8 {
        8
    } else {
        1
    };
    ensure!(
        address.is_multiple_of(alignment.max(natural)),
        "{bytes} bytes of {shape:?} at {address:#x}, which is no multiple of {}",
        alignment.max(natural)
    );
    let node = Node {
        id: Graph::next_id(),
        address: Hidden::new(address),
        bytes,
        shape,
        slots: random_slots(shape, bytes, random),
        decoys: random_decoys(graph, shape, bytes, random),
        references: 0,
        link: None,
        weak: None,
        pairs: Vec::new(),
        finalizer: None,
        cleaners: Vec::new(),
        dead: false,
    };
    graph.check_known(&node, random.usize(0..bytes));
    if shape.is_scanned() {
        node.check_zero(0);
    }
    let index = graph.insert(node);
    graph.fill(index, 0);
    // Only now: in a child that another thread forks, nobody would fill the object before its
    // finalizer runs.
    if !shape.is_pinned() {
        if random.u32(0..100) < options::get().links {
            finalizers::add_link(graph.node_mut(index));
        }
        if random.u32(0..100) < options::get().finalizers {
            finalizers::register(graph.node_mut(index), random);
        }
        if random.u32(0..100) < options::get().finalizers {
            cleaners::register(graph.node_mut(index), random);
        }
    }
    if random.u32(0..100) < options::get().weak {
        handles::add_weak(graph.node_mut(index), random);
    }
    if random.u32(0..100) < options::get().pairs {
        let node = graph.node_mut(index);
        node.pairs.push(Pair::new(node.address.reveal()));
    }
    alone_on_the_stack(graph.node(index).id);
    if !shape.is_pinned() || random.bool() {
        attach(graph, index, random);
    }
    core::hint::black_box(object);
    true
}

/// Stores a pointer to a node in a slot of a place or of an object.
fn attach(graph: &mut Graph, target: Index, random: &mut fastrand::Rng) {
    let keeper = match graph.walk(random) {
        Some((_, parent)) if random.u32(0..4) == 0 && !graph.node(parent).pairs.is_empty() => {
            Keeper::Pair(parent, random.usize(0..graph.node(parent).pairs.len()))
        }
        Some((_, parent)) if random.bool() && !graph.node(parent).slots.is_empty() => {
            Keeper::Node(parent, random.usize(0..graph.node(parent).slots.len()))
        }
        _ => graph.random_slot(random),
    };
    let edge = graph.edge_to(target, random);
    graph.set(keeper, Some(edge));
}

/// A further pointer to some object.
pub fn join(graph: &mut Graph, random: &mut fastrand::Rng) {
    if let Some((_, target)) = graph.walk(random) {
        attach(graph, target, random);
    }
}

/// Takes an object back by its weak handle, if that still gives it.
pub fn take_back(graph: &mut Graph, random: &mut fastrand::Rng) {
    if let Some((target, object)) = graph.read_weak(random) {
        if random.bool() {
            attach(graph, target, random);
        }
        // What was given is alive until here.
        core::hint::black_box(object);
    }
}

/// Clears a pointer.
pub fn cut(graph: &mut Graph, random: &mut fastrand::Rng) {
    match graph.walk(random) {
        Some((keeper, _)) if random.bool() => graph.set(keeper, None),
        _ => graph.set(graph.random_slot(random), None),
    }
}

/// An object to which one pointer leads: the way to it.
fn only_child(graph: &Graph, random: &mut fastrand::Rng) -> Option<(Keeper, Index)> {
    let (keeper, index) = graph.walk(random)?;
    let references = graph.node(index).references;
    (!graph.is_held(index)
        && references == if keeper == Keeper::Pin { 0 } else { 1 }
        && (keeper == Keeper::Pin) == graph.node(index).shape.is_pinned())
    .then_some((keeper, index))
}

/// Frees an object.
pub fn free(graph: &mut Graph, random: &mut fastrand::Rng) {
    if let Some((keeper, index)) = only_child(graph, random) {
        graph.free(keeper, index);
    }
}

/// Frees every pinned object to which nothing points.
pub fn free_pinned(graph: &mut Graph) {
    for index in graph.pinned.clone() {
        if graph.node(index).references == 0 && !graph.is_held(index) {
            graph.free(Keeper::Pin, index);
        }
    }
}

/// Gives an object another size: a little, or any.
pub fn resize(graph: &mut Graph, random: &mut fastrand::Rng) {
    let Some((keeper, index)) = only_child(graph, random) else { return };
    let node = graph.node(index);
    let may_be_ready = options::get().all_ready > 0 && !node.cleaners.is_empty();
    if node.finalizer.is_some() || !node.pairs.is_empty() || may_be_ready {
        return;
    }
    let before = graph.node(index).bytes;
    let bytes = match random.u32(0..3) {
        0 => (before + random.usize(0..64)).min(options::get().largest),
        1 => random.usize(1..=before),
        _ => random_bytes(random),
    }
    .max(1);
    // Pointers behind the new end are let go before, as a program would.
    for slot in (0..graph.node(index).slots.len()).rev() {
        if graph.node(index).slots[slot].word >= bytes / 8 {
            graph.set(Keeper::Node(index, slot), None);
            graph.node_mut(index).slots.pop();
        }
    }
    let had_link = graph.node(index).link.is_some();
    let is_taken_back = finalizers::unregister(graph.node_mut(index));
    let (address, weak) = (graph.node(index).address, graph.node(index).weak);
    let refer = |object: usize| weak.iter().for_each(|weak| weak.set(object));
    refer(0);
    let are_taken_back = cleaners::unregister(graph.node_mut(index));
    ensure!(is_taken_back && are_taken_back, "something ready refers to the object");
    let moved = {
        // SAFETY: the only pointer to it is rewritten below.
        unsafe { api::reallocate(address.reveal() as *mut u8, bytes) }
    };
    if moved.is_null() {
        refer(address.reveal());
        if had_link {
            finalizers::add_link(graph.node_mut(index));
        }
        graph.fill(index, bytes / 8);
        return;
    }
    refer(moved as usize);
    let has_moved = moved as usize != address.reveal();
    graph.node_mut(index).decoys.retain(|decoy| decoy.0 < bytes / 8);
    graph.moved(keeper, index, moved as usize, bytes);
    graph.check_known(graph.node(index), bytes - 1);
    // What was kept is checked before the rest is written.
    let kept = Node { bytes: before.min(bytes) / 8 * 8, ..shadow_of(graph.node(index)) };
    if kept.bytes > 0 {
        kept.check(true, random, &|edge| graph.resolve(edge));
    }
    let scanned = graph.node(index).shape.is_scanned();
    if has_moved && scanned && bytes > before {
        graph.node(index).check_zero(before.next_multiple_of(8));
    }
    graph.fill(index, before.min(bytes) / 8);
    if had_link {
        finalizers::add_link(graph.node_mut(index));
    }
}

/// The same node without what belongs to one object only.
fn shadow_of(node: &Node) -> Node {
    Node {
        link: None,
        weak: None,
        pairs: Vec::new(),
        finalizer: None,
        cleaners: Vec::new(),
        slots: node.slots.clone(),
        decoys: node.decoys.clone(),
        ..*node
    }
}

/// Adds a place, or takes one out.
pub fn change_places(graph: &mut Graph, random: &mut fastrand::Rng) {
    let own: Vec<usize> = (0..graph.places.len())
        .filter(|number| {
            graph.places[*number]
                .as_ref()
                .is_some_and(|place| place.sort != crate::shadow::places::Sort::Lent)
        })
        .collect();
    if own.len() > 1 && (own.len() >= MOST_PLACES || random.bool()) {
        graph.remove_place(own[random.usize(0..own.len())]);
    } else if random.bool() {
        Place::registered(random.usize(1..700)).map(|place| graph.add_place(place));
    } else if random.bool() {
        Place::of_handles(random.usize(1..300), random.bool()).map(|place| graph.add_place(place));
    } else {
        Place::in_static_data().map(|place| graph.add_place(place));
    }
}

/// Lets roots go until the graph can be expected to hold no more than half of `bytes`.
pub fn let_go(graph: &mut Graph, random: &mut fastrand::Rng) {
    for number in 0..graph.places.len() {
        for slot in 0..graph.places[number].as_ref().map_or(0, |place| place.edges.len()) {
            if random.u32(0..10) < 7 {
                graph.set(Keeper::Place(number, slot), None);
            }
        }
    }
    free_pinned(graph);
}

/// Frees every pinned object, whatever points to it being dead or cleared first.
pub fn free_all_pinned(graph: &mut Graph) {
    for index in graph.pinned.clone() {
        for slot in 0..graph.node(index).slots.len() {
            graph.set(Keeper::Node(index, slot), None);
        }
        for pair in 0..graph.node(index).pairs.len() {
            graph.set(Keeper::Pair(index, pair), None);
        }
    }
    free_pinned(graph);
}
