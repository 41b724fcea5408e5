//! Models of the gate to the markers of markers, every interleaving of which loom tries: when it is
//! shut, nobody is inside, and what was done inside is visible; a slot belongs to one assisting
//! thread at a time.
//!
//! Invariant: the models use the very file that the core is built of, with loom's atomics. What a
//! marker does inside is an access to a cell of loom's, which finds any other at the same time.
//! Run by `make loom` with `--cfg loom`; without it there is nothing here.

#![cfg(loom)]

mod sync {
    //! What the file under test imports as `crate::sync`.
    pub use loom::sync::atomic;
}

#[path = "../src/cycle/workers/gate.rs"]
#[allow(dead_code)]
mod gate;

use gate::{Gate, Slots};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The gate, what a helper and what assisting threads write inside, and their one slot.
struct Markers {
    gate: Gate,
    slots: Slots<1>,
    helper: UnsafeCell<u32>,
    assisting: UnsafeCell<u32>,
}

// SAFETY: the cells are loom's, which fails the model where two threads use one at the same time.
unsafe impl Sync for Markers {}
// SAFETY: as above.
unsafe impl Send for Markers {}

impl Markers {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            gate: Gate::new(),
            slots: Slots::new(),
            helper: UnsafeCell::new(0),
            assisting: UnsafeCell::new(0),
        })
    }

    /// As `help` in `cycle/markers.rs`.
    fn help(&self) {
        if self.gate.enter().is_some() {
            add_one(&self.helper);
            self.gate.leave();
        }
    }

    /// As `assist` there.
    fn assist(&self) {
        let Some(slot) = self.slots.take() else { return };
        if self.gate.enter().is_some() {
            add_one(&self.assisting);
            self.gate.leave();
        }
        self.slots.give_back(slot);
    }

    /// As `work` in `cycle/workers/mod.rs`, and then the driver alone.
    fn drive(&self) {
        self.gate.open();
        self.gate.shut(thread::yield_now);
        add_one(&self.helper);
        add_one(&self.assisting);
    }
}

fn add_one(cell: &UnsafeCell<u32>) {
    // SAFETY: loom checks that nobody else uses it meanwhile.
    cell.with_mut(|count| unsafe { *count += 1 });
}

#[test]
fn nobody_is_inside_when_the_gate_is_shut() {
    loom::model(|| {
        let markers = Markers::new();
        let helper = {
            let markers = markers.clone();
            thread::spawn(move || markers.help())
        };
        let assisting = {
            let markers = markers.clone();
            thread::spawn(move || markers.assist())
        };
        markers.drive();
        helper.join().unwrap();
        assisting.join().unwrap();
    });
}

#[test]
fn a_gate_that_is_opened_again_lets_late_ones_in() {
    loom::model(|| {
        let markers = Markers::new();
        let helper = {
            let markers = markers.clone();
            thread::spawn(move || markers.help())
        };
        markers.drive();
        markers.drive();
        helper.join().unwrap();
    });
}

#[test]
fn assisting_threads_share_a_slot_one_after_another() {
    loom::model(|| {
        let markers = Markers::new();
        markers.gate.open();
        let assisting = {
            let markers = markers.clone();
            thread::spawn(move || markers.assist())
        };
        markers.assist();
        assisting.join().unwrap();
        markers.gate.shut(thread::yield_now);
        markers.assisting.with(|count| {
            // SAFETY: nobody is inside.
            let count = unsafe { *count };
            assert!((1..=2).contains(&count), "the one slot was used");
        });
    });
}
