//! Tests of the `mprotect` watch: what its handler does for pages of ours, and leaves to the
//! program.
//!
//! Invariant: each test runs in a process of its own, which has one handler.
//!
//! # Safety
//! The pages that are written to are the test's own.

#![allow(unsafe_code)]

use super::*;

mod of_the_program;

fn written(watch: &mut Mprotect, range: &Range<usize>) -> usize {
    let mut pages = 0;
    watch.take_written(range, &mut |found| pages += found.len() / PAGE_BYTES).unwrap();
    pages
}

#[test]
fn many_holes_make_whole_chunks_written() {
    let bytes = 2 * CHUNK_BYTES;
    let start = map::reserve(bytes, CHUNK_BYTES).unwrap();
    map::commit(start, bytes).unwrap();
    let range = start.0..start.0 + bytes;
    let mut watch = Mprotect::open(range.clone()).unwrap();
    watch.register(&range).unwrap();
    assert_eq!(written(&mut watch, &range), 1024);
    SHARED.most_holes.store(10, Relaxed);
    for page in 0..11 {
        // SAFETY: the test's own pages.
        unsafe { start.add(page * 2 * PAGE_BYTES).pointer::<u8>().write_volatile(1) };
    }
    assert_eq!(written(&mut watch, &range), 512, "the eleventh hole gives the chunk up");
    assert_eq!(written(&mut watch, &range), 0);
    drop(watch);
    // SAFETY: as above; nothing is protected any more.
    unsafe { start.pointer::<u8>().write_volatile(2) };
}

#[test]
fn pages_that_the_kernel_protects_in_part_stay_writable() {
    let (start, range, mut watch) = Mprotect::of_new_pages(8);
    lend(&(start.0 + 6 * PAGE_BYTES..range.end)).unwrap();
    // Two mappings of which only the second would have to be divided.
    divide_at(start, 4);
    let found = with_all_mappings_used(|| {
        let found = written(&mut watch, &range);
        // SAFETY: the test's own pages.
        unsafe { start.pointer::<u8>().write_volatile(1) };
        found
    });
    assert_eq!(found, 8);
    assert_eq!([written(&mut watch, &range), written(&mut watch, &range)], [8, 2]);
}

/// Makes two mappings of one.
fn divide_at(start: Address, page: usize) {
    // SAFETY: the test's own pages.
    let divided = unsafe { libc::madvise(start.pointer(), page * PAGE_BYTES, libc::MADV_DONTFORK) };
    assert_eq!(divided, 0);
}

/// Calls `f` while the process has as many mappings as it may.
fn with_all_mappings_used<R>(f: impl FnOnce() -> R) -> R {
    let most = map::most_mappings().unwrap();
    let filler = map::reserve(2 * most * PAGE_BYTES, PAGE_BYTES).unwrap();
    // SAFETY: pages of this function's own.
    let divide = |page: usize| unsafe {
        libc::mprotect(filler.add(page * PAGE_BYTES).pointer(), PAGE_BYTES, libc::PROT_READ)
    };
    assert!((0..most).map(|index| 2 * index).any(|page| divide(page) != 0));
    let result = f();
    map::release(filler, 2 * most * PAGE_BYTES);
    result
}

/// The frame table knows nothing of them any more: they have to be found protected or written.
#[test]
fn pages_that_the_kernel_lets_go_in_part_are_reported() {
    let (start, range, mut watch) = Mprotect::of_new_pages(8);
    assert_eq!(written(&mut watch, &range), 8);
    divide_at(start, 4);
    // Only the second mapping would have to be divided.
    let some = start.0..start.0 + 6 * PAGE_BYTES;
    with_all_mappings_used(|| watch.unprotect(&some));
    for page in [0, 5] {
        // SAFETY: the test's own pages.
        unsafe { start.add(page * PAGE_BYTES).pointer::<u8>().write_volatile(1) };
    }
    assert_eq!([written(&mut watch, &range), written(&mut watch, &range)], [5, 0]);
}

/// In the child of a fork, which opens a watch of its own before it writes anywhere.
#[test]
fn a_watch_that_is_opened_anew_does_not_wait_for_a_thread_that_is_gone() {
    drop(Mprotect::of_new_pages(8).2);
    SHARED.busy.store(1, Relaxed);
    after_fork();
    let (_, range, mut watch) = Mprotect::of_new_pages(8);
    assert_eq!(written(&mut watch, &range), 8);
    assert_eq!(written(&mut watch, &range), 0);
}

#[test]
fn the_kernel_writes_to_lent_pages_and_they_count_as_written() {
    let (heap, range, mut watch) = Mprotect::of_new_pages(8);
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let fill = || {
        // SAFETY: the test's own pages.
        let filled = unsafe {
            libc::read(std::os::fd::AsRawFd::as_raw_fd(&zero), heap.add(5000).pointer(), 5000)
        };
        (filled, std::io::Error::last_os_error().raw_os_error())
    };
    written(&mut watch, &range);
    assert_eq!(fill(), (-1, Some(libc::EFAULT)), "this is what lending is for");
    let pages = lend(&(heap.0 + 5000..heap.0 + 10_000)).unwrap();
    assert_eq!(pages, 1..3);
    for _ in 0..2 {
        assert_eq!(written(&mut watch, &range), 2, "not protected while they are lent");
        assert_eq!(fill().0, 5000);
    }
    take_back(pages);
    assert_eq!(written(&mut watch, &range), 2);
    assert_eq!(written(&mut watch, &range), 0);
    assert_eq!(fill().0, -1);
    assert_eq!(lend(&(heap.0 - PAGE_BYTES..heap.0)), None);
}

/// In a child of a `fork` the watch is opened while a call waits that began before.
#[test]
fn pages_that_are_lent_before_a_watch_is_open_are_not_protected() {
    let heap = map::allocate(8 * PAGE_BYTES).unwrap();
    let range = heap.0..heap.0 + 8 * PAGE_BYTES;
    assert!(!has_to_lend() && lend(&range).is_none());
    assert!(prepare(&range) && has_to_lend());
    let pages = lend(&(heap.0..heap.0 + 1)).unwrap();
    let mut watch = Mprotect::open(range.clone()).unwrap();
    watch.register(&range).unwrap();
    assert_eq!([written(&mut watch, &range), written(&mut watch, &range)], [8, 1]);
    drop(watch);
    take_back(pages);
    let mut watch = Mprotect::open(range.clone()).unwrap();
    watch.register(&range).unwrap();
    assert_eq!([written(&mut watch, &range), written(&mut watch, &range)], [8, 0]);
}

/// The heap grew by them, and the cycle that registers them comes while the call waits.
#[test]
fn pages_that_are_registered_while_they_are_lent_are_not_protected() {
    let heap = map::allocate(8 * PAGE_BYTES).unwrap();
    let range = heap.0..heap.0 + 8 * PAGE_BYTES;
    let mut watch = Mprotect::open(range.clone()).unwrap();
    watch.register(&(range.start..range.start + 4 * PAGE_BYTES)).unwrap();
    let pages = lend(&(heap.0 + 3 * PAGE_BYTES..heap.0 + 5 * PAGE_BYTES)).unwrap();
    watch.register(&range).unwrap();
    assert_eq!([written(&mut watch, &range), written(&mut watch, &range)], [8, 2]);
    take_back(pages);
    assert_eq!([written(&mut watch, &range), written(&mut watch, &range)], [2, 0]);
}

#[test]
fn what_the_kernel_may_write_to_is_kept_before_a_watch_is_open_and_in_the_next_one() {
    let heap = map::allocate(8 * PAGE_BYTES).unwrap();
    let range = heap.0..heap.0 + 8 * PAGE_BYTES;
    keep(&range);
    assert!(prepare(&range));
    keep(&(heap.0 + 5000..heap.0 + 9000));
    keep(&(range.end..range.end + 1));
    for kept in [2, 3] {
        let mut watch = Mprotect::open(range.clone()).unwrap();
        watch.register(&range).unwrap();
        assert_eq!([written(&mut watch, &range), written(&mut watch, &range)], [8, kept]);
        // While it is protected.
        keep(&(heap.0 + 6 * PAGE_BYTES..heap.0 + 6 * PAGE_BYTES + 1));
        assert_eq!([written(&mut watch, &range), written(&mut watch, &range)], [3, 3]);
    }
}

#[test]
fn a_child_of_fork_finds_the_lock_taken_and_goes_on() {
    let (heap, range, mut watch) = Mprotect::of_new_pages(4);
    written(&mut watch, &range);
    SHARED.busy.store(1, Relaxed);
    // SAFETY: the child writes to pages of the test and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above; a child that waits for ever is ended by the alarm.
        unsafe {
            libc::alarm(10);
            heap.pointer::<u8>().write_volatile(1);
            heap.add(2 * PAGE_BYTES).pointer::<u8>().write_volatile(1);
            libc::_exit(7);
        }
    }
    SHARED.busy.store(0, Relaxed);
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 7, "{status:#x}");
    assert_eq!(written(&mut watch, &range), 0);
}

/// A write that nobody lets go on is tried again for ever if the handler takes it for its own.
#[test]
fn what_is_closed_to_all_writes_beside_watched_pages_is_the_programs() {
    use core::ffi::{c_int, c_void};
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn opens(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: the kernel's structure; the page is the test's own.
        let page = unsafe { Address((*info).si_addr() as usize & !(PAGE_BYTES - 1)) };
        SEEN.store(page.0, Relaxed);
        map::remove_guard(page, PAGE_BYTES);
        map::set_writable(page, PAGE_BYTES, true).unwrap();
    }
    let (heap, range, mut watch) = Mprotect::of_new_pages(4);
    // SAFETY: a valid action, set after ours; a test that stands is ended by the alarm.
    unsafe {
        libc::alarm(20);
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = opens as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(fault::set_program_action(&action, core::ptr::null_mut()), Some(0));
    }
    // SAFETY: the test's own page.
    let write =
        |page: usize| unsafe { heap.add(page * PAGE_BYTES).pointer::<u8>().write_volatile(1) };
    // Of the program's doing; the page counts as written.
    written(&mut watch, &range);
    write(1);
    // SAFETY: the test's own page, which nobody else touches.
    assert!(unsafe { map::forbid(heap.add(PAGE_BYTES), PAGE_BYTES) });
    write(1);
    assert_eq!(SEEN.swap(0, Relaxed), heap.0 + PAGE_BYTES);
    // A guard page, which no protection opens; protected by us or not.
    // SAFETY: nobody needs what they hold.
    if unsafe { map::install_guard(heap.add(2 * PAGE_BYTES), PAGE_BYTES) } {
        write(2);
        assert_eq!(SEEN.swap(0, Relaxed), heap.0 + 2 * PAGE_BYTES);
    }
    write(3);
    assert_eq!(SEEN.load(Relaxed), 0);
    assert_eq!(written(&mut watch, &range), 3);
}

/// From here on the system refuses this process a call, or only with this second argument.
fn refuse(call: libc::c_long, second: Option<libc::c_int>) {
    let step = |code, jump, value: u32| libc::sock_filter { code, jt: 0, jf: jump, k: value };
    let (load, is, answer) = (0x20, 0x15, 0x06);
    let any = libc::sock_filter { code: 0x05, jt: 0, jf: 0, k: 0 };
    let mut steps = [
        step(load, 0, 0),
        step(is, 3, call as u32),
        step(load, 0, 24),
        second.map_or(any, |second| step(is, 1, second as u32)),
        step(answer, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(answer, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 6, filter: steps.as_mut_ptr() };
    // SAFETY: a filter of six steps; this process is the test's own.
    let filters = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    };
    assert!(filters);
}

#[test]
fn the_same_where_a_filter_refuses_the_question_whether_a_page_can_be_written() {
    refuse(libc::SYS_futex, Some(libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG));
    assert!(!fault::can_write(7));
    what_is_closed_to_all_writes_beside_watched_pages_is_the_programs();
}

/// The child has its parent's word for who is at the watch, and nobody to ask which process it is.
#[test]
fn a_child_of_fork_knows_that_it_is_one_where_getpid_is_refused() {
    refuse(libc::SYS_getpid, None);
    a_child_of_fork_finds_the_lock_taken_and_goes_on();
}

/// In a child of `fork` the mappings stay that its parent's watch made.
#[test]
fn fewer_holes_are_made_where_there_are_many_mappings() {
    const ROWS: usize = 8000;
    let (_, _, watch) = Mprotect::of_new_pages(8);
    let before = SHARED.most_holes.load(Relaxed);
    drop(watch);
    let rows = map::allocate(2 * ROWS * PAGE_BYTES).unwrap();
    for row in 0..ROWS {
        map::set_writable(rows.add(2 * row * PAGE_BYTES), PAGE_BYTES, false).unwrap();
    }
    let (_, _, watch) = Mprotect::of_new_pages(8);
    let fewer = before - SHARED.most_holes.load(Relaxed);
    drop(watch);
    assert!((ROWS / 2 - 100..ROWS / 2 + 100).contains(&fewer), "{fewer}");
}

fn limit_data(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a structure of ours.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) }, 0);
}

#[test]
fn where_data_is_limited_nothing_is_protected() {
    if cfg!(any(address_sanitizer, thread_sanitizer)) {
        return println!("# SKIP the sanitizers' tables are more than the limit");
    }
    let (_, range, mut watch) = Mprotect::of_new_pages(8);
    assert_eq!(written(&mut watch, &range), 8);
    limit_data(1 << 40);
    assert_eq!(watch.begin(), try_limits());
    assert!(try_limits().is_err() && SHARED.next(0, 8, true).is_none());
    drop(watch);
    assert!(Mprotect::open(range).is_err());
}

#[test]
fn a_watch_that_cannot_give_its_pages_up_goes_on_with_them() {
    let (start, range, mut watch) = Mprotect::of_new_pages(8);
    assert_eq!(written(&mut watch, &range), 8);
    limit_data(1);
    drop(watch);
    assert!(is_open());
    limit_data(libc::RLIM_INFINITY);
    // SAFETY: the test's own pages.
    unsafe { start.pointer::<u8>().write_volatile(1) };
    let mut watch = Mprotect::open(range.clone()).unwrap();
    watch.register(&range).unwrap();
    assert_eq!([written(&mut watch, &range), written(&mut watch, &range)], [8, 0]);
}

/// A coroutine's stack may be an object of the heap: the lock is taken on it.
#[test]
fn who_stands_on_watched_pages_may_lend_others() {
    const PAGES: usize = 64;
    /// Of the thread's memory, at its end: the kernel writes to the thread's block there.
    const UNWATCHED: usize = 8;
    const MOST_DEEP: usize = 200;
    static DEPTH: AtomicUsize = AtomicUsize::new(0);
    static GO: AtomicUsize = AtomicUsize::new(0);
    #[inline(never)]
    fn descend(depth: usize, lent: &Range<usize>) -> usize {
        match depth {
            0 => {
                lend(lent).inspect(|pages| take_back(pages.clone())).map_or(0, |pages| pages.len())
            }
            _ => core::hint::black_box(descend(depth - 1, lent)),
        }
    }
    #[inline(never)]
    fn descend_from_watched_pages(depth: usize, lent: &Range<usize>) -> usize {
        let mut space = core::mem::MaybeUninit::<[u8; UNWATCHED * PAGE_BYTES]>::uninit();
        core::hint::black_box(&mut space);
        descend(depth, lent)
    }
    extern "C" fn run(lent: *mut core::ffi::c_void) -> *mut core::ffi::c_void {
        crate::sys::protection::alternate_stack::want();
        crate::sys::protection::alternate_stack::provide();
        // SAFETY: the argument of below.
        let lent = unsafe { &*lent.cast::<Range<usize>>() };
        for depth in 1..=MOST_DEEP {
            DEPTH.store(depth, Release);
            while GO.load(Acquire) < depth {
                core::hint::spin_loop();
            }
            assert_eq!(descend_from_watched_pages(depth, lent), 1);
        }
        DEPTH.store(MOST_DEEP + 1, Release);
        core::ptr::null_mut()
    }
    let start = map::allocate((PAGES + UNWATCHED) * PAGE_BYTES).unwrap();
    let range = start.0..start.0 + PAGES * PAGE_BYTES;
    let mut watch = Mprotect::open(range.clone()).unwrap();
    watch.register(&range).unwrap();
    let mut lent = start.0..start.0 + 1;
    // SAFETY: the stack is the thread's until it has been joined; calls with structures of ours.
    unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        let stack = start.add(PAGE_BYTES);
        let bytes = (PAGES - 1 + UNWATCHED) * PAGE_BYTES;
        assert_eq!(libc::pthread_attr_setstack(&mut attributes, stack.pointer(), bytes), 0);
        let mut thread = 0;
        let argument = (&raw mut lent).cast();
        assert_eq!(libc::pthread_create(&mut thread, &attributes, run, argument), 0);
        for depth in 1..=MOST_DEEP {
            while DEPTH.load(Acquire) < depth {
                core::hint::spin_loop();
            }
            written(&mut watch, &range);
            GO.store(depth, Release);
        }
        while DEPTH.load(Acquire) <= MOST_DEEP {
            core::hint::spin_loop();
        }
        drop(watch);
        assert_eq!(libc::pthread_join(thread, core::ptr::null_mut()), 0);
    }
}
