//! What requests cost: in Neap's cells, and in the bins of an allocator with powers of two, with
//! and without a type pointer for each object.
//!
//! Invariant: the cell of a size is the one that the library hands out; a test of the whole
//! compares the sums with what the library counted itself. Pure.

use neap_record::Recording;

/// Bins of the comparison: powers of two from 16 to here, then whole pages.
pub const LARGEST_BIN: u64 = 4096;

/// Requests and what they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests.
    pub objects: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes of the cells handed out.
    pub allocated: u64,
}

impl Cost {
    /// Bytes of cells that nobody asked for.
    pub fn wasted(&self) -> u64 {
        self.allocated.saturating_sub(self.requested)
    }

    /// Adds `count` requests of `size` bytes in cells of `cell`.
    pub fn add(&mut self, size: u64, count: u64, cell: u64) {
        self.objects = self.objects.saturating_add(count);
        self.requested = self.requested.saturating_add(size.saturating_mul(count));
        self.allocated = self.allocated.saturating_add(cell.saturating_mul(count));
    }
}

/// How a process makes cells of sizes.
pub struct Cells<'r> {
    classes: &'r [u64],
    page: u64,
    past_end: u64,
    align_all: bool,
}

impl<'r> Cells<'r> {
    /// As the recorded process does, or did last: where it changed, that is a problem of the
    /// recording.
    pub fn of(recording: &'r Recording) -> Self {
        Self {
            classes: &recording.process.cells,
            page: recording.process.page_bytes.max(1),
            past_end: recording.conditions.past_end,
            align_all: recording.conditions.align_all != 0,
        }
    }

    /// The class of a request and the bytes of its cell; None as the class of large objects.
    pub fn cell(&self, size: u64) -> (Option<usize>, u64) {
        let wanted = size.saturating_add(self.past_end).max(1);
        let class = self.classes.partition_point(|cell| *cell < wanted);
        let skewed = |cell: &u64| self.align_all && !cell.is_multiple_of(16);
        let class = class + usize::from(self.classes.get(class).is_some_and(skewed));
        match self.classes.get(class) {
            Some(cell) => (Some(class), *cell),
            None => (None, whole_pages(wanted, self.page)),
        }
    }
}

fn whole_pages(bytes: u64, page: u64) -> u64 {
    bytes.checked_next_multiple_of(page).unwrap_or(u64::MAX)
}

/// The bin of a size among powers of two, None for whole pages; and what it costs there.
pub fn power_of_two(size: u64) -> (Option<u64>, u64) {
    if size <= LARGEST_BIN {
        let bin = size.next_power_of_two().max(16);
        (Some(bin), bin)
    } else {
        (None, whole_pages(size, LARGEST_BIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        let mut recording = Recording::default();
        recording.process.cells = vec![8, 16, 24, 32, 40, 48];
        recording.process.page_bytes = 4096;
        recording
    }

    #[test]
    fn cells_by_table() {
        let mut recording = recording();
        let cell = |recording: &Recording, size| Cells::of(recording).cell(size);
        assert_eq!(cell(&recording, 0), (Some(0), 8));
        assert_eq!(cell(&recording, 17), (Some(2), 24));
        assert_eq!(cell(&recording, 48), (Some(5), 48));
        assert_eq!(cell(&recording, 49), (None, 4096));
        recording.conditions.align_all = 1;
        assert_eq!(cell(&recording, 8), (Some(1), 16));
        assert_eq!(cell(&recording, 17), (Some(3), 32));
        recording.conditions.past_end = 1;
        assert_eq!(cell(&recording, 8), (Some(1), 16));
        assert_eq!(cell(&recording, 4096), (None, 8192));
    }

    #[test]
    fn the_seeds_bins() {
        for (size, bin, cost) in [
            (0, Some(16), 16),
            (16, Some(16), 16),
            (17, Some(32), 32),
            (4096, Some(4096), 4096),
            (4097, None, 8192),
        ] {
            assert_eq!(power_of_two(size), (bin, cost));
        }
    }
}
