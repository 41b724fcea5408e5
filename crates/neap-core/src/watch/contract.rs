//! What every write watch has to do: the same tests over all of them.
//!
//! # Safety
//!
//! Tests write to pages of their own.

#![allow(unsafe_code)]

use core::ops::Range;

use super::Watch;
use super::mprotect::Mprotect;
use super::pagemap::Pagemap;
use crate::addr::PAGE_BYTES;
use crate::sys::map;

const PAGES: usize = 64;

/// Runs a test with every watch that works here, each over pages of its own.
fn with_each(test: impl Fn(&mut dyn Watch, Range<usize>)) {
    let mut tried = 0;
    let mut run = |watch: &mut dyn Watch| {
        let start = map::allocate(PAGES * PAGE_BYTES).unwrap();
        test(watch, start.0..start.0 + PAGES * PAGE_BYTES);
        tried += 1;
    };
    if let Ok(mut pagemap) = Pagemap::open() {
        run(&mut pagemap);
    }
    run_mprotect(&test);
    println!("# {tried} watches work here");
}

/// The `mprotect` watch is opened over the memory that it is to watch.
fn run_mprotect(test: &impl Fn(&mut dyn Watch, Range<usize>)) {
    let start = map::allocate(PAGES * PAGE_BYTES).unwrap();
    let range = start.0..start.0 + PAGES * PAGE_BYTES;
    test(&mut Mprotect::open(range.clone()).unwrap(), range);
}

fn written(watch: &mut dyn Watch, range: &Range<usize>) -> Vec<usize> {
    let mut pages = Vec::new();
    watch
        .take_written(range, &mut |found| {
            pages.extend(
                found.step_by(PAGE_BYTES).map(|address| (address - range.start) / PAGE_BYTES),
            );
        })
        .unwrap();
    pages
}

fn store(address: usize) {
    // SAFETY: the test's own pages.
    unsafe { (address as *mut u8).write_volatile(1) };
}

#[test]
fn each_written_page_is_reported_once() {
    with_each(|watch, range| {
        watch.register(&range).unwrap();
        assert_eq!(written(watch, &range).len(), PAGES, "never protected counts as written");
        assert_eq!(written(watch, &range), []);
        for page in [3, 9, 9, 63, 3] {
            store(range.start + page * PAGE_BYTES + 17);
        }
        assert_eq!(written(watch, &range), [3, 9, 63], "[watch.inv.protect-before-scan]");
        assert_eq!(written(watch, &range), []);
        store(range.start + 9 * PAGE_BYTES);
        assert_eq!(written(watch, &range), [9]);
    });
}

#[test]
fn a_part_of_the_range_can_be_asked_about() {
    with_each(|watch, range| {
        watch.register(&range).unwrap();
        written(watch, &range);
        store(range.start + 10 * PAGE_BYTES);
        store(range.start + 40 * PAGE_BYTES);
        let half = range.start..range.start + PAGES / 2 * PAGE_BYTES;
        assert_eq!(written(watch, &half), [10]);
        assert_eq!(written(watch, &range), [40]);
    });
}

#[test]
fn asking_without_arming_changes_nothing() {
    with_each(|watch, range| {
        watch.register(&range).unwrap();
        written(watch, &range);
        store(range.start + 10 * PAGE_BYTES);
        for _ in 0..2 {
            let mut seen = 0;
            watch.written(&range, &mut |found| seen += found.len() / PAGE_BYTES).unwrap();
            assert_eq!(seen, 1);
        }
        assert_eq!(written(watch, &range), [10]);
    });
}

#[test]
fn what_is_unprotected_counts_as_written() {
    with_each(|watch, range| {
        watch.register(&range).unwrap();
        written(watch, &range);
        watch.unprotect(&(range.start + 5 * PAGE_BYTES..range.start + 7 * PAGE_BYTES));
        assert_eq!(written(watch, &range), [5, 6]);
        assert_eq!(written(watch, &range), []);
    });
}

#[test]
fn writes_by_the_kernel_are_reported_or_refused() {
    with_each(|watch, range| {
        watch.register(&range).unwrap();
        written(watch, &range);
        let mut zero = std::fs::File::open("/dev/zero").unwrap();
        // SAFETY: the test's own pages.
        let buffer = unsafe {
            core::slice::from_raw_parts_mut((range.start + 20 * PAGE_BYTES) as *mut u8, 5000)
        };
        match std::io::Read::read_exact(&mut zero, buffer) {
            Ok(()) => assert_eq!(written(watch, &range), [20, 21]),
            // The kernel does not ask the handler.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EFAULT)),
        }
    });
}

#[test]
fn no_write_of_a_running_thread_is_lost() {
    with_each(|watch, range| {
        watch.register(&range).unwrap();
        written(watch, &range);
        let stop = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut last = [0_u64; PAGES];
                let mut count = 0_u64;
                while !stop.load(core::sync::atomic::Ordering::Relaxed) {
                    count += 1;
                    let page = (count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize;
                    // SAFETY: the test's own pages.
                    unsafe {
                        ((range.start + page * PAGE_BYTES) as *mut u64).write_volatile(count)
                    };
                    last[page] = count;
                }
                last
            });
            // What was read of each page after it was reported last.
            let mut seen = [0_u64; PAGES];
            let mut look = |watch: &mut dyn Watch| {
                for page in written(watch, &range) {
                    // SAFETY: as above.
                    seen[page] = unsafe {
                        ((range.start + page * PAGE_BYTES) as *const u64).read_volatile()
                    };
                }
                seen
            };
            for _ in 0..300 {
                look(watch);
            }
            stop.store(true, core::sync::atomic::Ordering::Relaxed);
            let last = writer.join().unwrap();
            assert_eq!(look(watch), last);
        });
    });
}
