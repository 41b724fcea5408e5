//! The audit: everything that the shadow says is reachable is checked in full; everything else has
//! to be gone after two collections.
//!
//! A conservative collector cannot promise the second without exception: a stale word on a stack or
//! in a register may keep an object, and all that it points to. So what is left over is counted by
//! its *heads*, the fewest objects from which all of it can be reached: each takes a stale word of
//! its own. The bound on heads is [`MOST_HEADS`] for the thread that audits; a dead child of a dead
//! parent that is still there must be there too. Called by who holds the graph, outside blocked
//! regions.

use core::sync::atomic::Ordering::Relaxed;

use crate::referrers::cleaners;
use crate::referrers::finalizers::link_length;
use crate::shadow::graph::{Graph, Keeper};
use crate::shadow::hidden::pattern;
use crate::shadow::node::Index;
use crate::shadow::who;
use crate::{ensure, fail, options};
use neap_core::api::link::Length;
use neap_core::api::{self, finalizer};

/// Heads that stale words may keep at one audit: in frames and saved registers of any thread that
/// handled the objects, or marked. Measured over 9,000 audits with up to 12 threads: none in 94 of
/// 100, more than 16 in 2 of 1,000, never more than 63. The sabotage `leak` leaves hundreds.
pub const MOST_HEADS: usize = 96;
/// Where many graphs are audited one after another, one in so many may have a head besides.
/// Measured with some 300 graphs: none in all under `none`, `pagemap` and `mprotect`, 26 to 46
/// under `fork` and `snapshot`, where a cycle keeps what its first stop saw.
pub const GRAPHS_A_HEAD: usize = 4;
/// Collections of an audit at most: finalizable objects that wait for each other die one by one.
const MOST_COLLECTIONS: usize = 12;

/// Attempts to find a moment between cycles.
const ATTEMPTS: usize = 8;

impl Graph {
    /// Which nodes can be reached, by the shadow.
    fn reachable(&self) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        let mut grey: Vec<Index> = self.pinned.clone();
        grey.extend(self.held.iter().map(|held| held.0));
        for place in self.places.iter().flatten() {
            grey.extend(place.edges.iter().flatten().map(|edge| edge.target));
        }
        while let Some(index) = grey.pop() {
            if !core::mem::replace(&mut reached[index as usize], true) {
                grey.extend(self.children(index));
            }
        }
        reached
    }

    /// What an object keeps alive as long as it can be reached: by its words, and by ephemerons.
    fn children(&self, index: Index) -> impl Iterator<Item = Index> + '_ {
        let node = self.node(index);
        let values = node.pairs.iter().filter_map(|pair| pair.value);
        node.slots.iter().filter_map(|slot| slot.edge).chain(values).map(|edge| edge.target)
    }

    /// Checks every reachable object and pointer; notes what is dead.
    pub fn sweep_check(&mut self, random: &mut fastrand::Rng) {
        let reached = self.reachable();
        for (index, reached) in reached.iter().enumerate() {
            match (&self.nodes[index], reached) {
                (Some(node), true) => {
                    ensure!(!node.dead, "the shadow is wrong: {} lives again", node.describe());
                    self.check_known(node, random.usize(0..node.bytes));
                    self.check(index as Index, true, random);
                    for pair in 0..self.node(index as Index).pairs.len() {
                        self.follow(Keeper::Pair(index as Index, pair));
                    }
                }
                (Some(_), false) => self.node_mut(index as Index).dead = true,
                (None, _) => {}
            }
        }
        for place in self.places.iter().flatten() {
            for (slot, edge) in place.edges.iter().enumerate() {
                let (found, wanted) = (place.read(slot), edge.map_or(0, |edge| self.resolve(edge)));
                ensure!(found == wanted, "a root holds {found:#x}, not {wanted:#x}");
            }
        }
    }

    /// Whether a dead node's object is still there, by the last cycle. `None` where it cannot be
    /// told. Collections are held off.
    fn is_there(&self, index: Index) -> Option<bool> {
        let node = self.node(index);
        if let Some(link) = &node.link
            && link_length(node) == Length::Long
        {
            return Some(link.load(Relaxed) != 0);
        }
        if let Some(weak) = node.weak.filter(|weak| weak.long) {
            return Some(weak.get() != 0);
        }
        // A leaf's memory keeps what it held when it belongs to another object.
        if !node.shape.is_scanned() || node.bytes < 8 || !node.is_pattern(0) {
            return None;
        }
        let address = node.address.reveal();
        // A dead object is an object until its block is swept: the mark tells them apart.
        let known = api::mark_bit(address)
            && api::object_at(address).is_some_and(|info| {
                info.start.as_ptr() as usize == address && node.shape.is_of(&info)
            });
        Some(known && node.word(0).load(Relaxed) == pattern(options::get().seed, node.id, 0))
    }

    /// The whole audit; `most_heads` is the bound on what is left over. Gives how many heads there
    /// are; `None` if collections are disabled, by another thread, or if others collect all the
    /// time.
    pub fn audit(&mut self, random: &mut fastrand::Rng, most_heads: usize) -> Option<usize> {
        self.sweep_check(random);
        // No cycle changes marks and links while they are compared.
        let held = (0..ATTEMPTS).any(|_| collect_twice() && api::hold_collections_if_idle());
        if !held {
            return None;
        }
        let heads = self.compare(most_heads);
        api::release_collections();
        Some(heads)
    }

    /// Looks for the dead, and forgets those that are gone; gives the heads of what is left.
    fn compare(&mut self, most_heads: usize) -> usize {
        let dead: Vec<Index> = (0..self.nodes.len() as Index)
            .filter(|index| self.nodes[*index as usize].as_ref().is_some_and(|node| node.dead))
            .collect();
        dead.iter().for_each(|index| self.check_death(*index));
        let left: Vec<Index> =
            dead.iter().copied().filter(|index| self.is_there(*index) == Some(true)).collect();
        left.iter().for_each(|parent| self.check_children(*parent));
        let heads = self.heads(&left);
        if heads.len() > most_heads {
            let shown: String = heads.iter().take(8).map(|head| self.tell_of(*head)).collect();
            fail!(
                "leak: {} unreachable objects are left after two collections, from {} heads; stale \
                 words explain {most_heads}. Heads, and the words that point to them:{shown}",
                left.len(),
                heads.len(),
            );
        }
        let count = heads.len();
        self.forget_gone(&dead, left);
        count
    }

    /// What tells of a death agrees.
    fn check_death(&self, index: Index) {
        let node = self.node(index);
        let Some(there) = self.is_there(index) else { return };
        if let Some(link) = &node.link {
            ensure!(
                there || link.load(Relaxed) == 0,
                "stale: {} is gone, and its link was not cleared",
                node.describe()
            );
        }
        if let Some(weak) = node.weak {
            let object = weak.get();
            ensure!(
                object == 0 || there && object == node.address.reveal(),
                "stale: {} is gone, and its weak handle gives {object:#x}",
                node.describe()
            );
            ensure!(
                !weak.long || there == (object != 0),
                "lost: {} is still there, and its weak handle gives null",
                node.describe()
            );
        }
        for pair in &node.pairs {
            let found = pair.get();
            ensure!(
                there || found == (0, 0),
                "stale: {} is gone, and its ephemeron gives {found:x?}",
                node.describe()
            );
        }
    }

    fn tell_of(&self, head: Index) -> String {
        let node = self.node(head);
        let start = node.address.reveal();
        format!("\n  {}{}", node.describe(), who::points_to(start, start + node.bytes))
    }

    /// What a dead object that is still there points to must be there: it was marked with it.
    fn check_children(&self, parent: Index) {
        let node = self.node(parent);
        for edge in node.slots.iter().filter_map(|slot| slot.edge) {
            let child = self.node(edge.target);
            ensure!(
                self.is_there(edge.target) != Some(false),
                "lost: {} was kept, and its child {} was not",
                node.describe(),
                child.describe()
            );
        }
    }

    /// Removes the dead that are gone, and those of whom nothing can be told unless one that is
    /// left points to them.
    fn forget_gone(&mut self, dead: &[Index], left: Vec<Index>) {
        let mut kept = vec![false; self.nodes.len()];
        let mut grey = left;
        while let Some(index) = grey.pop() {
            if !core::mem::replace(&mut kept[index as usize], true) {
                grey.extend(self.children(index));
            }
        }
        for &index in dead.iter().filter(|index| !kept[**index as usize]) {
            if self.is_there(index) == Some(false) {
                let cleaners = core::mem::take(&mut self.node_mut(index).cleaners);
                self.owed.extend(cleaners.into_iter().filter(|record| record.times() == 0));
            }
            self.remove(index);
        }
    }

    /// Fails if a cleaner of an object that is gone has not run, or a reference to it was not
    /// taken. When nobody is in the midst of one.
    pub fn check_cleaned(&self) {
        if let Some(record) = self.owed.iter().find(|record| record.times() == 0) {
            fail!("lost: an object is gone, and {} {} times", record.describe(), record.times());
        }
    }

    /// The fewest nodes of `left` from which all of it can be reached: one of each source of the
    /// condensed graph.
    fn heads(&self, left: &[Index]) -> Vec<Index> {
        let inside: std::collections::HashSet<Index> = left.iter().copied().collect();
        // Those left may be joined through nodes of which nothing can be told, so these are walked
        // too.
        let mut seen = vec![false; self.nodes.len()];
        let mut finished = Vec::new();
        for &start in left {
            let mut stack = vec![(start, false)];
            while let Some((index, done)) = stack.pop() {
                if done {
                    finished.push(index);
                } else if !core::mem::replace(&mut seen[index as usize], true) {
                    stack.push((index, true));
                    stack.extend(
                        self.children(index)
                            .filter(|child| !seen[*child as usize])
                            .map(|child| (child, false)),
                    );
                }
            }
        }
        // In the reverse order of finishing, whoever is not reached yet is a head.
        seen.fill(false);
        let mut heads = Vec::new();
        for &start in finished.iter().rev() {
            if seen[start as usize] || !inside.contains(&start) {
                continue;
            }
            heads.push(start);
            let mut grey = vec![start];
            while let Some(index) = grey.pop() {
                if !core::mem::replace(&mut seen[index as usize], true) {
                    grey.extend(self.children(index).filter(|child| !seen[*child as usize]));
                }
            }
        }
        heads
    }
}

/// Overwrites the stack below, where earlier calls left words.
#[inline(never)]
fn clear_stack_below() {
    let mut words = [0_usize; 4096];
    core::hint::black_box(&mut words);
}

/// Collects twice, and on while finalizers become ready; false if a collection was refused.
fn collect_twice() -> bool {
    let mut quiet = 0;
    for _ in 0..MOST_COLLECTIONS {
        clear_stack_below();
        if !api::collect() {
            return false;
        }
        quiet = if finalizer::run_ready() == 0 { quiet + 1 } else { 0 };
        cleaners::poll();
        if quiet == 2 {
            break;
        }
    }
    true
}
