//! Tests of the `snapshot` watch: what its thread does for those who write, and how it ends.
//!
//! Invariant: each test runs in a process of its own.
//!
//! # Safety
//! The pages that are written to are the test's own.

#![allow(unsafe_code)]

use super::*;
use crate::check::skip;

const REFUSED: &str = "the system lets nobody serve page faults here";
const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;

/// A watch over a chunk of pages that each hold their number; None where the system refuses.
fn over_a_chunk(most: usize) -> Option<(Snapshot, &'static BeforeImages, Range<usize>)> {
    let start = map::reserve(CHUNK_BYTES, CHUNK_BYTES).unwrap();
    map::commit(start, CHUNK_BYTES).unwrap();
    let range = start.0..start.0 + CHUNK_BYTES;
    (0..PAGES).for_each(|page| store(&range, page, page));
    let memory = map::allocate(size_of::<BeforeImages>().next_multiple_of(PAGE_BYTES)).unwrap();
    // SAFETY: memory of its own, which is never unmapped.
    let kept: &'static BeforeImages = unsafe {
        memory.pointer::<BeforeImages>().write(BeforeImages::new());
        &*memory.pointer::<BeforeImages>()
    };
    kept.open(&range, most).unwrap();
    let mut watch = match Snapshot::open(kept) {
        Ok(watch) => watch,
        Err(refusal) => {
            println!("# not tested: {refusal}");
            return None;
        }
    };
    watch.start().unwrap();
    watch.register(&range).unwrap();
    Some((watch, kept, range))
}

fn store(range: &Range<usize>, page: usize, value: usize) {
    // SAFETY: the test's own pages.
    unsafe { ((range.start + page * PAGE_BYTES) as *mut usize).write_volatile(value) };
}

/// What a marker makes of the first word of a page.
fn snapshot_of(kept: &BeforeImages, range: &Range<usize>, page: usize) -> usize {
    let address = range.start + page * PAGE_BYTES;
    // SAFETY: the test's own pages.
    let mut word = unsafe { (address as *const usize).read_volatile() };
    kept.for_each_before_image(address, address + 8, |image| {
        // SAFETY: copies stay while the watch keeps.
        word = unsafe { *(image.copy as *const usize) }
    });
    word
}

#[test]
fn writers_go_on_and_old_contents_stay() {
    let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
    watch.begin_arming();
    watch.protect(&range).unwrap();
    store(&range, 3, 1003);
    watch.begin_keeping();
    let mut touched = Vec::new();
    assert!(watch.take_touched(|page| touched.push(page)));
    assert_eq!(touched, [range.start + 3 * PAGE_BYTES]);
    watch.protect(&(touched[0]..touched[0] + PAGE_BYTES)).unwrap();
    for _ in 0..2 {
        for page in [3, 9, 511] {
            store(&range, page, 2000);
        }
    }
    assert_eq!(kept.count(), 3);
    for (page, old) in [(3, 1003), (9, 9), (511, 511), (10, 10)] {
        let seen = snapshot_of(kept, &range, page);
        assert_eq!(seen, old, "[watch.inv.copy-before-write], [heap.inv.before-images]");
    }
    watch.end();
    store(&range, 20, 7);
    assert_eq!(kept.count(), 3, "nothing is kept after the end");
}

#[test]
fn a_page_first_touched_while_arming_is_kept_later() {
    let Some((mut watch, kept, _)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
    let start = map::reserve(CHUNK_BYTES, CHUNK_BYTES).unwrap();
    map::commit(start, CHUNK_BYTES).unwrap();
    let range = start.0..start.0 + CHUNK_BYTES;
    kept.open(&range, PAGES).unwrap();
    watch.register(&range).unwrap();
    watch.begin_arming();
    watch.protect(&range).unwrap();
    store(&range, 8, 80);
    watch.begin_keeping();
    let mut touched = Vec::new();
    assert!(watch.take_touched(|page| touched.push(page)));
    touched.iter().for_each(|page| watch.protect(&(*page..page + PAGE_BYTES)).unwrap());
    store(&range, 8, 81);
    assert_eq!(snapshot_of(kept, &range, 8), 80);
}

#[test]
fn the_kernel_may_write_too() {
    let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
    watch.begin_arming();
    watch.protect(&range).unwrap();
    watch.begin_keeping();
    let mut zero = std::fs::File::open("/dev/zero").unwrap();
    // SAFETY: the test's own pages.
    let buffer = unsafe {
        core::slice::from_raw_parts_mut((range.start + 20 * PAGE_BYTES) as *mut u8, 5000)
    };
    std::io::Read::read_exact(&mut zero, buffer).unwrap();
    assert_eq!([20, 21, 22].map(|page| snapshot_of(kept, &range, page)), [20, 21, 22]);
    assert_eq!((kept.count(), buffer[0]), (2, 0));
}

#[test]
fn without_room_writers_go_on_and_it_is_known() {
    let Some((watch, kept, range)) = over_a_chunk(5) else { return skip(REFUSED) };
    watch.begin_arming();
    watch.protect(&range).unwrap();
    watch.begin_keeping();
    (0..PAGES).for_each(|page| store(&range, page, 1));
    assert!(kept.has_overflowed());
    assert_eq!(kept.count(), 5);
}

#[test]
fn several_threads_see_one_snapshot_while_all_is_written() {
    let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
    watch.begin_arming();
    watch.protect(&range).unwrap();
    watch.begin_keeping();
    std::thread::scope(|scope| {
        for first in 0..3 {
            let range = range.clone();
            scope.spawn(move || {
                (0..PAGES).for_each(|page| store(&range, (page * 7 + first) % PAGES, 1 << 20));
            });
        }
        for _ in 0..20 {
            for page in 0..PAGES {
                assert_eq!(snapshot_of(kept, &range, page), page);
            }
        }
    });
    assert_eq!(kept.count(), PAGES, "each is copied once");
}

#[test]
fn descriptors_that_the_program_closes_are_the_threads_own() {
    let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
    watch.begin_arming();
    watch.protect(&range).unwrap();
    watch.begin_keeping();
    // SAFETY: closes a number of ours, as a daemon does that closes all it finds.
    unsafe { libc::close(watch.faults.meant().number) };
    assert!(watch.was_closed());
    (0..PAGES).for_each(|page| store(&range, page, 1));
    assert_eq!(snapshot_of(kept, &range, 77), 77);
}

#[test]
fn a_child_of_fork_writes_without_the_thread() {
    let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
    watch.begin_arming();
    watch.protect(&range).unwrap();
    watch.begin_keeping();
    // SAFETY: the child writes to pages of the test and exits; one that waits for ever is ended
    // by the alarm.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::alarm(10) };
        (0..PAGES).for_each(|page| store(&range, page, 1));
        watch.leave_to_parent();
        // SAFETY: as above.
        unsafe { libc::_exit(7) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 7, "{status:#x}");
    assert_eq!(kept.count(), 0);
    store(&range, 5, 1);
    assert_eq!(kept.count(), 1);
}

/// Whoever wrote there before is served before the thread ends.
#[test]
fn the_thread_ends_when_it_is_told_to_and_not_before() {
    let Some((watch, _, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
    watch.protect(&range).unwrap();
    std::thread::scope(|scope| {
        let state = watch.shared.state.lock();
        scope.spawn(|| store(&range, 3, 1));
        // The thread has the message by now, and waits for the lock.
        std::thread::sleep(core::time::Duration::from_millis(100));
        let end = scope.spawn(|| watch.end_thread());
        std::thread::sleep(core::time::Duration::from_millis(100));
        drop(state);
        end.join().unwrap();
    });
    assert_eq!(watch.shared.stage.load(Acquire), ENDED);
}

#[test]
fn what_was_closed_can_be_opened_again_over_the_same_pages() {
    let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
    // SAFETY: closes a number of ours, as a daemon does that closes all it finds.
    unsafe { libc::close(watch.faults.meant().number) };
    drop(watch);
    let mut watch = Snapshot::open(kept).unwrap();
    watch.start().unwrap();
    watch.register(&range).unwrap();
    watch.protect(&range).unwrap();
    watch.begin_keeping();
    store(&range, 9, 1);
    assert_eq!(snapshot_of(kept, &range, 9), 9);
}

/// A filter stands for the limits of the system.
#[test]
fn one_thread_too_many_is_told_from_other_refusals() {
    let Some((watch, kept, _)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
    drop(watch);
    let watch = Snapshot::open(kept).unwrap();
    let step = |code, jump, value| libc::sock_filter { code, jt: 0, jf: jump, k: value };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32;
    let mut steps = [
        step(0x20, 0, 0),
        libc::sock_filter { code: 0x15, jt: 1, jf: 0, k: libc::SYS_clone3 as u32 },
        step(0x15, 1, libc::SYS_clone as u32),
        step(0x06, 0, refused),
        step(0x06, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 5, filter: steps.as_mut_ptr() };
    // SAFETY: a filter of five steps; this process is the test's own.
    let filters = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    };
    assert!(filters);
    for _ in 0..2 {
        assert!(watch.start().is_err_and(|refusal| refusal.is(NO_THREAD, Errno::AGAIN)));
    }
}
