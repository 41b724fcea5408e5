//! Tests of the `mprotect` watch beside a handler of faults of the program's own.
//!
//! Invariant: each test runs in a process of its own, which has one handler.
//!
//! # Safety
//! The pages that are written to are the test's own.

#![allow(unsafe_code)]

use super::*;

#[test]
fn other_faults_end_in_the_programs_handler_with_its_mask_and_flags() {
    use core::ffi::{c_int, c_void};
    use core::sync::atomic::{AtomicI32, AtomicUsize};
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    static BLOCKED: AtomicI32 = AtomicI32::new(-1);
    extern "C" fn program(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: the kernel's structure; the page is the test's own.
        unsafe {
            let address = (*info).si_addr() as usize;
            SEEN.store(address, Relaxed);
            let mut mask: libc::sigset_t = core::mem::zeroed();
            signal::raw_sigmask(libc::SIG_BLOCK, core::ptr::null(), &mut mask);
            BLOCKED.store(
                libc::sigismember(&mask, libc::SIGUSR1) * 4
                    + libc::sigismember(&mask, libc::SIGSEGV) * 2
                    + libc::sigismember(&mask, libc::SIGUSR2),
                Relaxed,
            );
            map::set_writable(Address(address & !(PAGE_BYTES - 1)), PAGE_BYTES, true).unwrap();
        }
    }
    let (heap, range, mut watch) = Mprotect::of_new_pages(4);
    let other = map::allocate(PAGE_BYTES).unwrap();
    // The signal itself is open: the handler may write to watched pages.
    for flags in [libc::SA_SIGINFO, libc::SA_SIGINFO | libc::SA_NODEFER] {
        // SAFETY: a valid action; set after ours, as a program does.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = program as *const () as usize;
            action.sa_flags = flags;
            libc::sigaddset(&mut action.sa_mask, libc::SIGUSR1);
            assert_eq!(fault::set_program_action(&action, core::ptr::null_mut()), Some(0));
            let mut old: libc::sigaction = core::mem::zeroed();
            assert_eq!(fault::set_program_action(core::ptr::null(), &mut old), Some(0));
            assert_eq!(old.sa_sigaction, action.sa_sigaction);
        }
        written(&mut watch, &range);
        map::set_writable(other, PAGE_BYTES, false).unwrap();
        // SAFETY: the test's own pages; the first write is ours, the second the program's to
        // handle.
        unsafe {
            heap.pointer::<u8>().write_volatile(1);
            assert_eq!(SEEN.swap(0, Relaxed), 0);
            other.add(8).pointer::<u8>().write_volatile(1);
        }
        assert_eq!(SEEN.swap(0, Relaxed), other.0 + 8);
        assert_eq!(BLOCKED.swap(-1, Relaxed), 4);
        assert_eq!(written(&mut watch, &range), 1);
    }
    // Past the front ends, as by a library that libc's function was found for.
    // SAFETY: a valid action; the test's own pages.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = program as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        signal::real_sigaction()(libc::SIGSEGV, &action, core::ptr::null_mut());
        watch.begin().unwrap();
        written(&mut watch, &range);
        heap.pointer::<u8>().write_volatile(1);
        assert_eq!(SEEN.swap(0, Relaxed), 0);
        map::set_writable(other, PAGE_BYTES, false).unwrap();
        other.add(16).pointer::<u8>().write_volatile(1);
    }
    assert_eq!(SEEN.swap(0, Relaxed), other.0 + 16);
    assert_eq!(written(&mut watch, &range), 1);
}

#[test]
fn the_programs_handler_may_write_to_watched_pages_and_not_fault_itself() {
    use core::ffi::{c_int, c_void};
    static HEAP: AtomicUsize = AtomicUsize::new(0);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static FAULTS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn program(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the test's own pages, and the kernel's structure.
        unsafe {
            (HEAP.load(Relaxed) as *mut u8).write_volatile(1);
            let address = (*info).si_addr() as usize;
            if FAULTS.load(Relaxed) != 0 {
                (address as *mut u8).write_volatile(1);
            }
            map::set_writable(Address(address & !(PAGE_BYTES - 1)), PAGE_BYTES, true).unwrap();
        }
    }
    let (heap, range, mut watch) = Mprotect::of_new_pages(4);
    HEAP.store(heap.0, Relaxed);
    let other = map::allocate(PAGE_BYTES).unwrap();
    // SAFETY: a valid action; set after ours, as a program does.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = program as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigfillset(&mut action.sa_mask);
        assert_eq!(fault::set_program_action(&action, core::ptr::null_mut()), Some(0));
    }
    let fault_once = || {
        map::set_writable(other, PAGE_BYTES, false).unwrap();
        // SAFETY: the test's own page.
        unsafe { other.pointer::<u8>().write_volatile(1) };
    };
    for calls in 1..=3 {
        written(&mut watch, &range);
        fault_once();
        assert_eq!((CALLS.load(Relaxed), written(&mut watch, &range)), (calls, 1));
    }
    // SAFETY: the child faults in its handler, which ends it, or the alarm does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::alarm(20) };
        FAULTS.store(1, Relaxed);
        fault_once();
        // SAFETY: as above.
        unsafe { libc::_exit(7) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
}
