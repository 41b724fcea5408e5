//! The gate to the markers, and the slots of threads that assist.
//!
//! Invariant `[cycle.inv.gate]`: after [`Gate::shut`] nobody is inside, nobody will be before it is
//! opened again, and all that was done inside is visible. A slot belongs to one thread from
//! [`Slots::take`] to [`Slots::give_back`]. Opened and shut by the cycle's driver; passed by
//! helpers and by threads of the program. Model-checked in `tests/loom_gate.rs`.

use crate::sync::atomic::{AtomicU32, Ordering::*};

const OPEN: u32 = 1 << 31;

/// An open flag and the number of those inside.
pub struct Gate(AtomicU32);

impl Gate {
    /// A gate that is shut, with nobody inside.
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Lets others in.
    pub fn open(&self) {
        self.0.fetch_or(OPEN, Release);
    }

    /// Lets nobody in any more, and calls `wait` until everybody has left.
    pub fn shut(&self, mut wait: impl FnMut()) {
        let mut inside = self.0.fetch_and(!OPEN, AcqRel) & !OPEN;
        while inside != 0 {
            wait();
            inside = self.0.load(Acquire);
        }
    }

    /// Passes the gate if it is open; gives how many are inside now.
    pub fn enter(&self) -> Option<u32> {
        let enters = |gate| (gate & OPEN != 0).then_some(gate + 1);
        let before = self.0.fetch_update(AcqRel, Acquire, enters).ok()?;
        Some((before & !OPEN) + 1)
    }

    /// Leaves.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Release);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// A bit for each of `COUNT` slots that is taken.
pub struct Slots<const COUNT: u32>(AtomicU32);

impl<const COUNT: u32> Slots<COUNT> {
    /// All free.
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes a free slot, if there is one. Acquire: who had it before is done with what belongs to
    /// it.
    pub fn take(&self) -> Option<u32> {
        let first_free = |slots: u32| (!slots).trailing_zeros();
        let takes = |slots| (first_free(slots) < COUNT).then(|| slots | 1 << first_free(slots));
        self.0.fetch_update(AcqRel, Acquire, takes).ok().map(first_free)
    }

    /// Gives a slot back.
    pub fn give_back(&self, slot: u32) {
        self.0.fetch_and(!(1 << slot), Release);
    }
}

impl<const COUNT: u32> Default for Slots<COUNT> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_shut_gate_lets_nobody_in() {
        let gate = Gate::new();
        assert_eq!(gate.enter(), None);
        gate.open();
        assert_eq!([gate.enter(), gate.enter()], [Some(1), Some(2)]);
        gate.leave();
        let mut waited = 0;
        gate.shut(|| {
            waited += 1;
            assert_eq!(gate.enter(), None);
            gate.leave();
        });
        assert_eq!(waited, 1);
    }

    #[test]
    fn slots_are_taken_once() {
        let slots = Slots::<2>::new();
        assert_eq!([slots.take(), slots.take(), slots.take()], [Some(0), Some(1), None]);
        slots.give_back(0);
        assert_eq!(slots.take(), Some(0));
    }
}
