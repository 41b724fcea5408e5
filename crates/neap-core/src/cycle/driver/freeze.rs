//! Freezing what is alive and unfreezing it, between cycles.
//!
//! Invariant: done under the collector's lock with no cycle under way, so that no marker and no
//! sweep ever sees a block change sides. On a mutator, outside critical sections.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::collect::{self, Reason};
use super::holding;
use crate::cycle::collector;
use crate::cycle::phase::Phase;
use crate::cycle::policy::generation::Generations;
use crate::cycle::schedule::set_due;
use crate::heap::HEAP;
use crate::world::attach;

/// Attempts to find a moment between cycles. More than one is needed only where other threads
/// collect all the time.
const ATTEMPTS: usize = 16;

/// Collects, and makes permanent what lives then. False if nothing was frozen, because collections
/// are disabled or held off by this thread.
pub fn freeze() -> bool {
    HEAP.state.freezing.fetch_add(1, SeqCst);
    let frozen = collect_and_freeze();
    HEAP.state.freezing.fetch_sub(1, SeqCst);
    frozen
}

fn collect_and_freeze() -> bool {
    for _ in 0..ATTEMPTS {
        if !collect::collect(Reason::Explicit) {
            return false;
        }
        let mutator = attach::current();
        let frozen = between_cycles(|| {
            let _critical = mutator.critical();
            // Its blocks would be left out, and its next objects come to lie among the frozen ones.
            mutator.local.let_go(&HEAP);
            let mut inner = HEAP.inner();
            while !inner.sweep_step(&HEAP) {}
            inner.freeze(&HEAP);
        });
        if frozen {
            return true;
        }
    }
    false
}

/// Makes every frozen object an ordinary one. False if this thread holds collections off, or others
/// collect all the time.
pub fn unfreeze() -> bool {
    let mutator = attach::current();
    if mutator.holds.load(Relaxed) > 0 {
        return false;
    }
    for _ in 0..ATTEMPTS {
        let thawed = between_cycles(|| {
            let _critical = mutator.critical();
            HEAP.inner().unfreeze(&HEAP);
        });
        if thawed {
            return true;
        }
        if !collect::collect(Reason::Explicit) {
            return false;
        }
    }
    false
}

/// Runs `f` if no cycle is under way, and sets the trigger anew.
fn between_cycles(f: impl FnOnce()) -> bool {
    holding::hold();
    let idle = collector::held(attach::current(), |collector| {
        if collector.phase != Phase::Idle {
            return false;
        }
        f();
        let state = &HEAP.state;
        let frozen = state.frozen_bytes.load(Relaxed);
        collector.marked = state.live_bytes.load(Relaxed).saturating_sub(frozen);
        collector.gained = 0.0;
        // What is old has changed: the next cycle is a full one.
        collector.generations = Generations::new();
        set_due(collector);
        true
    });
    holding::release();
    idle
}
