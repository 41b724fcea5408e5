//! The `pagemap` watch: userfaultfd's asynchronous write protection, read by `PAGEMAP_SCAN`. No signal, no handler thread, no copy.
//!
//! Invariant: as the trait's contract; the kernel does both halves of a report under the page table's lock. Used by one thread at a time.

use core::ops::Range;

use super::Watch;
use crate::sys::meta_vec::MetaVec;
use crate::sys::write_watch::{Region, WriteWatch};

/// Written ranges that one system call reports at most.
const REGIONS: usize = 1 << 12;

/// An open watch and room for its answers.
pub struct Pagemap {
    watch: WriteWatch,
    regions: MetaVec<Region>,
}

impl Pagemap {
    /// Opens the watch; None where the system refuses.
    pub fn open() -> Option<Self> {
        let watch = WriteWatch::open().ok()?;
        let mut regions = MetaVec::new();
        regions.try_resize(REGIONS, Region::default()).ok()?;
        Some(Self { watch, regions })
    }
}

impl Watch for Pagemap {
    fn register(&mut self, range: &Range<usize>) -> bool {
        self.watch.register(range).is_ok()
    }

    fn take_written(
        &mut self,
        range: &Range<usize>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> bool {
        self.watch.take_written(range, &mut self.regions, written).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::choose;
    use super::*;
    use crate::addr::PAGE_BYTES;
    use crate::sys::map;

    fn written(watch: &mut Pagemap, range: &Range<usize>) -> Vec<usize> {
        let mut pages = Vec::new();
        assert!(watch.take_written(range, &mut |found| {
            pages.extend(
                found.step_by(PAGE_BYTES).map(|address| (address - range.start) / PAGE_BYTES),
            );
        }));
        pages
    }

    #[test]
    fn reports_each_written_page_once_and_kernel_writes_too() {
        if !choose::pagemap_works() {
            return;
        }
        let mut watch = Pagemap::open().unwrap();
        let start = map::allocate(64 * PAGE_BYTES).unwrap().0;
        let range = start..start + 64 * PAGE_BYTES;
        assert!(watch.register(&range));
        assert_eq!(written(&mut watch, &range).len(), 64, "never armed counts as written");
        assert_eq!(written(&mut watch, &range), []);
        let zero = std::fs::File::open("/dev/zero").unwrap();
        #[allow(unsafe_code)]
        // SAFETY: the pages are ours.
        unsafe {
            *((start + 3 * PAGE_BYTES) as *mut u8) = 1;
            *((start + 9 * PAGE_BYTES) as *mut u8) = 1;
            let buffer = core::slice::from_raw_parts_mut((start + 20 * PAGE_BYTES) as *mut u8, 10);
            std::io::Read::read_exact(&mut &zero, buffer).unwrap();
        }
        assert_eq!(written(&mut watch, &range), [3, 9, 20]);
        assert_eq!(written(&mut watch, &range), []);
    }
}
