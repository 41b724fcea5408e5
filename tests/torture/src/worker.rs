//! A worker: one mutator with a graph of its own, that does random operations on it, on the graph
//! that all share, and on the collector.
//!
//! Invariant: with one worker and no forks everything that it does follows from the seed. Each runs
//! on its own thread, begun by `threads`.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::failure::note_position;
use crate::fiber::Fiber;
use crate::options::{self, Sabotage};
use crate::referrers::{all_ready, monitors};
use crate::shadow::audit::MOST_HEADS;
use crate::shadow::graph::Graph;
use crate::shadow::objects;
use crate::shadow::places::{Place, Slots};
use crate::{control, ensure, fork, threads};
use neap_core::api;

/// The graph that all workers use in turn.
pub static SHARED: Mutex<Option<Graph>> = Mutex::new(None);
/// Operations on graphs, of all workers of this process that have ended.
pub static OPERATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Operations on graphs that this thread's worker has done.
    static OWN_OPERATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Fibers of a worker at most.
const MOST_FIBERS: usize = 4;

/// A mutator.
pub struct Worker {
    /// Its number, for messages.
    pub number: usize,
    /// What it does next.
    pub random: fastrand::Rng,
    /// Its own objects.
    pub graph: Graph,
    #[allow(clippy::vec_box)] // a fiber's context knows its address
    fibers: Vec<Box<Fiber>>,
    /// Forks between the first process and this one.
    pub generation: u32,
    /// Threads that begot each other before this one.
    pub depth: u32,
    operations: u64,
    /// Allocations that were refused.
    pub refused: u64,
}

/// Takes the shared graph, waiting in a blocked region now and then.
fn shared(random: &mut fastrand::Rng) -> MutexGuard<'static, Option<Graph>> {
    let lock = || SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if random.bool() { api::blocked(lock) } else { lock() }
}

impl Worker {
    /// A worker whose graph has one place of each sort; `slots` is on its stack.
    pub fn new(number: usize, seed: u64, depth: u32, slots: &Slots) -> Self {
        let mut graph = Graph::new();
        Place::in_static_data().map(|place| graph.add_place(place));
        Place::registered(32).map(|place| graph.add_place(place));
        Place::of_handles(24, number.is_multiple_of(2)).map(|place| graph.add_place(place));
        graph.add_place(Place::in_thread_storage());
        graph.add_place(Place::lent(slots));
        Self {
            number,
            random: fastrand::Rng::with_seed(seed),
            graph,
            fibers: Vec::new(),
            generation: 0,
            depth,
            operations: 0,
            refused: 0,
        }
    }

    /// Does so many steps, each of which may be several operations on graphs.
    pub fn run(&mut self, operations: u64) {
        for _ in 0..operations {
            self.operation();
        }
        OPERATIONS.fetch_add(OWN_OPERATIONS.take(), Relaxed);
    }

    /// Not inlined, here and below: a frame that is gone keeps no stale words.
    #[inline(never)]
    fn operation(&mut self) {
        self.operations += 1;
        note_position(self.number, self.operations);
        let options = options::get();
        let mut choice = self.random.u32(0..10_000);
        let mut chosen = |weight: u32| {
            let yes = choice < weight;
            choice = choice.wrapping_sub(weight);
            yes
        };
        if chosen(options.forks) {
            fork::fork(self);
        } else if chosen(options.fibers) {
            self.on_a_fiber();
        } else if chosen(options.spawns) {
            threads::beget(self);
        } else if chosen(options.collections) {
            control::collect(self);
        } else if chosen(options.all_ready) {
            all_ready::make();
        } else if chosen(options.audits) {
            self.audit();
        } else if chosen(options.monitors) {
            monitors::something(self);
        } else if chosen(options.controls) {
            control::something(self);
        } else if self.generation == 0 && chosen(1500) {
            self.on_the_shared_graph();
        } else {
            self.graph_operations(1);
        }
        if self.graph.bytes > options.live_bytes {
            objects::let_go(&mut self.graph, &mut self.random);
            self.audit();
            if self.graph.bytes > options.live_bytes {
                // What is left is pinned from within the graph.
                self.empty();
                self.audit();
            }
        }
        if options.sabotages(Sabotage::Stale) && self.operations.is_multiple_of(500) {
            self.spoil();
        }
    }

    /// Operations on the own graph alone; also run on fibers.
    pub fn graph_operations(&mut self, count: u32) {
        for _ in 0..count {
            if !graph_operation(&mut self.graph, &mut self.random) {
                self.memory_was_refused();
            }
        }
    }

    fn on_the_shared_graph(&mut self) {
        let mut guard = shared(&mut self.random);
        let Some(graph) = guard.as_mut() else { return };
        for _ in 0..self.random.u32(1..20) {
            if !graph_operation(graph, &mut self.random) {
                self.refused += 1;
                objects::let_go(graph, &mut self.random);
            }
        }
        if self.random.u32(0..1000) < 3 || graph.bytes > options::get().live_bytes {
            if graph.bytes > options::get().live_bytes {
                objects::let_go(graph, &mut self.random);
            }
            graph.audit(&mut self.random, MOST_HEADS);
        }
    }

    fn on_a_fiber(&mut self) {
        let count = self.fibers.len();
        if count < MOST_FIBERS && self.random.u32(0..3) == 0 {
            if let Some(mut fiber) = Fiber::new() {
                fiber.place = self.graph.add_place(fiber.slots_as_place());
                self.fibers.push(fiber);
            }
        } else if count > 0 {
            let mut fiber = self.fibers.swap_remove(self.random.usize(0..count));
            if self.random.u32(0..6) == 0 {
                self.graph.remove_place(fiber.place);
                fiber.end();
            } else {
                let operations = self.random.u32(1..40);
                fiber.work(self, operations);
                self.fibers.push(fiber);
            }
        }
    }

    /// Has the own graph audited.
    pub fn audit(&mut self) {
        self.graph.audit(&mut self.random, MOST_HEADS);
    }

    fn memory_was_refused(&mut self) {
        self.refused += 1;
        ensure!(
            options::get().neap_value("max_heap").is_some(),
            "an allocation was refused, and there is no limit"
        );
        objects::let_go(&mut self.graph, &mut self.random);
        self.audit();
    }

    /// Changes a word that the shadow does not expect to change.
    fn spoil(&mut self) {
        if let Some((_, index)) = self.graph.walk(&mut self.random) {
            let node = self.graph.node(index);
            if node.bytes >= 8 && node.is_pattern(0) {
                node.word(0).fetch_xor(1 << 17, Relaxed);
            }
        }
    }

    /// Lets go of everything.
    fn empty(&mut self) {
        monitors::leave_all(&mut self.graph);
        for number in 0..self.graph.places.len() {
            self.graph.empty_place(number);
        }
        objects::free_all_pinned(&mut self.graph);
    }

    /// Lets go of everything, has it audited, gives memory back; what is left over is handed on.
    pub fn finish(mut self) -> Graph {
        note_position(self.number, self.operations);
        self.audit();
        self.empty();
        self.audit();
        for fiber in core::mem::take(&mut self.fibers) {
            self.graph.remove_place(fiber.place);
            fiber.end();
        }
        for number in 0..self.graph.places.len() {
            self.graph.remove_place(number);
        }
        self.graph
    }

    /// Sleeps a little, or gives the processor away.
    pub fn pause(&mut self) {
        match self.random.u32(0..4) {
            0 => std::thread::sleep(Duration::from_micros(self.random.u64(1..300))),
            _ => std::thread::yield_now(),
        }
    }
}

/// One operation on a graph; false if memory was refused.
#[inline(never)]
fn graph_operation(graph: &mut Graph, random: &mut fastrand::Rng) -> bool {
    OWN_OPERATIONS.set(OWN_OPERATIONS.get() + 1);
    match random.u32(0..1000) {
        0..400 => return objects::create(graph, random),
        400..600 => objects::join(graph, random),
        600..760 => objects::cut(graph, random),
        760..850 => objects::resize(graph, random),
        850..910 => objects::free(graph, random),
        910..914 => objects::change_places(graph, random),
        914..950 => objects::take_back(graph, random),
        _ => _ = graph.walk(random),
    }
    true
}
