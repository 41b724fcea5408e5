//! SIGSEGV: a handler of ours before the program's, for writes to pages that we protected.
//!
//! Invariant: a fault that is not ours ends where it would have without us: in the action that the program set last, with its mask and flags, or in the process's end. The program's actions are kept
//! here, since ours stays installed; `sigaction` and `signal` of the front ends come to [`set_program_action`]. An action that
//! the program sets past them takes ours away until [`install`] is called again. The handler runs on the
//! faulting thread, every signal blocked, on its alternate stack if it has one. Assumes x86-64: the error code's bit 1 says that the access was a write, bit 4 that it was a fetch of an instruction.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};

use crate::rank::Rank;
use crate::sync::Lock;
use crate::sync::function::{AtomicFunction, function_at};
use crate::sys::refusal::Refusal;
use crate::sys::signal;
use rustix::io::Errno;

/// Asked about each write that faulted, by its address; true if the page is ours and writable now. In the handler: no lock that a thread may hold with signals open, no malloc.
pub type OnWrite = fn(usize) -> bool;

/// None before [`install`].
static ON_WRITE: AtomicFunction<OnWrite> = AtomicFunction::none();
/// What the program wants done. The handler reads it without a lock: each value is new memory that stays, since actions are set seldom and few.
static PROGRAM: AtomicPtr<libc::sigaction> = AtomicPtr::new(core::ptr::null_mut());
/// Who sets actions does so one at a time.
static SETTING: Lock<()> = Lock::new(Rank::Fault, ());

const WRITE: i64 = 1 << 1;
const FETCH: i64 = 1 << 4;

/// sigaction(2) by the kernel's own structure, not by libc's function, which the front ends stand before.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// The action in force.
fn current() -> Result<libc::sigaction, Errno> {
    let mut action = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: the kernel writes one structure of this layout.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, libc::SIGSEGV, 0_usize, &raw mut action, 8_usize)
    };
    if result != 0 {
        // SAFETY: errno is this thread's.
        return Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }));
    }
    // SAFETY: a zeroed sigaction is a value to fill in; its mask begins with the kernel's 64 bits.
    unsafe {
        let mut known: libc::sigaction = core::mem::zeroed();
        known.sa_sigaction = action.handler;
        known.sa_flags = action.flags as c_int;
        (&raw mut known.sa_mask).cast::<u64>().write(action.mask);
        Ok(known)
    }
}

/// Puts our handler before the program's, if it is not there. A handler that took its place and calls the one before it, which is ours, for a fault that neither knows never returns: the process ends by SIGSEGV
/// when the stack does, as it would have.
pub fn install(on_write: OnWrite) -> Result<(), Refusal> {
    let _setting = SETTING.lock();
    let refused = |error| Refusal::new("sigaction", error);
    let action = current().map_err(refused)?;
    if action.sa_sigaction != handler as *const () as usize {
        keep(action);
        // The handler may be called as soon as it is there.
        let before = ON_WRITE.set(Some(on_write));
        if !signal::install_on_alternate_stack(libc::SIGSEGV, handler) {
            ON_WRITE.set(before);
            return Err(refused(Errno::INVAL));
        }
    }
    Ok(())
}

/// Whether our handler is there.
pub fn is_installed() -> bool {
    ON_WRITE.is_set()
}

/// Keeps an action of the program's, and gives the one before.
fn keep(action: libc::sigaction) -> Option<libc::sigaction> {
    let memory = crate::sys::map::allocate(crate::addr::PAGE_BYTES).ok()?;
    let kept = memory.pointer::<libc::sigaction>();
    // SAFETY: fresh memory, large enough; published only after it was written.
    unsafe { kept.write(action) };
    let before = PROGRAM.swap(kept, AcqRel);
    // The one before may be in use by a handler that runs: it stays.
    // SAFETY: stored by this function, never unmapped.
    unsafe { before.as_ref() }.copied()
}

/// sigaction(2) for SIGSEGV as the program sees it. None if our handler is not there: then the caller asks libc.
///
/// # Safety
/// `new` and `old` are null or valid.
pub unsafe fn set_program_action(
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> Option<c_int> {
    if !is_installed() {
        return None;
    }
    let _setting = SETTING.lock();
    // SAFETY: the caller's promise; what is kept stays mapped.
    unsafe {
        let before = PROGRAM.load(Acquire).as_ref().copied();
        if let Some(new) = new.as_ref() {
            keep(*new)?;
        }
        if let (Some(before), false) = (before, old.is_null()) {
            old.write(before);
        }
    }
    Some(0)
}

extern "C" fn handler(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: errno is this thread's; the kernel's frame is valid while the handler runs.
    let (errno, address, error) = unsafe {
        let frame = &*context.cast::<libc::ucontext_t>();
        let error = frame.uc_mcontext.gregs[libc::REG_ERR as usize];
        (*libc::__errno_location(), (*info).si_addr() as usize, error)
    };
    // SAFETY: as above.
    let by_the_kernel = unsafe { (*info).si_code } > 0;
    let is_write = error & (WRITE | FETCH) == WRITE;
    let ours =
        by_the_kernel && is_write && ON_WRITE.get().is_some_and(|on_write| on_write(address));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    if !ours {
        // SAFETY: the kernel's own arguments.
        unsafe { pass_on(number, info, context) };
    }
}

/// Does what the program wants done.
///
/// # Safety
/// In the handler, with its arguments.
unsafe fn pass_on(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: what is kept stays mapped.
    let action = unsafe { PROGRAM.load(Acquire).as_ref() }.copied();
    let wanted = action.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    let flags = action.map_or(0, |action| action.sa_flags);
    if wanted == libc::SIG_DFL || wanted == libc::SIG_IGN {
        // A fault cannot be ignored: the instruction faults again, and then there is nobody to handle it. One that was sent is gone, if that is what was wanted.
        // SAFETY: sets the default action.
        unsafe {
            if (*info).si_code > 0 || wanted == libc::SIG_DFL {
                signal::set_default(number);
                if (*info).si_code <= 0 {
                    signal::send(crate::sys::thread::current(), number);
                }
            }
        }
        return;
    }
    if flags & libc::SA_RESETHAND != 0 {
        // SAFETY: a zeroed sigaction is the default action.
        keep(unsafe { core::mem::zeroed() });
    }
    // SAFETY: the frame's mask is what the program had; the handler is the program's, called as the kernel would.
    unsafe {
        let mut mask = (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        let mut wanted_mask = mask;
        if let Some(action) = &action {
            let added = (&raw const action.sa_mask).cast::<u64>().read();
            let own = if flags & libc::SA_NODEFER == 0 { 1 << (number - 1) } else { 0 };
            let word = (&raw mut wanted_mask).cast::<u64>();
            word.write(word.read() | added | own);
        }
        signal::raw_sigmask(libc::SIG_SETMASK, &wanted_mask, core::ptr::null_mut());
        if flags & libc::SA_SIGINFO != 0 {
            function_at::<signal::Handler>(wanted)(number, info, context);
        } else {
            function_at::<extern "C" fn(c_int)>(wanted)(number);
        }
        // What follows is ours again; the kernel puts the program's mask back when the handler returns.
        libc::sigfillset(&mut mask);
        signal::raw_sigmask(libc::SIG_SETMASK, &mask, core::ptr::null_mut());
    }
}
