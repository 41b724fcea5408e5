//! Choosing a watch: by doing, never by kernel version.
//!
//! Called at start-up, and in a forked child.

#![allow(unsafe_code)]

use core::ops::Range;

use super::Watch;
use super::pagemap::Pagemap;
use crate::addr::PAGE_BYTES;
use crate::sys::map;

/// Whether the `pagemap` watch does what it should here: registers two pages, arms them, writes one, and asks.
pub fn pagemap_works() -> bool {
    let Ok(start) = map::allocate(2 * PAGE_BYTES) else { return false };
    let range = start.0..start.0 + 2 * PAGE_BYTES;
    let works = try_out(&range).unwrap_or(false);
    map::release(start, 2 * PAGE_BYTES);
    works
}

fn try_out(range: &Range<usize>) -> Option<bool> {
    let mut watch = Pagemap::open()?;
    let touch = |address: usize| {
        // SAFETY: the caller's two pages are mapped and ours.
        unsafe { (address as *mut u8).write_volatile(1) };
    };
    touch(range.start);
    touch(range.start + PAGE_BYTES);
    if !watch.register(range) {
        return None;
    }
    let mut count = 0;
    let mut counted = |watch: &mut Pagemap| {
        count = 0;
        watch.take_written(range, &mut |found| count += found.len() / PAGE_BYTES).then_some(count)
    };
    counted(&mut watch)?;
    let clean = counted(&mut watch)? == 0;
    touch(range.start);
    Some(clean && counted(&mut watch)? == 1)
}
