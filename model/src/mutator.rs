//! What a thread of the program does in one step: load, store, drop, allocate, free.
//!
//! Invariant: the program is a right one, so it frees only what nothing else leads to. A thread
//! uses what its registers lead to, and the variable. Pure; called by the model for each thread,
//! unless the world is stopped.

use crate::heap::{Heap, LARGE, Set, THREADS, each};

/// One step of a thread; registers are the thread's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The register becomes what the field holds, of an object that a register leads to.
    Load {
        /// The field.
        field: u8,
        /// The register.
        to: u8,
    },
    /// The field becomes what the register holds, or null.
    Store {
        /// The field.
        field: u8,
        /// The register, if it is not null.
        from: Option<u8>,
    },
    /// The register becomes what the variable holds.
    Get(u8),
    /// The variable becomes what the register holds.
    Put(u8),
    /// The register becomes null.
    Drop(u8),
    /// The register leads to a new object.
    Allocate {
        /// Its cell.
        cell: u8,
        /// Whether it takes frames 1 and 2.
        large: bool,
        /// The register.
        to: u8,
    },
    /// The object that the register leads to is freed by name, and forgotten.
    Free(u8),
}

/// Registers of each thread.
const REGISTERS: [u8; THREADS] = [2, 1];

/// What the collector has told those who allocate and free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Told {
    /// Freeing is a hint.
    pub marking: bool,
    /// Objects are born marked.
    pub black: bool,
}

impl Heap {
    /// Everything that a thread may do next.
    pub fn operations(&self, thread: usize, told: Told, mut f: impl FnMut(Operation)) {
        let own = self.registers[thread];
        let registers = 0..REGISTERS[thread];
        let held = registers.clone().filter_map(|register| self.target(own[register as usize]));
        let fields = held.fold(0, |fields, cell| fields | self.fields_of(cell));
        for field in each(fields) {
            registers.clone().for_each(|to| f(Operation::Load { field, to }));
            f(Operation::Store { field, from: None });
            let full = registers.clone().filter(|from| own[*from as usize] != 0);
            full.for_each(|from| f(Operation::Store { field, from: Some(from) }));
        }
        for register in registers {
            f(Operation::Get(register));
            for (cell, large) in [(0, false), (1, false), (LARGE, false), (3, false), (LARGE, true)]
            {
                if self.is_free(cell, large) {
                    f(Operation::Allocate { cell, large, to: register });
                }
            }
            if own[register as usize] != 0 {
                f(Operation::Put(register));
                f(Operation::Drop(register));
                // While marking, freeing only drops the pointer.
                if !told.marking && self.may_free(thread, register) {
                    f(Operation::Free(register));
                }
            }
        }
    }

    /// Whether a new object can have this cell now: in a swept block, or in frames that belong to
    /// none.
    fn is_free(&self, cell: u8, large: bool) -> bool {
        if large {
            return self.formed & 0b110 == 0;
        }
        let block = Self::block_of(cell);
        self.allocated & 1 << cell == 0
            && self.unswept & 1 << block == 0
            && !(self.large && block > 0)
    }

    fn may_free(&self, thread: usize, register: u8) -> bool {
        let mut without = *self;
        let pointer = core::mem::take(&mut without.registers[thread][register as usize]);
        self.target(pointer).is_some_and(|cell| without.reachable() & 1 << cell == 0)
    }

    /// Does it. `half_protected` leaves out what keeps a new block of several frames from being
    /// protected in part.
    pub fn operate(
        &mut self,
        thread: usize,
        operation: Operation,
        told: Told,
        half_protected: bool,
    ) {
        let own = self.registers[thread];
        let (register, pointer) = match operation {
            Operation::Load { field, to } => (to, self.fields[field as usize]),
            Operation::Get(to) => (to, self.variable),
            Operation::Drop(register) => (register, 0),
            Operation::Store { field, from } => {
                return self.store(field, from.map_or(0, |from| own[from as usize]));
            }
            Operation::Put(from) => return self.variable = own[from as usize],
            Operation::Allocate { cell, large, to } => {
                self.allocate(cell, large, told, half_protected);
                (to, cell + 1)
            }
            Operation::Free(register) => {
                if let Some(cell) = self.target(own[register as usize]) {
                    self.free(cell);
                }
                (register, 0)
            }
        };
        self.registers[thread][register as usize] = pointer;
    }

    fn allocate(&mut self, cell: u8, large: bool, told: Told, half_protected: bool) {
        self.large |= large;
        let span = self.span(Self::block_of(cell));
        self.formed |= span;
        if large && !half_protected {
            self.protected &= !span;
        }
        // Zeroing is a store; memory that is zero already is not written.
        for field in each(self.fields_of(cell)) {
            if self.fields[field as usize] != 0 {
                self.store(field, 0);
            }
        }
        self.allocated |= 1 << cell;
        if told.black {
            self.marked |= 1 << cell;
        }
    }

    fn free(&mut self, cell: u8) {
        let bit: Set = 1 << cell;
        self.allocated &= !bit;
        self.marked &= !bit;
        if self.large && cell == LARGE {
            self.dissolve(0b110);
        }
    }
}
