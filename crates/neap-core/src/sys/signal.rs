//! Signals as the kernel has them: installing a handler, sending one to a thread, masks.
//!
//! Assumes: `tgkill` (Linux ≥ 2.5.75). The handler's frame lies on the interrupted stack and holds
//! the thread's registers, so scanning that stack from the handler's frame upwards covers them.
//! Invariant: a handler installed here runs with every signal blocked, glibc's own two included: no
//! cancellation reaches a thread in it. Called from the start-up, from the thread that stops, and
//! by the front ends' functions about signals.
//!
//! # Safety
//!
//! System calls about signals, and structures of the kernel's own layout. Sets of the program are
//! read and written up to the kernel's 64 bits only, as its callers promise.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ops::Range;

use rustix::io::Errno;

use crate::sync::function::AtomicFunction;
use crate::sys::thread;

/// What runs in the stopped thread.
pub type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The number used where the program names none. By default it is ignored, so that one which is
/// still pending when the program calls execve(2) does nothing to the next program; it does not
/// queue, so that no limit can refuse it; and hardly a program uses it
/// (`world.why.stop-signal`).
pub const DEFAULT_STOP_SIGNAL: c_int = libc::SIGURG;

/// Bytes of a set of signals in the kernel's calls.
const KERNEL_SET_BYTES: usize = 8;

/// Installs `handler`; system calls that it interrupts go on by themselves. False if the kernel
/// refuses the number.
pub fn install(signal: c_int, handler: Handler) -> bool {
    install_with(signal, handler, libc::SA_RESTART)
}

/// The same for a handler that runs on the thread's alternate stack, if it has one.
pub fn install_on_alternate_stack(signal: c_int, handler: Handler) -> bool {
    install_with(signal, handler, libc::SA_RESTART | libc::SA_ONSTACK)
}

/// Gives a signal its default action.
pub fn set_default(signal: c_int) {
    // SAFETY: a zeroed sigaction is the default action; libc's own function, not the one that a
    // front end may export.
    unsafe {
        let action: libc::sigaction = core::mem::zeroed();
        real_sigaction()(signal, &action, core::ptr::null_mut());
    }
}

/// sigaction(2).
pub type Sigaction =
    unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

/// libc's function of this name, never one that a front end exports.
pub fn real_sigaction() -> Sigaction {
    static REAL: AtomicFunction<Sigaction> = AtomicFunction::none();
    // SAFETY: libc's sigaction has this type.
    unsafe { super::libc_function::libc_function(c"sigaction", &REAL) }
}

fn install_with(signal: c_int, handler: Handler, flags: c_int) -> bool {
    // SAFETY: a zeroed sigaction is a valid value to fill in, and the handler has the right type
    // for SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_SIGINFO;
        libc::sigfillset(&mut action.sa_mask);
        if real_sigaction()(signal, &action, core::ptr::null_mut()) != 0 {
            return false;
        }
    }
    // glibc leaves its own signals out of every mask, and the one by which it cancels a thread
    // would end that in the handler. Its function has put in what the kernel needs to return from a
    // handler, so the mask alone is changed.
    if let Ok(mut action) = kernel_action(signal) {
        action.mask = u64::MAX;
        // SAFETY: a structure of this layout, as the kernel gave it.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &raw const action,
                0_usize,
                KERNEL_SET_BYTES,
            )
        };
    }
    true
}

/// The kernel's structure for rt_sigaction(2).
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// By the kernel's own call, not by libc's function, which the front ends stand before.
fn kernel_action(signal: c_int) -> Result<KernelAction, Errno> {
    let mut action = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: the kernel writes one structure of this layout.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, 0_usize, &raw mut action, KERNEL_SET_BYTES)
    };
    if result == 0 { Ok(action) } else { Err(last_error()) }
}

/// The action in force.
pub fn in_force(signal: c_int) -> Result<libc::sigaction, Errno> {
    let action = kernel_action(signal)?;
    // SAFETY: a zeroed sigaction is a value to fill in; its mask begins with the kernel's 64 bits.
    unsafe {
        let mut known: libc::sigaction = core::mem::zeroed();
        known.sa_sigaction = action.handler;
        known.sa_flags = action.flags as c_int;
        (&raw mut known.sa_mask).cast::<u64>().write(action.mask);
        Ok(known)
    }
}

fn last_error() -> Errno {
    // SAFETY: errno is this thread's.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// What came of sending a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is pending, or was handled.
    Yes,
    /// There is no such thread in this process.
    NoSuchThread,
    /// Too many signals are pending (`RLIMIT_SIGPENDING`); only a real-time one is refused for
    /// that.
    QueueFull,
    /// By every call that could do it; the error of the first.
    Refused(Errno),
}

/// Sends `signal` to one thread of this process; `errno` stays.
pub fn send(thread: i32, signal: c_int) -> Sent {
    // SAFETY: errno is this thread's; the calls only send a signal, and read what we hand them.
    unsafe {
        let errno = *libc::__errno_location();
        let sent = send_by_any_call(thread, signal);
        *libc::__errno_location() = errno;
        sent
    }
}

/// A filter of the process's may refuse one call and allow another.
///
/// # Safety
/// None is needed; for the calls.
unsafe fn send_by_any_call(thread: i32, signal: c_int) -> Sent {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let mut refusal = None;
    for call in [libc::SYS_tgkill, libc::SYS_tkill, libc::SYS_rt_tgsigqueueinfo] {
        // SAFETY: each takes these; the information is a structure of ours, of the size that the
        // kernel reads.
        let result = unsafe {
            match call {
                libc::SYS_tgkill => libc::syscall(call, process, thread, signal),
                libc::SYS_tkill => libc::syscall(call, thread, signal),
                _ => {
                    let mut info: libc::siginfo_t = core::mem::zeroed();
                    info.si_signo = signal;
                    info.si_code = libc::SI_TKILL;
                    // Where the sender is told: behind three words and a gap.
                    (&raw mut info).cast::<i32>().add(4).write(process);
                    libc::syscall(call, process, thread, signal, &raw const info)
                }
            }
        };
        if result == 0 {
            return Sent::Yes;
        }
        match last_error() {
            Errno::SRCH => return Sent::NoSuchThread,
            Errno::AGAIN if signal >= libc::SIGRTMIN() => return Sent::QueueFull,
            error => refusal = refusal.or(Some(error)),
        }
    }
    Sent::Refused(refusal.unwrap_or(Errno::NOSYS))
}

/// Lets `signal` through in the calling thread.
pub fn unblock(signal: c_int) {
    // SAFETY: the set is valid for the calls.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigaddset(&mut set, signal);
        raw_sigmask(libc::SIG_UNBLOCK, &set, core::ptr::null_mut());
    }
}

/// Blocks every signal in the calling thread, for threads of our own; gives the old mask.
pub fn block_all() -> libc::sigset_t {
    // SAFETY: both sets are valid for the calls.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut old: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        raw_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    }
}

/// Until the guard is dropped no signal reaches the calling thread but that of a fault, which ends
/// the process where it is blocked.
pub fn undisturbed() -> Undisturbed {
    undisturbed_but_by(libc::SIGSEGV)
}

/// The same with another one let through, too.
pub fn undisturbed_but_by(signal: c_int) -> Undisturbed {
    // SAFETY: both sets are valid for the calls.
    unsafe {
        let mut others: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut others);
        libc::sigdelset(&mut others, libc::SIGSEGV);
        libc::sigdelset(&mut others, signal);
        raw_sigmask(libc::SIG_BLOCK, &others, &mut before);
        Undisturbed(before)
    }
}

/// See [`undisturbed`].
pub struct Undisturbed(libc::sigset_t);

impl Undisturbed {
    /// Has the signal reach the thread when the guard is dropped, whoever blocked it.
    pub fn open_at_end(&mut self, signal: c_int) {
        // SAFETY: a set of ours; a number that is none changes nothing.
        unsafe { libc::sigdelset(&mut self.0, signal) };
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        restore(&self.0);
    }
}

/// Whether the calling thread has all signals blocked that can be, as our own threads have.
pub fn are_all_blocked() -> bool {
    // SAFETY: no set is given, and the old one is valid for the call.
    let blocked = unsafe {
        let mut blocked: libc::sigset_t = core::mem::zeroed();
        raw_sigmask(libc::SIG_SETMASK, core::ptr::null(), &mut blocked);
        blocked
    };
    // Two cannot be blocked, and two more are libc's own.
    let others = (1..=64).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP, 32, 33].contains(signal));
    // SAFETY: a set, and a number of a signal.
    others.into_iter().all(|signal| unsafe { libc::sigismember(&blocked, signal) } == 1)
}

/// In a thread of our own that runs the program's code: lets `stop_signal` through, and what the
/// thread's own instructions cause.
pub fn unblock_for_program(stop_signal: c_int) {
    // SAFETY: the set is valid for the calls.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        for signal in [
            stop_signal,
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGSYS,
        ] {
            libc::sigaddset(&mut set, signal);
        }
        raw_sigmask(libc::SIG_UNBLOCK, &set, core::ptr::null_mut());
    }
}

/// In a handler: the alternate stack, if that is where it runs.
///
/// # Safety
/// `context` is what the kernel gave the handler, if it lies just above the caller's frame.
pub unsafe fn alternate_stack_below(context: *const c_void) -> Option<Range<usize>> {
    /// What lies between the kernel's context and its handler, at most.
    const NEAR: usize = 64 << 10;
    let distance = (context as usize).wrapping_sub(thread::stack_pointer());
    if distance > NEAR {
        return None;
    }
    // SAFETY: the caller's promise.
    let stack = unsafe { (&raw const (*context.cast::<libc::ucontext_t>()).uc_stack).read() };
    let stack = stack.ss_sp as usize..(stack.ss_sp as usize).wrapping_add(stack.ss_size);
    stack.contains(&thread::stack_pointer()).then_some(stack)
}

/// In a handler: the lowest address that the interrupted code may use of the stack it stands on.
///
/// # Safety
/// `context` is what the kernel gave the handler.
pub unsafe fn interrupted_position(context: *const c_void) -> usize {
    const RED_ZONE_BYTES: usize = 128;
    const REGISTER: usize = libc::REG_RSP as usize;
    // SAFETY: the caller's promise.
    let position = unsafe {
        (&raw const (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[REGISTER]).read()
    };
    (position as usize).saturating_sub(RED_ZONE_BYTES)
}

/// In a handler that blocks all signals: whether another one waits that the interrupted code does
/// not block.
///
/// # Safety
/// `context` is what the kernel gave the handler.
pub unsafe fn is_another_due(context: *const c_void) -> bool {
    let mut pending = 0_u64;
    // SAFETY: the caller's promise; both sets begin with the kernel's 64 bits, and it writes no
    // more.
    unsafe {
        let context = context.cast::<libc::ucontext_t>();
        let blocked = (&raw const (*context).uc_sigmask).cast::<u64>().read();
        libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, KERNEL_SET_BYTES);
        pending & !blocked != 0
    }
}

/// Whether the signal ended a system call of the interrupted code with EINTR. It did not where that
/// code is at the beginning of another handler, whose signal came with this one and ended the call
/// as well.
///
/// # Safety
/// In a handler, with the kernel's context for it.
pub unsafe fn has_ended_a_call(context: *mut core::ffi::c_void) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // SAFETY: the caller's promise. The instruction before is on the same page, which runs.
    unsafe {
        let registers = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let next = registers[libc::REG_RIP as usize] as usize;
        let on_this_page = next % crate::addr::PAGE_BYTES >= SYSCALL.len();
        registers[libc::REG_RAX as usize] == -i64::from(libc::EINTR)
            && (!on_this_page || *((next - SYSCALL.len()) as *const [u8; 2]) == SYSCALL)
    }
}

/// Puts a mask back.
pub fn restore(mask: &libc::sigset_t) {
    // SAFETY: the set is valid.
    unsafe { raw_sigmask(libc::SIG_SETMASK, mask, core::ptr::null_mut()) };
}

/// rt_sigprocmask(2) without libc's (which a front end may interpose). 0 or an error number.
///
/// # Safety
/// `set` and `old` are null or valid.
pub unsafe fn raw_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    let mut copy = 0_u64;
    if !set.is_null() {
        // glibc's own signals 32 and 33 (cancellation, setuid) must never be blocked.
        // SAFETY: a sigset_t begins with the kernel's 64 bits.
        copy = unsafe { *(set as *const u64) } & !(0b11 << 31);
    }
    let set = if set.is_null() { core::ptr::null() } else { &raw const copy };
    // SAFETY: the caller's promise; the kernel writes 8 bytes to `old`.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, old, KERNEL_SET_BYTES) };
    // SAFETY: errno is this thread's.
    if result == 0 { 0 } else { unsafe { *libc::__errno_location() } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicI32, Ordering::*};

    #[cfg(not(miri))]
    #[test]
    fn all_are_blocked_when_all_are() {
        assert!(!are_all_blocked());
        let mask = block_all();
        assert!(are_all_blocked());
        unblock(libc::SIGUSR1);
        assert!(!are_all_blocked());
        restore(&mask);
    }

    #[cfg(not(miri))]
    #[test]
    fn undisturbed_a_thread_hears_of_faults_alone() {
        let before = block_all();
        unblock(libc::SIGSEGV);
        let mut guard = undisturbed();
        guard.open_at_end(libc::SIGUSR2);
        let mask = block_all();
        restore(&mask);
        drop(guard);
        let after = block_all();
        restore(&before);
        // SAFETY: a set, and a number of a signal.
        unsafe {
            assert_eq!(libc::sigismember(&after, libc::SIGUSR2), 0);
            assert_eq!(libc::sigismember(&after, libc::SIGUSR1), 1);
        }
        // SAFETY: a set, and a number of a signal.
        let is_blocked = |signal| unsafe { libc::sigismember(&mask, signal) } == 1;
        assert!(is_blocked(libc::SIGUSR1) && is_blocked(libc::SIGTRAP));
        assert!(!is_blocked(libc::SIGSEGV));
    }

    static SEEN: AtomicI32 = AtomicI32::new(0);
    extern "C" fn handler(signal: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
        SEEN.store(signal, SeqCst);
    }

    #[test]
    fn a_sent_signal_arrives_unless_blocked() {
        let signal = DEFAULT_STOP_SIGNAL;
        assert!(install(signal, handler));
        let thread = super::super::thread::current();
        let mask = block_all();
        assert_eq!(send(thread, signal), Sent::Yes);
        assert_eq!(SEEN.load(SeqCst), 0);
        restore(&mask);
        assert_eq!(SEEN.load(SeqCst), signal);
    }

    #[test]
    fn impossible_signals_and_threads_are_refused() {
        assert!(!install(libc::SIGKILL, handler));
        assert_eq!(send(i32::MAX, 0), Sent::NoSuchThread);
        assert_eq!(send(0, 0), Sent::Refused(Errno::INVAL));
    }

    #[test]
    fn handlers_run_with_every_signal_blocked() {
        assert!(install(libc::SIGUSR2, handler));
        assert_eq!(kernel_action(libc::SIGUSR2).unwrap().mask | KILL_AND_STOP, u64::MAX);
        assert_eq!(in_force(libc::SIGUSR2).unwrap().sa_sigaction, handler as *const () as usize);
    }

    /// The kernel takes these two out of a mask.
    const KILL_AND_STOP: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
}
