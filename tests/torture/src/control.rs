//! Operations on the collector: collections in every form, blocked regions, held and disabled
//! collections, memory given back and asked for, queries.
//!
//! Invariant: nothing here waits for the shared graph while it holds collections off. Called by
//! workers.

use crate::ensure;
use crate::referrers::cleaners;
use crate::worker::Worker;
use neap_core::api::{self, finalizer};

/// A collection, in one of the ways there are.
pub fn collect(worker: &mut Worker) {
    match worker.random.u32(0..5) {
        0 => _ = api::collect_and_release(),
        1 => _ = api::collect_if_due(),
        _ => _ = api::collect(),
    }
    worker.graph.walk(&mut worker.random);
}

/// Something else that a program can ask of the collector.
pub fn something(worker: &mut Worker) {
    match worker.random.u32(0..12) {
        0 => {
            api::disable();
            worker.graph_operations(20);
            hide_and_show(worker);
            api::enable();
        }
        1 => {
            api::hold_collections();
            ensure!(!api::collect(), "a collection ran while this thread held them off");
            worker.graph_operations(20);
            api::release_collections();
        }
        2 => api::release_memory(),
        3 => _ = api::expand(worker.random.usize(1..4 << 20)),
        4 => api::blocked(|| worker.pause()),
        5 => api::blocked(|| {
            worker.pause();
            api::unblocked(|| worker.graph_operations(10));
            worker.pause();
        }),
        6 => {
            finalizer::run_ready();
            cleaners::poll();
        }
        7 => count_objects(worker),
        8 => check_statistics(),
        9 => ask_anything(worker),
        10 => worker.pause(),
        _ => _ = api::collect_if_due(),
    }
}

/// Pointers of this worker's graph are turned round for a while: what they lead to must stay while
/// collections are disabled. A cycle that is under way may read them so, and may want to end.
#[inline(never)]
fn hide_and_show(worker: &mut Worker) {
    let mut hidden = Vec::new();
    for _ in 0..worker.random.u32(0..12) {
        // All walks come before anything is hidden, or they would meet it.
        let Some((keeper, _)) = worker.graph.walk(&mut worker.random) else { break };
        if worker.graph.edge(keeper).is_some() && !worker.graph.keeps_starts(keeper) {
            hidden.push(keeper);
        }
    }
    let turn = |worker: &Worker, back: bool| {
        for keeper in &hidden {
            let edge = worker.graph.edge(*keeper).expect("a pointer");
            let address = worker.graph.resolve(edge);
            worker.graph.write(*keeper, if back { address } else { !address });
        }
    };
    turn(worker, false);
    for _ in 0..worker.random.u32(1..6) {
        worker.pause();
        _ = api::collect_if_due();
    }
    turn(worker, true);
    worker.graph.walk(&mut worker.random);
}

/// Every object that this worker's graph reaches must be among those that the collector lists.
fn count_objects(worker: &mut Worker) {
    let Some((_, index)) = worker.graph.walk(&mut worker.random) else { return };
    let wanted = worker.graph.node(index).address;
    let (mut found, mut bytes) = (0, 0);
    api::with_stopped_world(|| {
        api::for_each_object(|start, cell_bytes, _, _| {
            bytes += cell_bytes;
            if start == wanted.reveal() {
                found += 1;
            }
        });
    });
    ensure!(
        found == 1 && bytes > 0,
        "{} is listed {found} times among the objects",
        worker.graph.node(index).describe()
    );
}

fn check_statistics() {
    let now = api::statistics();
    ensure!(
        now.committed_bytes <= now.peak_bytes.max(now.committed_bytes)
            && now.pause_p50_ns <= now.pause_p99_ns
            && now.pause_p50_ns <= now.pause_max_ns.max(1) * 2
            && now.free_bytes <= now.committed_bytes,
        "statistics that cannot be: {now:?}"
    );
}

/// Any word may be asked about.
fn ask_anything(worker: &mut Worker) {
    let range = api::heap_range();
    for _ in 0..100 {
        let word = match worker.random.u32(0..3) {
            0 => worker.random.usize(..),
            1 => range.end.wrapping_add(worker.random.usize(0..1 << 22)).wrapping_sub(1 << 21),
            _ => worker.random.usize(range.start..range.end.max(range.start + 1)),
        };
        if let Some(info) = api::object_at(word) {
            let start = info.start.as_ptr() as usize;
            ensure!(
                (start..start + info.bytes).contains(&word) && api::is_heap_address(word),
                "{word:#x} is said to lie in {info:x?}"
            );
        }
    }
}
