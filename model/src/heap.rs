//! The heap of the model: three frames of a page each, their cells and fields, the watch, and the
//! program's roots.
//!
//! Frame 0 is a block of two cells. Frames 1 and 2 are blocks of one cell each, or together the
//! block of one large object of two fields. So there are four fields, and field `f` lies on page
//! `max(f, 1) - 1`. Invariant: a pointer is a cell's number and 1, 0 is null. Sets are bits of a
//! byte. Pure; used by every step of the model.

/// Cells, and fields.
pub const CELLS: u8 = 4;
/// Frames, and pages.
pub const FRAMES: u8 = 3;
/// The cell whose object is large, if there is one.
pub const LARGE: u8 = 2;
/// Threads of the program.
pub const THREADS: usize = 2;

/// A set of cells, fields, frames or roots.
pub type Set = u8;

/// The numbers in a set.
pub fn each(set: Set) -> impl Iterator<Item = u8> {
    (0..8).filter(move |index| set >> index & 1 != 0)
}

/// What the program and the collector both see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Heap {
    /// What each field holds.
    pub fields: [u8; CELLS as usize],
    /// Cells that hold an object.
    pub allocated: Set,
    /// Cells whose mark bit is set.
    pub marked: Set,
    /// Frames that belong to a block.
    pub formed: Set,
    /// Frames 1 and 2 are one block.
    pub large: bool,
    /// Frames of blocks that wait to be swept.
    pub unswept: Set,
    /// Frames whose writes the collector expects to be told of.
    pub protected: Set,
    /// Pages that were not written since the kernel protected them.
    pub clean: Set,
    /// What each thread has in its registers; the second thread uses the first one only.
    pub registers: [[u8; 2]; THREADS],
    /// A variable outside the heap and the stacks.
    pub variable: u8,
}

impl Heap {
    /// The page that a field lies on, which is its frame.
    pub fn page(field: u8) -> u8 {
        field.max(1) - 1
    }

    /// The fields of a frame.
    pub fn fields_on(frame: u8) -> Set {
        [0b0011, 0b0100, 0b1000][frame as usize]
    }

    /// The cell that a pointer leads to; into the middle of a large object is to the object.
    pub fn target(&self, pointer: u8) -> Option<u8> {
        let cell = pointer.checked_sub(1)?;
        Some(if self.large && cell > LARGE { LARGE } else { cell })
    }

    /// The cell that a field belongs to.
    pub fn owner(&self, field: u8) -> u8 {
        if self.large && field > LARGE { LARGE } else { field }
    }

    /// The fields of a cell.
    pub fn fields_of(&self, cell: u8) -> Set {
        if self.large && cell == LARGE { 0b1100 } else { 1 << cell }
    }

    /// The first frame of a cell's block.
    pub fn block_of(cell: u8) -> u8 {
        Self::page(cell)
    }

    /// All frames of the block that begins with one.
    pub fn span(&self, block: u8) -> Set {
        if self.large && block == 1 { 0b110 } else { 1 << block }
    }

    /// First frames of blocks that have a marked cell.
    pub fn marked_blocks(&self) -> Set {
        each(self.marked).fold(0, |blocks, cell| blocks | 1 << Self::block_of(cell))
    }

    /// A program's store to a field: the page counts as written.
    pub fn store(&mut self, field: u8, pointer: u8) {
        self.fields[field as usize] = pointer;
        self.clean &= !(1 << Self::page(field));
    }

    /// Objects reachable from these pointers.
    pub fn reachable_from(&self, pointers: impl Iterator<Item = u8>) -> Set {
        let mut reached = pointers
            .filter_map(|pointer| self.target(pointer))
            .fold(0, |set, cell| set | 1 << cell);
        loop {
            let children = each(reached)
                .flat_map(|cell| each(self.fields_of(cell)))
                .filter_map(|field| self.target(self.fields[field as usize]))
                .fold(0, |set, cell| set | 1 << cell);
            if children & !reached == 0 {
                return reached;
            }
            reached |= children;
        }
    }

    /// What the program holds: registers and the variable.
    pub fn roots(&self) -> impl Iterator<Item = u8> + use<> {
        let [[a, b], [c, d]] = self.registers;
        [a, b, c, d, self.variable].into_iter()
    }

    /// Objects that the program can reach.
    pub fn reachable(&self) -> Set {
        self.reachable_from(self.roots())
    }

    /// Sweeps a block: what is not marked is free, and a block without objects is dissolved.
    pub fn sweep(&mut self, block: u8) {
        let span = self.span(block);
        self.unswept &= !span;
        let cells = self.cells_of(block);
        self.allocated &= !cells | self.marked;
        if self.allocated & cells == 0 {
            self.dissolve(span);
        }
    }

    /// The frames are free.
    pub fn dissolve(&mut self, span: Set) {
        self.formed &= !span;
        self.unswept &= !span;
        self.large &= span & 0b110 == 0;
    }

    /// The cells of a block.
    fn cells_of(&self, block: u8) -> Set {
        match block {
            0 => 0b0011,
            _ => 1 << (block + 1),
        }
    }
}
