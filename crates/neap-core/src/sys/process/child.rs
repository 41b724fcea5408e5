//! A bare child of the process: a copy of its memory with the calling thread alone, that nobody but
//! us hears of.
//!
//! Assumes `clone` with `CLONE_PIDFD` (Linux ≥ 5.2) and `waitid(P_PIDFD)` (5.4), found out by doing
//! ([`try_out`]). The exit signal is 0: the program gets no SIGCHLD, and none of its `wait`s sees
//! the child unless it asks for `__WALL` or `__WCLONE`. No fork handler runs. The child has every
//! signal blocked and no open file: it keeps no pipe or socket of the program's open. In it only
//! what is safe in a signal handler may be called. Called with the world stopped, and by the
//! collector's thread.
//!
//! # Safety
//!
//! `clone` on a stack of its own, or a copy of this one, and `waitid`. The child has either a copy
//! of all memory or shares what stays mapped until it has ended, and it calls nothing that needs
//! another thread.

#![allow(unsafe_code)]

use crate::sys::files::descriptor::Descriptor;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering::*};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

use crate::sys::refusal::Refusal;
use crate::sys::{map, signal};

/// A child that has not been reaped.
pub struct Child {
    process: Descriptor,
    /// Its number, which stays its own until it is waited for.
    number: libc::c_long,
}

/// Enough for a marker: its deep structures are outside the stack.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 1 << 20 } else { 256 << 10 };

/// The result of a system call that says -1 on error.
fn result(value: libc::c_long) -> Result<libc::c_long, Errno> {
    if value < 0 {
        // SAFETY: errno is this thread's.
        return Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }));
    }
    Ok(value)
}

/// Makes the child; `None` is what the child itself gets.
///
/// # Safety
/// Where this gives `None`, only what is safe in a signal handler may be called, no lock may be
/// taken that a thread of the parent can hold, and the end is [`exit`].
pub unsafe fn make() -> Result<Option<Child>, Refusal> {
    let mut process: c_int = -1;
    let mask = signal::block_all();
    let made: libc::c_long;
    // Not by `syscall`, which front ends stand before: a child made there goes on with the heap.
    // SAFETY: without CLONE_VM the child runs on its own copy of this stack; the kernel writes the
    // descriptor to `process`.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_clone => made,
            in("rdi") libc::c_long::from(libc::CLONE_PIDFD),
            in("rsi") 0_usize,
            in("rdx") &raw mut process,
            in("r10") 0_usize,
            in("r8") 0_usize,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if made == 0 {
        // SAFETY: the child has descriptors and a name of its own. Where the kernel refuses, files
        // stay open until it exits.
        unsafe {
            libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32);
            libc::syscall(libc::SYS_prctl, libc::PR_SET_NAME, c"neap-mark".as_ptr(), 0, 0, 0);
        }
        return Ok(None);
    }
    signal::restore(&mask);
    if made < 0 {
        return Err(Refusal::new("clone", Errno::from_raw_os_error(-made as i32)));
    }
    // SAFETY: the kernel just gave us this descriptor.
    let process = Descriptor::new(unsafe { OwnedFd::from_raw_fd(process) });
    Ok(Some(Child { process, number: made }))
}

/// Ends the calling child, whatever threads it has.
pub fn exit(code: u8) -> ! {
    loop {
        // SAFETY: ends the process; nothing runs on the way.
        unsafe { libc::syscall(libc::SYS_exit_group, c_int::from(code)) };
    }
}

/// Starts a thread in a child made by [`make`]; it shares the thread-local storage of its maker, so
/// it may use none. False if the system refuses.
///
/// # Safety
/// The caller is such a child, and `function` neither returns before the child's end matters nor
/// uses thread-local storage.
pub unsafe fn start_thread(
    function: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> bool {
    let Ok(stack) = map::allocate(STACK_BYTES) else { return false };
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // SAFETY: the stack is the new thread's alone, and grows downwards from its end.
    unsafe {
        libc::clone(function, stack.add(STACK_BYTES).pointer::<c_void>(), flags, argument) > 0
    }
}

impl Child {
    /// Its number.
    pub fn number(&self) -> i32 {
        self.number as i32
    }

    /// Waits until the child has ended, and takes it off the kernel's list.
    pub fn wait(self) {
        let _ = self.try_wait();
    }

    /// Whether it has ended, so that [`wait`](Self::wait) does not wait.
    pub fn has_ended(&self) -> bool {
        match self.next(libc::WNOHANG | libc::WNOWAIT) {
            Ok(Some(Next::Stopped)) => {
                self.go_on();
                false
            }
            Ok(None) | Err(Errno::INTR) => false,
            Ok(Some(Next::Ended)) | Err(_) => true,
        }
    }

    /// Has it go on after a stop: it was stopped with the program's whole group, and who has the
    /// program go on need not know of it. It has not been waited for: the number is its own.
    fn go_on(&self) {
        // SAFETY: sends a signal to our own child.
        unsafe { libc::syscall(libc::SYS_kill, self.number, libc::SIGCONT) };
    }

    fn try_wait(&self) -> Result<(), Refusal> {
        loop {
            match self.next(0) {
                Ok(Some(Next::Stopped)) => self.go_on(),
                Ok(None) | Err(Errno::INTR) => {}
                Ok(Some(Next::Ended)) => return Ok(()),
                Err(error) => return Err(Refusal::new("waitid", error)),
            }
        }
    }

    /// What became of it, which is waited for unless the options of waitid(2) say otherwise.
    fn next(&self, more: c_int) -> Result<Option<Next>, Errno> {
        const P_PID: libc::c_long = 1;
        const P_PIDFD: libc::c_long = 3;
        let options = libc::WEXITED | libc::WSTOPPED | libc::__WALL | more;
        let ask = |by: libc::c_long, which: libc::c_long| {
            let mut information = core::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
            let to = information.as_mut_ptr();
            // SAFETY: waitid(2) for our own child, with room for what it says: zeroed, or filled in
            // by the kernel.
            unsafe {
                result(libc::syscall(libc::SYS_waitid, by, which, to, options, 0_usize))
                    .map(|_| (*to).si_code)
            }
        };
        let asked = match ask(P_PIDFD, libc::c_long::from(self.process.as_raw_fd())) {
            // The program closed what it did not open, or put something else in its place.
            Err(Errno::BADF | Errno::INVAL) => ask(P_PID, self.number),
            asked => asked,
        };
        match asked {
            Ok(0) => Ok(None),
            Ok(libc::CLD_STOPPED) => Ok(Some(Next::Stopped)),
            // A program that waits for anything with `__WALL` may have been faster: then there is
            // no such child.
            Ok(_) | Err(Errno::CHILD) => Ok(Some(Next::Ended)),
            Err(error) => Err(error),
        }
    }
}

/// What a child has come to.
enum Next {
    Stopped,
    Ended,
}

/// Makes a child that says one word, and waits for it.
pub fn try_out() -> Result<(), Refusal> {
    let answer = map::allocate_shared(crate::addr::PAGE_BYTES)
        .map_err(|error| Refusal::new("mmap", error))?;
    // SAFETY: zeroed memory that stays mapped until the child has ended.
    let word = unsafe { &*answer.pointer::<AtomicU32>() };
    // SAFETY: the child does nothing but store a word and exit.
    let tried = match unsafe { make() } {
        Ok(None) => {
            word.store(1, Release);
            exit(0)
        }
        Ok(Some(child)) => child.try_wait().and_then(|()| match word.load(Acquire) {
            1 => Ok(()),
            _ => Err(Refusal::wrong("clone")),
        }),
        Err(refusal) => Err(refusal),
    };
    map::release(answer, crate::addr::PAGE_BYTES);
    tried
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread;

    #[test]
    fn a_child_sees_the_past_and_is_heard_only_through_shared_memory() {
        let shared = map::allocate_shared(crate::addr::PAGE_BYTES).unwrap();
        // SAFETY: zeroed memory that stays mapped.
        let told = unsafe { &*shared.pointer::<AtomicU32>() };
        static OWN: AtomicU32 = AtomicU32::new(7);
        let go = &raw const OWN;
        // SAFETY: the child stores to memory and exits.
        let made = unsafe { make() }.unwrap();
        let Some(child) = made else {
            // SAFETY: a static.
            told.store(unsafe { (*go).load(Relaxed) }, Relaxed);
            OWN.store(9, Relaxed);
            exit(0)
        };
        OWN.store(8, Relaxed);
        child.wait();
        assert_eq!((told.load(Relaxed), OWN.load(Relaxed)), (7, 8));
    }

    #[test]
    fn the_programs_waits_do_not_see_it() {
        let shared = map::allocate_shared(crate::addr::PAGE_BYTES).unwrap();
        // SAFETY: zeroed memory that stays mapped.
        let may_end = unsafe { &*shared.pointer::<AtomicU32>() };
        // SAFETY: the child only waits for a word.
        let Some(child) = unsafe { make() }.unwrap() else {
            while may_end.load(Acquire) == 0 {
                core::hint::spin_loop();
            }
            exit(0)
        };
        // SAFETY: waits for any child without blocking.
        let waited = unsafe { libc::waitpid(-1, core::ptr::null_mut(), libc::WNOHANG) };
        may_end.store(1, Release);
        assert_eq!(waited, -1, "there is no child to wait for");
        child.wait();
    }

    #[test]
    fn threads_of_a_child_share_its_memory() {
        extern "C" fn add(count: *mut c_void) -> c_int {
            // SAFETY: the caller's counter.
            unsafe { &*count.cast::<AtomicU32>() }.fetch_add(1, SeqCst);
            0
        }
        let shared = map::allocate_shared(crate::addr::PAGE_BYTES).unwrap();
        // SAFETY: zeroed memory that stays mapped.
        let count = unsafe { &*shared.pointer::<AtomicU32>() };
        // SAFETY: the child calls nothing but the system.
        let Some(child) = unsafe { make() }.unwrap() else {
            for _ in 0..3 {
                // SAFETY: as above; the threads use no thread-local storage.
                if !unsafe { start_thread(add, shared.pointer()) } {
                    exit(1);
                }
            }
            while count.load(SeqCst) < 3 {
                core::hint::spin_loop();
            }
            exit(0)
        };
        child.wait();
        assert_eq!(count.load(Relaxed), 3);
    }

    /// A child that stops itself, and exits when it goes on.
    fn stopped() -> Child {
        // SAFETY: the child only stops and exits.
        let made = unsafe { make() }.unwrap();
        // SAFETY: a test that waits for ever is ended.
        unsafe { libc::alarm(20) };
        made.unwrap_or_else(|| {
            // SAFETY: as above.
            unsafe {
                let own = libc::syscall(libc::SYS_getpid);
                libc::syscall(libc::SYS_kill, own, libc::SIGSTOP);
            }
            exit(0)
        })
    }

    #[test]
    fn one_that_was_stopped_goes_on_when_it_is_waited_for() {
        stopped().wait();
    }

    #[test]
    fn one_that_was_stopped_goes_on_when_it_is_asked_after() {
        let child = stopped();
        while !child.has_ended() {
            thread::yield_now();
        }
        child.wait();
    }
}
